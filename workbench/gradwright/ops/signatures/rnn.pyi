"""Functions of the namespace rnn; written by python -m gradwright.ops.stubs."""

from collections.abc import Sequence

from numpy.typing import ArrayLike

from gradwright.graph import Tensor

def gru(
    x: Tensor | ArrayLike,
    w: Tensor | ArrayLike,
    r: Tensor | ArrayLike,
    b: Tensor | ArrayLike | None = None,
    lengths: Tensor | ArrayLike | None = None,
    initial_h: Tensor | ArrayLike | None = None,
    *,
    direction: str = "forward",
    layout: int = 0,
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    linear_before_reset: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Gated recurrent units of one direction or two (Cho et al. 2014).

    z, r = σ(x_t wᵀ + h_{t-1} rᵀ + b_w + b_r), n = tanh(x_t wᵀ + (r⊙h_{t-1}) rᵀ + …),
    h_t = (1 − z)⊙n + z⊙h_{t-1}

    x: f32[T, B, I], w: f32[D, 3·H, I], r: f32[D, 3·H, H] with the blocks z, r, n; b: f32[D, 6·H],
    lengths: i32[B], initial_h: f32[D, B, H] -> y: f32[T, D, B, H] and the last h:
    f32[D, B, H]. With ``linear_before_reset`` n = tanh(x_t wᵀ + b_w + r⊙(h_{t-1} rᵀ + b_r)), as in
    cuDNN and torch. D is 2 for bidirectional; ``layout=1`` moves the batch to the front of x, y and
    h. Past the end of a sequence y is 0 and h stays. Raises ShapeError where these differ
    (ONNX GRU-22).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", "T", 3))
    >>> y, h = gw.rnn.gru(x, g.variable("w", (2, 6, 3)), g.variable("r", (2, 6, 2)),
    ...                   direction="bidirectional", layout=1)
    >>> y.shape, h.shape
    ((B, T, 2, 2), (B, 2, 2))

    Attributes:
        direction: Way through time. One of 'forward', 'reverse', 'bidirectional'.
        layout: 0: time first; 1: batch first. One of 0, 1.
        activations: Functions by ONNX name, per direction.
        activation_alpha: α of those that have one, in order.
        activation_beta: β of those that have one, in order.
        clip: Largest size of what goes into an activation.
        linear_before_reset: Apply r to the product with h, not to h.
    """

def gru_cell(
    x: Tensor | ArrayLike,
    h: Tensor | ArrayLike,
    w: Tensor | ArrayLike,
    r: Tensor | ArrayLike,
    b: Tensor | ArrayLike | None = None,
    *,
    linear_before_reset: bool = False,
    activations: Sequence[str] = ("sigmoid", "tanh"),
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    name: str | None = None,
) -> Tensor:
    """One step of gated recurrent units (Cho et al. 2014).

    z, r = σ(x wᵀ + h rᵀ + b_w + b_r), n = tanh(x wᵀ + (r⊙h) rᵀ + …), h' = (1 − z)⊙n + z⊙h

    x: f32[B, I], h: f32[B, H], w: f32[3·H, I], r: f32[3·H, H] with the blocks z, r, n, b: f32[6·H].
    With ``linear_before_reset`` n = tanh(x wᵀ + b_w + r⊙(h rᵀ + b_r)), as in cuDNN and torch.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> h, w = g.constant([[1.0]]), g.constant([[0.0]] * 3)
    >>> g.output({}, gw.rnn.gru_cell(h, h, w, w, name="h"))["h"].tolist()
    [[0.5]]

    Attributes:
        linear_before_reset: Apply r to the product with h, not to h.
        activations: Functions of the gates and of n, by ONNX name.
        activation_alpha: α of those that have one, in order.
        activation_beta: β of those that have one, in order.
        clip: Largest size of what goes into an activation.
    """

def lstm(
    x: Tensor | ArrayLike,
    w: Tensor | ArrayLike,
    r: Tensor | ArrayLike,
    b: Tensor | ArrayLike | None = None,
    lengths: Tensor | ArrayLike | None = None,
    initial_h: Tensor | ArrayLike | None = None,
    initial_c: Tensor | ArrayLike | None = None,
    p: Tensor | ArrayLike | None = None,
    *,
    direction: str = "forward",
    layout: int = 0,
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    input_forget: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Long short-term memory of one direction or two (Hochreiter and Schmidhuber 1997).

    i, o, f = σ(x_t wᵀ + h_{t-1} rᵀ + b_w + b_r + p⊙c), g = tanh(…),
    c_t = f⊙c_{t-1} + i⊙g, h_t = o⊙tanh(c_t)

    x: f32[T, B, I], w: f32[D, 4·H, I], r: f32[D, 4·H, H] with the blocks i, o, f, g;
    b: f32[D, 8·H], lengths: i32[B], initial_h, initial_c: f32[D, B, H], and peepholes
    p: f32[D, 3·H] of i, o, f, where o sees c_t -> y: f32[T, D, B, H], last h and c: f32[D, B, H].
    D is 2 for bidirectional. ``layout=1`` moves the batch to the front of x, y, h and c. Past the
    end of a sequence y is 0 and the states stay. Raises ShapeError where these differ
    (ONNX LSTM-22).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("T", "B", 3))
    >>> y, h, c = gw.rnn.lstm(x, g.variable("w", (1, 8, 3)), g.variable("r", (1, 8, 2)))
    >>> y.shape, c.shape
    ((T, 1, B, 2), (1, B, 2))

    Attributes:
        direction: Way through time. One of 'forward', 'reverse', 'bidirectional'.
        layout: 0: time first; 1: batch first. One of 0, 1.
        activations: Functions by ONNX name, per direction.
        activation_alpha: α of those that have one, in order.
        activation_beta: β of those that have one, in order.
        clip: Largest size of what goes into an activation.
        input_forget: Let f be 1 − i.
    """

def lstm_block(
    x: Tensor | ArrayLike,
    w: Tensor | ArrayLike,
    r: Tensor | ArrayLike,
    b: Tensor | ArrayLike | None = None,
    h: Tensor | ArrayLike | None = None,
    c: Tensor | ArrayLike | None = None,
    p: Tensor | ArrayLike | None = None,
    *,
    forget_bias: float = 1.0,
    name: str | None = None,
) -> Tensor:
    """Long short-term memory that also returns its gates and cells at each step.

    As ``lstm`` forwards, without a layout: x: f32[T, B, I], w: f32[4·H, I], r: f32[4·H, H] with the
    blocks i, o, f, g, b: f32[8·H], c and h before the first step: f32[B, H], peepholes p: f32[3·H].
    ``forget_bias`` is added to what goes into f. Results, f32[T, B, H] each: i, c, f, o, g,
    tanh(c), h, in the order of TensorFlow's BlockLSTM.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[0.0]], [[0.0]]]), g.constant([[0.0]] * 4)
    >>> i, c, f, *_ = gw.rnn.lstm_block(x, w, w, forget_bias=0.0, name="block")
    >>> g.output({}, f)[f.name].ravel().tolist()
    [0.5, 0.5]

    Attributes:
        forget_bias: Added to what goes into the forget gate.
    """

def lstm_cell(
    x: Tensor | ArrayLike,
    h: Tensor | ArrayLike,
    c: Tensor | ArrayLike,
    w: Tensor | ArrayLike,
    r: Tensor | ArrayLike,
    b: Tensor | ArrayLike | None = None,
    p: Tensor | ArrayLike | None = None,
    *,
    activations: Sequence[str] = ("sigmoid", "tanh", "tanh"),
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    input_forget: bool = False,
    name: str | None = None,
) -> Tensor:
    """One step of long short-term memory (Hochreiter and Schmidhuber 1997; Gers et al. 2000).

    i, o, f = σ(x wᵀ + h rᵀ + b_w + b_r + p⊙c), g = tanh(…), c' = f⊙c + i⊙g, h' = o⊙tanh(c')

    x: f32[B, I], h, c: f32[B, H], w: f32[4·H, I], r: f32[4·H, H] with the blocks i, o, f, g, and
    b: f32[8·H], p: f32[3·H] (peepholes of i, o, f, where o sees c') -> h', c': f32[B, H].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[0.0]]), g.constant([[0.0]] * 4)
    >>> h, c = gw.rnn.lstm_cell(x, x, x + 1.0, w, w, name="cell")
    >>> g.output({}, c)[c.name].tolist()
    [[0.5]]

    Attributes:
        activations: Functions of the gates, of g, of c', by ONNX name.
        activation_alpha: α of those that have one, in order.
        activation_beta: β of those that have one, in order.
        clip: Largest size of what goes into an activation.
        input_forget: Let f be 1 − i.
    """

def rnn(
    x: Tensor | ArrayLike,
    w: Tensor | ArrayLike,
    r: Tensor | ArrayLike,
    b: Tensor | ArrayLike | None = None,
    lengths: Tensor | ArrayLike | None = None,
    initial_h: Tensor | ArrayLike | None = None,
    *,
    direction: str = "forward",
    layout: int = 0,
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Recurrent layer of one direction or two (Elman 1990).

    h_t = f(x_t wᵀ + h_{t-1} rᵀ + b_w + b_r), with f tanh by default

    x: f32[T, B, I], w: f32[D, H, I], r: f32[D, H, H], b: f32[D, 2·H], lengths: i32[B],
    initial_h: f32[D, B, H] -> y: f32[T, D, B, H] and the last h: f32[D, B, H]; D is 2 for
    bidirectional. ``layout=1`` moves the batch to the front of x, y and h. Past the end of a
    sequence y is 0 and h stays. Raises ShapeError where these differ (ONNX RNN-22).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[1.0]], [[2.0]], [[3.0]]]), g.constant([[[1.0]]])
    >>> y, last = gw.rnn.rnn(x, w, w, activations=("relu",), name="rnn")
    >>> g.output({}, y)[y.name].ravel().tolist()
    [1.0, 3.0, 6.0]

    Attributes:
        direction: Way through time. One of 'forward', 'reverse', 'bidirectional'.
        layout: 0: time first; 1: batch first. One of 0, 1.
        activations: Functions by ONNX name, per direction.
        activation_alpha: α of those that have one, in order.
        activation_beta: β of those that have one, in order.
        clip: Largest size of what goes into an activation.
    """

def rnn_cell(
    x: Tensor | ArrayLike,
    h: Tensor | ArrayLike,
    w: Tensor | ArrayLike,
    r: Tensor | ArrayLike,
    b: Tensor | ArrayLike | None = None,
    *,
    activation: str = "tanh",
    alpha: float | None = None,
    beta: float | None = None,
    clip: float | None = None,
    name: str | None = None,
) -> Tensor:
    """One step of a plain recurrent layer (Elman 1990).

    h' = f(x wᵀ + h rᵀ + b_w + b_r), x: f32[B, I], h: f32[B, H], w: f32[H, I], r: f32[H, H],
    b: f32[2·H]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> one = g.constant([[1.0]])
    >>> g.output({}, gw.rnn.rnn_cell(one, one, one, one, activation="relu", name="h"))["h"].item()
    2.0

    Attributes:
        activation: Function by its ONNX name.
        alpha: α of the function, if it has one.
        beta: β of the function, if it has one.
        clip: Largest size of what goes into the function.
    """

def sru(
    x: Tensor | ArrayLike,
    w: Tensor | ArrayLike,
    b: Tensor | ArrayLike | None = None,
    initial_c: Tensor | ArrayLike | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Layer of simple recurrent units, where only a linear recurrence goes step by step.

    u, f, r = x wᵀ, σ(x wᵀ + b), σ(x wᵀ + b), c_t = f_t⊙c_{t-1} + (1 − f_t)⊙u_t,
    h_t = r_t⊙tanh(c_t) + (1 − r_t)⊙x_t (Lei et al. 2018)

    x: f32[T, B, N], w: f32[3·N, N] with the blocks u, f, r, b: f32[2·N], initial_c: f32[B, N]
    -> h, c: f32[T, B, N]; raises ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[0.0]], [[0.0]]]), g.constant([[0.0]] * 3)
    >>> h, c = gw.rnn.sru(x, w, None, g.constant([[4.0]]), name="sru")
    >>> g.output({}, c)[c.name].ravel().tolist()
    [2.0, 1.0]
    """

def sru_cell(
    x: Tensor | ArrayLike,
    c: Tensor | ArrayLike,
    w: Tensor | ArrayLike,
    b: Tensor | ArrayLike | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """One step of simple recurrent units (Lei et al. 2018).

    u, f, r = x wᵀ, σ(x wᵀ + b), σ(x wᵀ + b), c' = f⊙c + (1 − f)⊙u, h = r⊙tanh(c') + (1 − r)⊙x

    x, c: f32[B, N], w: f32[3·N, N] with the blocks u, f, r, b: f32[2·N] -> h, c': f32[B, N]; raises
    ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> c, w = g.constant([[1.0]]), g.constant([[0.0]] * 3)
    >>> h, after = gw.rnn.sru_cell(c, c, w, name="cell")
    >>> g.output({}, after)[after.name].tolist()
    [[0.5]]
    """
