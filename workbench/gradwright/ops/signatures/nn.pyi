"""Functions of the namespace nn; written by python -m gradwright.ops.stubs."""

from numpy.typing import ArrayLike

from gradwright.graph import Tensor

def causal_mask(scores: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Which keys each query may see: those at its own position and before.

    y[i, j] = j ≤ i, of the shape of the last two axes of ``scores``

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.causal_mask(g.constant([[0.0, 0.0]])))["causal_mask"].tolist()
    [[True, False]]
    """

def elu(x: Tensor | ArrayLike, alpha: float = 1.0, *, name: str | None = None) -> Tensor:
    """Exponential linear unit (Clevert, Unterthiner and Hochreiter 2015).

    y = x for x > 0, else α(eˣ − 1)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.elu(g.constant([-100.0, 2.0])))["elu"].tolist()
    [-1.0, 2.0]

    Attributes:
        alpha: Minus the limit for x → −∞.
    """

def embedding(
    ids: Tensor | ArrayLike, weight: Tensor | ArrayLike, *, name: str | None = None
) -> Tensor:
    """Rows of a table by number; the gradient adds up over repeated numbers.

    y[…, :] = weight[ids[…], :]

    An id that is no row of the table is an error when it is run.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> table = g.variable("table", (3, 2), init=[[0, 0], [1, 2], [3, 4]])
    >>> g.output({}, gw.nn.embedding(g.constant([2, 1]), table))["embedding"].tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    """

def gelu(x: Tensor | ArrayLike, approximate: str = "none", *, name: str | None = None) -> Tensor:
    """Gaussian error linear unit (Hendrycks and Gimpel 2016).

    y = x·Φ(x), with Φ the normal distribution function; approximate="tanh" takes
    y = x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.gelu(g.constant([0.0, 1.0])))["gelu"].round(4)
    array([0.    , 0.8413], dtype=float32)

    Attributes:
        approximate: Exact, or by tanh.
    """

def hard_sigmoid(
    x: Tensor | ArrayLike,
    alpha: float = 0.16666666666666666,
    beta: float = 0.5,
    *,
    name: str | None = None,
) -> Tensor:
    """Piecewise linear sigmoid (Howard et al. 2019 with the default slope).

    y = min(max(αx + β, 0), 1)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.hard_sigmoid(g.constant([-9.0, 0.0, 9.0])))["hard_sigmoid"].tolist()
    [0.0, 0.5, 1.0]

    Attributes:
        alpha: Slope.
        beta: Value at 0.
    """

def layer_norm(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike | None = None,
    bias: Tensor | ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float = 1e-05,
    name: str | None = None,
) -> Tensor:
    """Bring each example to mean 0 and variance 1 over its last axes (Ba, Kiros, Hinton 2016).

    y = (x − mean x)/√(var x + ε)·weight + bias

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.layer_norm(g.constant([[1.0, 3.0], [5.0, 5.0]]))
    >>> g.output({}, y)["layer_norm"].round(3).tolist()
    [[-1.0, 1.0], [0.0, 0.0]]

    Attributes:
        axis: First normalised axis; all from there on are.
        eps: Added to the variance, so that constants do not divide by 0.
    """

def leaky_relu(
    x: Tensor | ArrayLike, negative_slope: float = 0.01, *, name: str | None = None
) -> Tensor:
    """Relu with a slope for negative inputs (Maas, Hannun and Ng 2013).

    y = x for x > 0, else negative_slope·x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.leaky_relu(g.constant([-2.0, 2.0]), negative_slope=0.5)
    >>> g.output({}, y)["leaky_relu"].tolist()
    [-1.0, 2.0]

    Attributes:
        negative_slope: Slope where x is negative.
    """

def linear(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Affine map over the last axis, with the weight in matmul layout: one column per output.

    y = x @ weight + bias, with x: f32[…, in], weight: f32[in, out], bias: f32[out]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([1.0, 2.0]), g.variable("w", (2, 3), init=1.0)
    >>> g.output({}, gw.nn.linear(x, w))["linear"].tolist()
    [3.0, 3.0, 3.0]
    """

