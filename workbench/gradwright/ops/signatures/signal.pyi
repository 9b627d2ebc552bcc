"""Functions of the namespace signal; written by python -m gradwright.ops.stubs."""

from numpy.typing import ArrayLike, DTypeLike

from gradwright.graph import Tensor
from gradwright.spec import AnyDim

def blackman_window(
    size: AnyDim, periodic: bool = True, dtype: DTypeLike = "float32", *, name: str | None = None
) -> Tensor:
    """Blackman window.

    y[k] = 0.42 − ½·cos(2πk/N) + 0.08·cos(4πk/N), N = size, or size − 1 without ``periodic``

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.signal.blackman_window(4, dtype="float64", name="y")
    >>> abs(g.output({}, y)["y"]).round(4).tolist()
    [0.0, 0.34, 1.0, 0.34]

    Attributes:
        size: Number of elements.
        periodic: Whether the window is the start of one that has one more.
        dtype: Dtype of the result.
    """

def dft(
    x: Tensor | ArrayLike,
    dft_length: AnyDim | None = None,
    axis: int = -2,
    inverse: bool = False,
    onesided: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Fourier transform with real and imaginary parts on the last axis (ONNX DFT-20).

    y[k] = Σⱼ x[j]·e^(−2πi·jk/n); inverse: y[j] = 1/n Σₖ x[k]·e^(2πi·jk/n)

    ``f32[..., N, ..., 1]`` (real) or ``f32[..., N, ..., 2]`` becomes ``f32[..., n, ..., 2]``. With
    ``onesided`` the transform of a real tensor has ⌊n/2⌋ + 1 bins, and the inverse takes such a
    half and gives a real tensor ``f32[..., n, ..., 1]``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.signal.dft(g.placeholder("x", ("B", 8, 1)), onesided=True).shape
    (B, 5, 2)

    Attributes:
        dft_length: Number of elements transformed: n.
        axis: Axis to transform; not the last one.
        inverse: Whether to transform back.
        onesided: Whether only one half of a symmetric spectrum is stored.
    """

def fft(
    x: Tensor | ArrayLike,
    n: AnyDim | None = None,
    axis: int = -1,
    norm: str = "backward",
    *,
    name: str | None = None,
) -> Tensor:
    """Fourier transform along an axis; always complex.

    y[k] = Σⱼ x[j]·e^(−2πi·jk/n)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.signal.fft(g.constant([1.0, 0.0, 0.0]), name="y"))["y"].real.tolist()
    [1.0, 1.0, 1.0]

    Attributes:
        n: Number of elements transformed; None: as many as there are.
        axis: Axis to transform.
        norm: Which transform divides by n; with ortho both divide by its root. One of 'backward', 'forward', 'ortho'.
    """

def frame(
    x: Tensor | ArrayLike, frame_length: AnyDim, frame_step: int, *, name: str | None = None
) -> Tensor:
    """Frames of the last axis, each ``frame_step`` after the one before; a rest is left out.

    y[…, f, i] = x[…, f·frame_step + i]

    ``f32[..., T]`` becomes ``f32[..., ⌊(T − frame_length)/frame_step⌋ + 1, frame_length]``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.signal.frame(g.constant([1, 2, 3, 4, 5, 6]), 3, 2))["frame"].tolist()
    [[1, 2, 3], [3, 4, 5]]

    Attributes:
        frame_length: Number of elements of a frame.
        frame_step: Distance of the starts of two frames.
    """

def hamming_window(
    size: AnyDim, periodic: bool = True, dtype: DTypeLike = "float32", *, name: str | None = None
) -> Tensor:
    """Hamming window with ONNX's coefficients, which are those of least side lobes.

    y[k] = 25/46 − 21/46·cos(2πk/N), N = size, or size − 1 without ``periodic``

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.signal.hamming_window(3, periodic=False, dtype="float64", name="y")
    >>> g.output({}, y)["y"].round(4).tolist()
    [0.087, 1.0, 0.087]

    Attributes:
        size: Number of elements.
        periodic: Whether the window is the start of one that has one more.
        dtype: Dtype of the result.
    """

def hann_window(
    size: AnyDim, periodic: bool = True, dtype: DTypeLike = "float32", *, name: str | None = None
) -> Tensor:
    """Hann window.

    y[k] = ½ − ½·cos(2πk/N), N = size, or size − 1 without ``periodic``

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.signal.hann_window(4, name="y")
    >>> g.output({}, y)["y"].tolist()
    [0.0, 0.5, 1.0, 0.5]

    Attributes:
        size: Number of elements.
        periodic: Whether the window is the start of one that has one more.
        dtype: Dtype of the result.
    """

def ifft(
    x: Tensor | ArrayLike,
    n: AnyDim | None = None,
    axis: int = -1,
    norm: str = "backward",
    *,
    name: str | None = None,
) -> Tensor:
    """Inverse of the Fourier transform along an axis; always complex.

    y[j] = 1/n Σₖ x[k]·e^(2πi·jk/n)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([1.0, 2.0, 3.0])
    >>> y = gw.signal.ifft(gw.signal.fft(x), name="y")
    >>> g.output({}, y)["y"].real.round(4).tolist()
    [1.0, 2.0, 3.0]

    Attributes:
        n: Number of elements transformed; None: as many as there are.
        axis: Axis to transform.
        norm: Which transform divides by n; with ortho both divide by its root. One of 'backward', 'forward', 'ortho'.
    """

def irfft(
    x: Tensor | ArrayLike,
    n: AnyDim | None = None,
    axis: int = -1,
    norm: str = "backward",
    *,
    name: str | None = None,
) -> Tensor:
    """Real tensor of n elements whose Fourier transform begins with the given bins.

    y[j] = 1/n Σₖ x[k]·e^(2πi·jk/n) over k = −⌊(n − 1)/2⌋ … ⌊n/2⌋ with x[−k] = conj x[k]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([1.0, 2.0, 3.0])
    >>> y = gw.signal.irfft(gw.signal.rfft(x), n=3, name="y")
    >>> g.output({}, y)["y"].round(4).tolist()
    [1.0, 2.0, 3.0]

    Attributes:
        n: Number of elements; None: twice the bins less one.
        axis: Axis to transform.
        norm: Which transform divides by n; with ortho both divide by its root. One of 'backward', 'forward', 'ortho'.
    """

def istft(
    spectrum: Tensor | ArrayLike,
    window: Tensor | ArrayLike | None = None,
    *,
    frame_step: int,
    frame_length: AnyDim | None = None,
    onesided: bool = True,
    length: AnyDim | None = None,
    name: str | None = None,
) -> Tensor:
    """Signal whose frames have given Fourier transforms, as nearly as it can (Griffin, Lim 1984).

    y[…, t] = Σ window[i]·xₜ[…, f, i] / Σ window[i]² over f·frame_step + i = t

    where xₜ are the frames transformed back. It undoes ``stft`` where windows overlap; where all of
    them are 0, so is y. ``spectrum: f32[..., F, K, 2]``, ``window: f32[L]``, and the result is
    ``f32[..., T, 1]``, or without ``onesided`` ``f32[..., T, 2]``, with
    T = (F − 1)·frame_step + L unless ``length`` is given.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 3, 5, 2))
    >>> gw.signal.istft(x, frame_step=4).shape
    (B, 16, 1)

    Attributes:
        frame_step: Distance of the starts of two frames.
        frame_length: Number of elements of a frame: L; None: what an even one must be.
        onesided: Whether only one half of a symmetric spectrum is given.
        length: Length of the result, cut or filled up with zeros.
    """

def overlap_add(x: Tensor | ArrayLike, frame_step: int, *, name: str | None = None) -> Tensor:
    """Sum of frames, each placed ``frame_step`` after the one before: the transpose of ``frame``.

    y[…, t] = Σ x[…, f, i] over f·frame_step + i = t

    ``f32[..., F, L]`` becomes ``f32[..., (F − 1)·frame_step + L]``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[1, 2, 3], [4, 5, 6]])
    >>> g.output({}, gw.signal.overlap_add(x, 2))["overlap_add"].tolist()
    [1, 2, 7, 5, 6]

    Attributes:
        frame_step: Distance of the starts of two frames.
    """

def rfft(
    x: Tensor | ArrayLike,
    n: AnyDim | None = None,
    axis: int = -1,
    norm: str = "backward",
    *,
    name: str | None = None,
) -> Tensor:
    """Fourier transform of a real tensor: the half that determines the other one.

    y[k] = Σⱼ x[j]·e^(−2πi·jk/n), k = 0 … ⌊n/2⌋

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.signal.rfft(g.placeholder("x", ("B", 8))).shape
    (B, 5)

    Attributes:
        n: Number of elements transformed; None: as many as there are.
        axis: Axis to transform.
        norm: Which transform divides by n; with ortho both divide by its root. One of 'backward', 'forward', 'ortho'.
    """

def stft(
    signal: Tensor | ArrayLike,
    window: Tensor | ArrayLike | None = None,
    *,
    frame_step: int,
    frame_length: AnyDim | None = None,
    onesided: bool = True,
    name: str | None = None,
) -> Tensor:
    """Fourier transforms of frames that slide over a signal (ONNX STFT-17).

    y[…, f, k] = Σⱼ window[j]·x[…, f·frame_step + j]·e^(−2πi·jk/L)

    ``signal: f32[..., T, 1]`` or, if complex, ``f32[..., T, 2]``, ``window: f32[L]``, and
    y: f32[..., ⌊(T − L)/frame_step⌋ + 1, K, 2] with K = ⌊L/2⌋ + 1 bins, or L without ``onesided``.
    The signal is not extended at its ends.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 16, 1))
    >>> gw.signal.stft(x, frame_step=4, frame_length=8).shape
    (B, 3, 5, 2)

    Attributes:
        frame_step: Distance of the starts of two frames.
        frame_length: Number of elements of a frame: L; None: that of the window, or of the signal.
        onesided: Whether only one half of a symmetric spectrum is computed.
    """

def view_as_complex(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Complex tensor of the real and imaginary parts on the last axis.

    y = x[…, 0] + i·x[…, 1]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.signal.view_as_complex(g.constant([[1.0, 2.0]]), name="y"))["y"].tolist()
    [(1+2j)]
    """

def view_as_real(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Real and imaginary parts of a complex tensor, on a new last axis.

    y[…, 0] = Re x, y[…, 1] = Im x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.signal.view_as_real(g.constant([1 + 2j]), name="y"))["y"].tolist()
    [[1.0, 2.0]]
    """