def log_softmax(x: Tensor | ArrayLike, axis: int = -1, *, name: str | None = None) -> Tensor:
    """Logarithm of softmax along ``axis``, precise where that is tiny.

    yᵢ = xᵢ − max x − log Σⱼ exp(xⱼ − max x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.log_softmax(g.constant([0.0, 1000.0])))["log_softmax"].tolist()
    [-1000.0, 0.0]

    Attributes:
        axis: Axis that sums to one.
    """

def relu(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Rectified linear unit; the gradient at 0 is 0 (Nair and Hinton 2010).

    y = max(x, 0)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.relu(g.constant([-1.0, 2.0]))
    >>> g.output({}, y)["relu"].tolist()
    [0.0, 2.0]
    """

def relu6(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Relu that stops at 6; the gradient at 0 and 6 is 0 (Howard et al. 2017).

    y = min(max(x, 0), 6)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.relu6(g.constant([-1.0, 2.0, 9.0])))["relu6"].tolist()
    [0.0, 2.0, 6.0]
    """

def rms_norm(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float = 1e-05,
    name: str | None = None,
) -> Tensor:
    """Divide each example by its root mean square over the last axes (Zhang, Sennrich 2019).

    y = x/√(mean x² + ε)·weight

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.rms_norm(g.constant([3.0, 4.0]))
    >>> g.output({}, y)["rms_norm"].round(3)
    array([0.849, 1.131], dtype=float32)

    Attributes:
        axis: First normalised axis; all from there on are.
        eps: Added to the variance, so that constants do not divide by 0.
    """

def scaled_dot_product_attention(
    query: Tensor | ArrayLike,
    key: Tensor | ArrayLike,
    value: Tensor | ArrayLike,
    attn_mask: Tensor | ArrayLike | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    name: str | None = None,
) -> Tensor:
    """Average of values, weighted by how well keys match queries (Vaswani et al. 2017).

    y = softmax(query @ keyᵀ·scale + attn_mask) @ value over the last two axes, with
    query: f32[…, L, E], key: f32[…, S, E], value: f32[…, S, D]; leading axes broadcast.

    A bool ``attn_mask`` says which keys are seen, a floating one is added to the scores, where −∞
    hides. Queries that see no key get zeros, in the result and in the gradient.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, v = g.constant([[1.0], [1.0]]), g.constant([[2.0], [4.0]])
    >>> y = gw.nn.scaled_dot_product_attention(q, q, v, is_causal=True, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[2.0], [3.0]]

    Attributes:
        is_causal: Let position i see keys 0 to i only.
        scale: Factor of the scores; None is 1/√E.
    """

def sigmoid(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Logistic function, precise in both tails.

    y = 1/(1 + e⁻ˣ)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.sigmoid(g.constant([-1000.0, 0.0])))["sigmoid"].tolist()
    [0.0, 0.5]
    """

def silu(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Sigmoid-weighted linear unit, also called swish (Elfwing, Uchibe and Doya 2017).

    y = x·sigmoid(x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.silu(g.constant([-1000.0, 0.0, 1000.0])))["silu"].tolist()
    [-0.0, 0.0, 1000.0]
    """

def softmax(x: Tensor | ArrayLike, axis: int = -1, *, name: str | None = None) -> Tensor:
    """Normalise logits to probabilities along ``axis``; never overflows.

    yᵢ = exp(xᵢ − max x) / Σⱼ exp(xⱼ − max x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.softmax(g.constant([1000.0, 1000.0])))["softmax"].tolist()
    [0.5, 0.5]

    Attributes:
        axis: Axis that sums to one.
    """

def softplus(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Smooth relu; never overflows.

    y = log(1 + eˣ)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.softplus(g.constant([-1000.0, 1000.0])))["softplus"].tolist()
    [0.0, 1000.0]
    """
