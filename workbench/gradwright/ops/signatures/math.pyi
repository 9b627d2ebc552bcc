"""Functions of the namespace math; written by python -m gradwright.ops.stubs."""

from collections.abc import Sequence

from numpy.typing import ArrayLike, DTypeLike

from gradwright.graph import Tensor
from gradwright.spec import AnyDim

def abs(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Absolute value; its gradient at 0 is 0. Of a complex tensor, the real modulus.

    y = |x|

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.abs(g.constant([-2.0, 0.5]))
    >>> g.output({}, y)["abs"].tolist()
    [2.0, 0.5]
    """

def abs_mean(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Mean of absolute values.

    y = Σ |x| / n

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.abs_mean(g.constant([3.0, -4.0]), name="y"))["y"])
    3.5

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def abs_min(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Smallest absolute value; equal ones share the gradient.

    y = min |x|

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.abs_min(g.constant([3.0, -4.0]), name="y"))["y"])
    3.0

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def add(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Sum of two tensors.

    y = a + b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 1))
    >>> (x + g.constant([1.0, 2.0])).shape
    (B, 2)
    """

def add_n(*xs: Tensor | ArrayLike | Sequence[Tensor], name: str | None = None) -> Tensor:
    """Sum of several tensors, in order.

    y = x₀ + x₁ + … + xₙ₋₁

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.add_n(g.constant([1.0]), g.constant([2.0]), g.constant([3.0]))
    >>> g.output({}, y)["add_n"].tolist()
    [6.0]
    """

def arccos(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Inverse cosine.

    y = arccos x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.arccos(g.constant([0.0, 1.0]))
    >>> print(g.output({}, y)["arccos"].round(3))
    [1.571 0.   ]
    """

def arccosh(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Inverse hyperbolic cosine.

    y = arcosh x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.arccosh(g.constant([1.0, 2.0]))
    >>> print(g.output({}, y)["arccosh"].round(3))
    [0.    1.317]
    """

def arcsin(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Inverse sine.

    y = arcsin x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.arcsin(g.constant([0.0, 1.0]))
    >>> print(g.output({}, y)["arcsin"].round(3))
    [0.    1.571]
    """

def arcsinh(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Inverse hyperbolic sine.

    y = arsinh x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.arcsinh(g.constant([0.0, 1.0]))
    >>> print(g.output({}, y)["arcsinh"].round(3))
    [0.    0.881]
    """

def arctan(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Inverse tangent.

    y = arctan x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.arctan(g.constant([0.0, 1.0]))
    >>> print(g.output({}, y)["arctan"].round(3))
    [0.    0.785]
    """

def arctan2(y: Tensor | ArrayLike, x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Angle of the point (x, y), in (−π, π]; its gradient at (0, 0) is taken to be 0.

    z = arg(x + i·y)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.arctan2(g.constant([1.0, -1.0]), g.constant([1.0, -1.0]))
    >>> print(g.output({}, y)["arctan2"].round(3))
    [ 0.785 -2.356]
    """

def arctanh(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Inverse hyperbolic tangent.

    y = artanh x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.arctanh(g.constant([0.0, 0.5]))
    >>> print(g.output({}, y)["arctanh"].round(3))
    [0.    0.549]
    """

def arg_abs_max(
    x: Tensor | ArrayLike,
    axis: int | None = None,
    keepdims: bool = False,
    last: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Place of the largest absolute value; the first of equal ones.

    y = argmax |x| : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> int(g.output({}, gw.arg_abs_max(g.constant([1.0, -3.0, 2.0]), name="y"))["y"])
    1

    Attributes:
        axis: Axis to search; None searches the flattened tensor.
        keepdims: Keep reduced axes with size 1.
        last: Take the last of equal ones, not the first.
    """

def arg_abs_min(
    x: Tensor | ArrayLike,
    axis: int | None = None,
    keepdims: bool = False,
    last: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Place of the smallest absolute value; the first of equal ones.

    y = argmin |x| : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> int(g.output({}, gw.arg_abs_min(g.constant([1.0, -3.0, 2.0]), name="y"))["y"])
    0

    Attributes:
        axis: Axis to search; None searches the flattened tensor.
        keepdims: Keep reduced axes with size 1.
        last: Take the last of equal ones, not the first.
    """

def betaln(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Logarithm of the beta function of positive numbers, computed in float64.

    y = ln Γ(a) + ln Γ(b) − ln Γ(a + b), without these terms where they are large (Didonato and
    Morris 1992)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.betaln(g.constant(2.0), g.constant(3.0), name="y")
    >>> round(float(g.output({}, y)["y"]), 4)  # −ln 12
    -2.4849
    """

def ceil(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Smallest whole number that is not below.

    y = ⌈x⌉

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.ceil(g.constant([-2.0, 0.5]))
    >>> g.output({}, y)["ceil"].tolist()
    [-2.0, 1.0]
    """

def clip(
    x: Tensor | ArrayLike,
    min: Tensor | ArrayLike | None = None,
    max: Tensor | ArrayLike | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Elements brought into [min, max]; the gradient flows where nothing was changed.

    y = min(max(x, lower), upper)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (3,))
    >>> g.output({"x": [-2.0, 0.5, 2.0]}, gw.clip(x, 0.0, 1.0))["clip"].tolist()
    [0.0, 0.5, 1.0]
    """

def clip_by_avg_norm(
    x: Tensor | ArrayLike,
    clip_norm: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Scale a tensor down so that its norm per element is at most ``clip_norm``.

    y = x·c / max(‖x‖₂/n, c) for n elements

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.clip_by_avg_norm(g.constant([3.0, 4.0]), 0.5, name="y")
    >>> g.output({}, y)["y"].round(3).tolist()
    [0.6000000238418579, 0.800000011920929]

    Attributes:
        axis: Axis or axes of the norm; None: all.
    """

def clip_by_norm(
    x: Tensor | ArrayLike,
    clip_norm: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Scale a tensor down so that its norm, over some axes or all, is at most ``clip_norm``.

    y = x·c / max(‖x‖₂, c)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.clip_by_norm(g.constant([3.0, 4.0]), 1.0, name="y"))["y"].round(3).tolist()
    [0.6000000238418579, 0.800000011920929]

    Attributes:
        axis: Axis or axes of the norm; None: all.
    """

def complex(
    real: Tensor | ArrayLike, imag: Tensor | ArrayLike, *, name: str | None = None
) -> Tensor:
    """Complex tensor of its real and imaginary part.

    y = re + i·im

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> z = gw.complex(g.constant(3.0), g.constant(4.0))
    >>> float(g.output({}, gw.abs(z))["abs"])
    5.0
    """

def confusion_matrix(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    num_classes: AnyDim | None = None,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """How often each class was taken for each class: rows are labels, columns predictions.

    y[a, b] = Σᵢ [labelsᵢ = a]·[predictionsᵢ = b]·weightsᵢ

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.confusion_matrix(g.constant([0, 1, 1]), g.constant([0, 0, 1]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[1, 0], [1, 1]]

    Attributes:
        num_classes: Number of classes; None: the largest label or prediction and one.
        dtype: Dtype of the result; None: that of the weights, int64 without.
    """

def conj(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Complex conjugate.

    y = Re x − i·Im x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.conj(gw.complex(g.constant([1.0]), g.constant([2.0])))
    >>> g.output({}, y)["conj"].tolist()
    [(1-2j)]
    """

def copysign(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Size of one tensor with the signs of another.

    y = |a|·sign b, the sign of −0 and NaN included

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.copysign(g.constant([1.0, -2.0]), -0.0, name="y"))["y"].tolist()
    [-1.0, -2.0]
    """

def cos(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Cosine.

    y = cos x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cos(g.constant([0.0, 3.14159]))
    >>> g.output({}, y)["cos"].tolist()
    [1.0, -1.0]
    """

def cosh(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Hyperbolic cosine.

    y = cosh x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cosh(g.constant([0.0, 1.0]))
    >>> print(g.output({}, y)["cosh"].round(3))
    [1.    1.543]
    """

def cosine_separation(
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    eps: float = 1e-08,
    *,
    name: str | None = None,
) -> Tensor:
    """One less the cosine of the angle between two vectors.

    y = 1 − Σ a·b / max(‖a‖·‖b‖, eps)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cosine_separation(g.constant([1.0, 0.0]), g.constant([0.0, 4.0]), name="y")
    >>> float(g.output({}, y)["y"])
    1.0

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
        eps: Least product of the norms.
    """

def cosine_similarity(
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    eps: float = 1e-08,
    *,
    name: str | None = None,
) -> Tensor:
    """Cosine of the angle between two vectors; 0 where one of them is 0.

    y = Σ a·b / max(‖a‖·‖b‖, eps)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cosine_similarity(g.constant([1.0, 0.0]), g.constant([3.0, 4.0]), name="y")
    >>> round(float(g.output({}, y)["y"]), 4)
    0.6

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
        eps: Least product of the norms.
    """

def count_zero(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Number of elements that are 0.

    y = Σ [x = 0] : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> int(g.output({}, gw.count_zero(g.constant([0, 1, 0]), name="y"))["y"])
    2

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def cube(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Third power.

    y = x³

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.cube(g.constant([2, -1]), name="y"))["y"].tolist()
    [8, -1]
    """

def diag_part(x: Tensor | ArrayLike, k: int = 0, *, name: str | None = None) -> Tensor:
    """A diagonal of matrices, which lie in the last two axes.

    y[…, i] = x[…, i, i + k]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.diag_part(g.constant([[1, 2], [3, 4]]), name="y"))["y"].tolist()
    [1, 4]

    Attributes:
        k: Diagonal: 0 the main one, above it positive.
    """

def diff(x: Tensor | ArrayLike, n: int = 1, axis: int = -1, *, name: str | None = None) -> Tensor:
    """Differences of neighbouring elements along an axis, n times over.

    y[…, i, …] = x[…, i + 1, …] − x[…, i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.diff(g.constant([1, 4, 9, 16]), n=2, name="y"))["y"].tolist()
    [2, 2]

    Attributes:
        n: How often.
        axis: Axis to go along.
    """

def digamma(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Derivative of the logarithm of the gamma function.

    y = ψ(x) = Γ'(x)/Γ(x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> round(float(g.output({}, gw.digamma(g.constant(1.0), name="y"))["y"]), 4)
    -0.5772
    """

def div(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """True quotient of two tensors; integers are divided as float32.

    y = a / b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.div(g.constant([1.0, 3.0]), 2.0)
    >>> g.output({}, y)["div"].tolist()
    [0.5, 1.5]
    """

def div_no_nan(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Quotient that is 0 where the divisor is 0, as are its gradients.

    y = b ≠ 0 ? a / b : 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.div_no_nan(g.constant([1.0, 0.0]), g.constant([2.0, 0.0]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [0.5, 0.0]
    """

def entropy(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Entropy of probabilities, in nats; 0·ln 0 is 0.

    y = −Σ p·ln p

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> round(float(g.output({}, gw.entropy(g.constant([0.5, 0.5, 0.0]), name="y"))["y"]), 4)
    0.6931

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def equal(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether a equals b.

    y = a = b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.equal(g.constant([1, 2]), g.constant([1, 3]))
    >>> g.output({}, y)["equal"].tolist()
    [True, False]
    """

def erf(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Error function.

    y = 2/√π ∫₀ˣ exp(−t²) dt

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.erf(g.constant([0.0, 0.5])))["erf"].round(4)
    array([0.    , 0.5205], dtype=float32)
    """

def erfc(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Complement of the error function, precise where that is tiny.

    y = 1 − erf(x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.erfc(g.constant([0.0, 0.5])))["erfc"].round(4)
    array([1.    , 0.4795], dtype=float32)
    """

def erfinv(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Inverse of the error function.

    erf(y) = x,  −1 < x < 1

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> round(float(g.output({}, gw.erfinv(g.constant(0.5), name="y"))["y"]), 4)
    0.4769
    """

def euclidean_distance(
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Length of the difference; its gradient at 0 is taken to be 0.

    y = √(Σ (a − b)²)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.euclidean_distance(g.constant([3.0, 4.0]), 0.0, name="y")
    >>> float(g.output({}, y)["y"])
    5.0

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def exp(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Exponential.

    y = eˣ

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.exp(g.constant([0.0, 1.0]))
    >>> print(g.output({}, y)["exp"].round(3))
    [1.    2.718]
    """

def exp2(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Power of two.

    y = 2ˣ

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.exp2(g.constant(3.0), name="y"))["y"])
    8.0
    """

def expm1(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Exponential less one, precise near 0.

    y = eˣ − 1

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.expm1(g.constant([0.0, 1.0]))
    >>> print(g.output({}, y)["expm1"].round(3))
    [0.    1.718]
    """

def eye_like(
    x: Tensor | ArrayLike, k: int = 0, dtype: DTypeLike | None = None, *, name: str | None = None
) -> Tensor:
    """Matrix of the input's shape with ones on a diagonal and zeros elsewhere.

    y[i, j] = [j − i = k]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.eye_like(g.constant([[5, 5, 5], [5, 5, 5]]), k=1, name="y"))["y"].tolist()
    [[0, 1, 0], [0, 0, 1]]

    Attributes:
        k: Diagonal: 0 the main one, above it positive.
        dtype: Dtype of the result; None: that of x.
    """

def first_index(
    x: Tensor | ArrayLike,
    condition: str,
    axis: int | None = None,
    keepdims: bool = False,
    value: float = 0.0,
    *,
    name: str | None = None,
) -> Tensor:
    """First place at which an element fulfils a condition; −1 if none does.

    y = min {i: condition(xᵢ, value)} : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.first_index(g.constant([1.0, 5.0, 7.0]), "greater", value=2.0)
    >>> int(g.output({}, y)["first_index"])
    1

    Attributes:
        axis: Axis to search; None searches the flattened tensor.
        keepdims: Keep reduced axes with size 1.
        condition: What is asked of each element. One of 'equal', 'not_equal', 'less', 'less_equal', 'greater', 'greater_equal', 'abs_equal', 'abs_not_equal', 'abs_less', 'abs_less_equal', 'abs_greater', 'abs_greater_equal', 'is_nan', 'is_inf', 'is_finite', 'not_finite'.
        value: What it is compared with.
    """

def floor(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Largest whole number that is not above.

    y = ⌊x⌋

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.floor(g.constant([-2.0, 0.5]))
    >>> g.output({}, y)["floor"].tolist()
    [-2.0, 0.0]
    """

def floor_div(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Quotient rounded towards −∞; steps have no gradient.

    y = ⌊a / b⌋

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.floor_div(g.constant([7, -7]), 2)
    >>> g.output({}, y)["floor_div"].tolist()
    [3, -4]
    """

def fmod(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Remainder of the division rounded towards 0; it has the sign of the dividend.

    y = a − b·trunc(a / b)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.fmod(g.constant([-7, 7]), 3, name="y"))["y"].tolist()
    [-1, 1]
    """

def gcd(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Greatest common divisor.

    y = max {d: d | a, d | b}

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> int(g.output({}, gw.gcd(g.constant(12), 18, name="y"))["y"])
    6
    """

def greater(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether a is larger than b.

    y = a > b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.greater(g.constant([1, 3]), 2)
    >>> g.output({}, y)["greater"].tolist()
    [False, True]
    """

def greater_equal(
    a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None
) -> Tensor:
    """Whether a is at least b.

    y = a ≥ b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.greater_equal(g.constant([1, 2]), 2)
    >>> g.output({}, y)["greater_equal"].tolist()
    [False, True]
    """

def hamming_distance(
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Number of elements in which two tensors differ.

    y = Σ [a ≠ b] : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.hamming_distance(g.constant([1, 2, 3]), g.constant([1, 5, 6]), name="y")
    >>> int(g.output({}, y)["y"])
    2

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def heaviside(
    x: Tensor | ArrayLike, values: Tensor | ArrayLike, *, name: str | None = None
) -> Tensor:
    """Step function: 0 below 0, 1 above, and a given value at 0.

    y = [x > 0], values where x = 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.heaviside(g.constant([-1.0, 0.0, 2.0]), 0.5, name="y"))["y"].tolist()
    [0.0, 0.5, 1.0]
    """

def hypot(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Length of the hypotenuse, safe from overflow; its gradient at 0 is taken to be 0.

    y = √(a² + b²)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.hypot(g.constant(3.0), 4.0, name="y"))["y"])
    5.0
    """

def imag(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Imaginary part of a complex tensor.

    y = Im x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.imag(gw.complex(g.constant([1.0]), g.constant([2.0])))
    >>> g.output({}, y)["imag"].tolist()
    [2.0]
    """

def is_close(
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Whether two tensors are equal up to a tolerance.

    y = |a − b| ≤ atol + rtol·|b|

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.is_close(g.constant([1.0, 1.1]), 1.000001, name="y"))["y"].tolist()
    [True, False]

    Attributes:
        rtol: Tolerance relative to b.
        atol: Absolute tolerance.
        equal_nan: Whether NaN is close to NaN.
    """

def is_finite(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether an element is neither infinite nor NaN.

    y = |x| < ∞

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.is_finite(g.constant([1.0, float('inf')]))
    >>> g.output({}, y)["is_finite"].tolist()
    [True, False]
    """

def is_inf(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether an element is infinite.

    y = |x| = ∞

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.is_inf(g.constant([1.0, float('inf')]))
    >>> g.output({}, y)["is_inf"].tolist()
    [False, True]
    """

def is_max(x: Tensor | ArrayLike, axis: int | None = None, *, name: str | None = None) -> Tensor:
    """Mask of the largest element; the first of equal ones.

    y = [i = argmax x], over one axis or all

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.is_max(g.constant([1, 3, 3]), name="y"))["y"].tolist()
    [False, True, False]

    Attributes:
        axis: Axis to search; None searches the flattened tensor.
    """

def is_nan(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether an element is not a number.

    y = x ≠ x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.is_nan(g.constant([1.0, float('nan')]))
    >>> g.output({}, y)["is_nan"].tolist()
    [False, True]
    """

def is_non_decreasing(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether no element is smaller than the one before it, in row-major order.

    y = ∀i xᵢ ≤ xᵢ₊₁

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> bool(g.output({}, gw.is_non_decreasing(g.constant([1, 1, 2]), name="y"))["y"])
    True
    """

def is_strictly_increasing(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether every element is larger than the one before it, in row-major order.

    y = ∀i xᵢ < xᵢ₊₁

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> bool(g.output({}, gw.is_strictly_increasing(g.constant([1, 1, 2]), name="y"))["y"])
    False
    """

def jaccard_distance(
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Share of two weighted sets, of numbers ≥ 0, that is not common to both; 0 if both are empty.

    y = 1 − Σ min(a, b) / Σ max(a, b)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.jaccard_distance(g.constant([1.0, 1.0]), g.constant([1.0, 0.0]), name="y")
    >>> float(g.output({}, y)["y"])
    0.5

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def kron(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Kronecker product: the products of all pairs of elements, in blocks.

    y[i·p + k, j·q + l] = a[i, j]·b[k, l] for b : f32[p, q]; likewise for other ranks

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.kron(g.constant([1, 2]), g.constant([1, 10]), name="y"))["y"].tolist()
    [1, 10, 2, 20]
    """

def last_index(
    x: Tensor | ArrayLike,
    condition: str,
    axis: int | None = None,
    keepdims: bool = False,
    value: float = 0.0,
    *,
    name: str | None = None,
) -> Tensor:
    """Last place at which an element fulfils a condition; −1 if none does.

    y = max {i: condition(xᵢ, value)} : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.last_index(g.constant([1.0, 5.0, 7.0]), "greater", value=2.0)
    >>> int(g.output({}, y)["last_index"])
    2

    Attributes:
        axis: Axis to search; None searches the flattened tensor.
        keepdims: Keep reduced axes with size 1.
        condition: What is asked of each element. One of 'equal', 'not_equal', 'less', 'less_equal', 'greater', 'greater_equal', 'abs_equal', 'abs_not_equal', 'abs_less', 'abs_less_equal', 'abs_greater', 'abs_greater_equal', 'is_nan', 'is_inf', 'is_finite', 'not_finite'.
        value: What it is compared with.
    """

def lcm(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Least common multiple.

    y = min {m > 0: a | m, b | m}

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> int(g.output({}, gw.lcm(g.constant(4), 6, name="y"))["y"])
    12
    """

def lerp(
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Linear interpolation, or extrapolation, from one tensor to another.

    y = a + weight·(b − a)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.lerp(g.constant([0.0, 10.0]), 20.0, 0.25, name="y"))["y"].tolist()
    [5.0, 12.5]
    """

def less(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether a is smaller than b.

    y = a < b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.less(g.constant([1, 3]), 2)
    >>> g.output({}, y)["less"].tolist()
    [True, False]
    """

def less_equal(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether a is at most b.

    y = a ≤ b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.less_equal(g.constant([2, 3]), 2)
    >>> g.output({}, y)["less_equal"].tolist()
    [True, False]
    """

def lgamma(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Logarithm of the absolute value of the gamma function.

    y = ln |Γ(x)|,  ∂y/∂x = ψ(x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> round(float(g.output({}, gw.lgamma(g.constant(5.0), name="y"))["y"]), 4)  # ln 24
    3.1781
    """

def list_diff(
    x: Tensor | ArrayLike, other: Tensor | ArrayLike, *, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Elements of one vector that are not in another, and their places; in order of appearance.

    y = x[indices], all xᵢ ∉ other

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> found = gw.list_diff(g.constant([1, 2, 3, 2]), g.constant([1, 4]))
    >>> [y.tolist() for y in g.output({}, *found).values()]
    [[2, 3, 2], [1, 2, 3]]
    """

def log(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Natural logarithm.

    y = ln x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.log(g.constant([1.0, 10.0]))
    >>> print(g.output({}, y)["log"].round(3))
    [0.    2.303]
    """

def log10(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Logarithm to base 10.

    y = log₁₀ x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.log10(g.constant([1.0, 100.0]))
    >>> print(g.output({}, y)["log10"].round(3))
    [0. 2.]
    """

def log1p(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Logarithm of one more, precise near 0.

    y = ln(1 + x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.log1p(g.constant([0.0, 1.0]))
    >>> print(g.output({}, y)["log1p"].round(3))
    [0.    0.693]
    """

def log2(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Logarithm to base 2.

    y = log₂ x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.log2(g.constant([1.0, 8.0]))
    >>> g.output({}, y)["log2"].tolist()
    [0.0, 3.0]
    """

def log_entropy(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Logarithm of the entropy of probabilities.

    y = ln(−Σ p·ln p)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> round(float(g.output({}, gw.log_entropy(g.constant([0.5, 0.5]), name="y"))["y"]), 4)
    -0.3665

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def logaddexp(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Logarithm of the sum of two exponentials, safe from overflow.

    y = ln(eᵃ + eᵇ)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.logaddexp(g.constant(1000.0), 0.0, name="y"))["y"])
    1000.0
    """

def logical_and(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether both hold.

    y = a ∧ b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.logical_and(g.constant([True, True]), g.constant([True, False]))
    >>> g.output({}, y)["logical_and"].tolist()
    [True, False]
    """

def logical_not(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether it does not hold.

    y = ¬x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.logical_not(g.constant([True, False]))
    >>> g.output({}, y)["logical_not"].tolist()
    [False, True]
    """

def logical_or(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether at least one holds.

    y = a ∨ b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.logical_or(g.constant([False, False]), g.constant([True, False]))
    >>> g.output({}, y)["logical_or"].tolist()
    [True, False]
    """

def logical_xor(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether exactly one holds.

    y = a ⊕ b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.logical_xor(g.constant([True, True]), g.constant([True, False]))
    >>> g.output({}, y)["logical_xor"].tolist()
    [False, True]
    """

def logit(x: Tensor | ArrayLike, eps: float | None = None, *, name: str | None = None) -> Tensor:
    """Logarithm of the odds: the inverse of the sigmoid.

    y = ln(x/(1 − x)),  x brought into [eps, 1 − eps] first

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> round(float(g.output({}, gw.logit(g.constant(0.75), name="y"))["y"]), 4)
    1.0986

    Attributes:
        eps: Distance from 0 and 1 that is kept; None: none.
    """

def manhattan_distance(
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Sum of absolute differences.

    y = Σ |a − b|

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.manhattan_distance(g.constant([3.0, -4.0]), 0.0, name="y")
    >>> float(g.output({}, y)["y"])
    7.0

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def maximum(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Larger of two tensors, element by element; equal ones share the gradient.

    y = max(a, b)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.maximum(g.constant([-1.0, 2.0]), 0.0))["maximum"].tolist()
    [0.0, 2.0]
    """

def median(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Middle element, or the mean of the two in the middle; NaN where one of them is NaN.

    y = quantile(x, 1/2)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.median(g.constant([3.0, 1.0, 2.0, 9.0]), name="y"))["y"])
    2.5

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def merge_avg(*xs: Tensor | ArrayLike | Sequence[Tensor], name: str | None = None) -> Tensor:
    """Mean of several tensors, which broadcast; of ints as float32.

    y = (x₀ + … + xₙ₋₁) / n

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.merge_avg(g.constant([1.0, 2.0]), 4.0, name="y"))["y"].tolist()
    [2.5, 3.0]
    """

def merge_max(*xs: Tensor | ArrayLike | Sequence[Tensor], name: str | None = None) -> Tensor:
    """Largest element of several tensors of one shape; equal ones share the gradient.

    y = max(x₀, …, xₙ₋₁)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.merge_max(g.constant([1, 5]), g.constant([4, 2]), name="y"))["y"].tolist()
    [4, 5]
    """

def merge_max_index(*xs: Tensor | ArrayLike | Sequence[Tensor], name: str | None = None) -> Tensor:
    """Number of the tensor that holds the largest element; the first of equal ones.

    y = argmaxₖ xₖ : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.merge_max_index(g.constant([1, 5]), g.constant([4, 2]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [1, 0]
    """

def meshgrid(
    *xs: Tensor | ArrayLike | Sequence[Tensor], indexing: str = "xy", name: str | None = None
) -> tuple[Tensor, ...]:
    """Coordinates of a grid, one tensor per vector.

    yₖ[i₀, i₁, …] = xₖ[iₖ];  "xy" exchanges the first two axes, so that x runs along columns

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, b = gw.meshgrid(g.constant([1, 2]), g.constant([3, 4, 5]))
    >>> [y.tolist() for y in g.output({}, a, b).values()]
    [[[1, 2], [1, 2], [1, 2]], [[3, 3], [4, 4], [5, 5]]]

    Attributes:
        indexing: Order of the first two axes. One of 'xy', 'ij'.
    """

def min_max(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Smallest and largest element; equal ones share the gradients.

    y₀ = min x,  y₁ = max x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> low, high = gw.min_max(g.constant([3, 1, 2]))
    >>> [int(y) for y in g.output({}, low, high).values()]
    [1, 3]

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def minimum(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Smaller of two tensors, element by element; equal ones share the gradient.

    y = min(a, b)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.minimum(g.constant([1.0, 5.0]), 3.0)
    >>> g.output({}, y)["minimum"].tolist()
    [1.0, 3.0]
    """

def mod(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Remainder of the division rounded towards −∞; it has the sign of the divisor.

    y = a − b·⌊a / b⌋

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.mod(g.constant([-7, 7]), 3))["mod"].tolist()
    [2, 1]
    """

def moments(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Mean and variance.

    mean = Σ x / n,  variance = Σ (x − mean)² / n

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> mean, variance = gw.moments(g.constant([1.0, 3.0]))
    >>> [float(y) for y in g.output({}, mean, variance).values()]
    [2.0, 1.0]

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def mul(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Product of two tensors, element by element.

    y = a·b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.mul(g.constant([1.0, 2.0]), 10.0)
    >>> g.output({}, y)["mul"].tolist()
    [10.0, 20.0]
    """

def nan_to_num(
    x: Tensor | ArrayLike,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Numbers in place of NaN and infinities.

    y = nan where x is NaN, posinf or neginf where x = ±∞ (None: the largest number), else x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([float("nan"), float("inf"), 1.0])
    >>> g.output({}, gw.nan_to_num(x, posinf=9.0, name="y"))["y"].tolist()
    [0.0, 9.0, 1.0]

    Attributes:
        nan: What NaN becomes.
        posinf: What ∞ becomes; None: the largest number.
        neginf: What −∞ becomes; None: the lowest number.
    """

def nanmean(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Mean over axes of what is not NaN; NaN where nothing else is.

    y = Σ {x: x ≠ NaN} / |{x: x ≠ NaN}|

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.nanmean(g.constant([1.0, float("nan")]), name="y"))["y"])
    1.0

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def nansum(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Sum over axes that takes NaN for 0.

    y = Σ {x: x ≠ NaN}

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.nansum(g.constant([1.0, float("nan")]), name="y"))["y"])
    1.0

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def neg(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Negative.

    y = −x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.neg(g.constant([-2.0, 0.5]))
    >>> g.output({}, y)["neg"].tolist()
    [2.0, -0.5]
    """

def norm1(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Sum of absolute values.

    y = Σ |x|

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.norm1(g.constant([3.0, -4.0]), name="y"))["y"])
    7.0

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def norm_max(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Largest absolute value; equal ones share the gradient.

    y = max |x|

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.norm_max(g.constant([3.0, -4.0]), name="y"))["y"])
    4.0

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def normalize_moments(
    counts: Tensor | ArrayLike,
    sums: Tensor | ArrayLike,
    squares: Tensor | ArrayLike,
    shift: Tensor | ArrayLike | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Mean and variance, from how many numbers there were and the sums of them and their squares.

    m = sums/counts,  mean = m + shift,  variance = squares/counts − m²; the sums are those of what
    exceeds ``shift``

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> ys = gw.normalize_moments(g.constant(2.0), g.constant(4.0), g.constant(10.0))
    >>> [float(y) for y in g.output({}, *ys).values()]  # of 1 and 3
    [2.0, 1.0]
    """

def not_equal(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether a differs from b.

    y = a ≠ b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.not_equal(g.constant([1, 2]), g.constant([1, 3]))
    >>> g.output({}, y)["not_equal"].tolist()
    [False, True]
    """

def polygamma(x: Tensor | ArrayLike, n: int, *, name: str | None = None) -> Tensor:
    """Derivative number n of the digamma function.

    y = ψ⁽ⁿ⁾(x) = (−1)ⁿ⁺¹·n!·Σₖ 1/(x + k)ⁿ⁺¹, k = 0, 1, …

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> round(float(g.output({}, gw.polygamma(g.constant(1.0), 1, name="y"))["y"]), 4)  # π²/6
    1.6449

    Attributes:
        n: Number of the derivative; 0 is digamma itself.
    """

def pow(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Power; of a negative base for whole exponents only, as its gradient.

    y = aᵇ,  ∂y/∂a = b·aᵇ⁻¹,  ∂y/∂b = aᵇ·ln a, both 0 where the power is constant

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (3,))
    >>> dx, = gw.gradients(x**3, [x])
    >>> g.output({"x": [-1.0, 0.0, 2.0]}, dx)[dx.name].tolist()
    [3.0, 0.0, 12.0]
    """

def quantile(
    x: Tensor | ArrayLike,
    q: float | Sequence[float],
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    method: str = "linear",
    *,
    name: str | None = None,
) -> Tensor:
    """Numbers below which a share q of the elements lies; NaN where one of them is NaN.

    y = the element at place q·(n − 1) of those in order, between two of them by ``method``

    Several shares give a new first axis.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.quantile(g.constant([3.0, 1.0, 2.0]), (0.5, 0.75), name="y"))["y"].tolist()
    [2.0, 2.5]

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
        q: Share or shares, from 0 to 1.
        method: What lies between two elements. One of 'linear', 'lower', 'higher', 'midpoint', 'nearest'.
    """

def rational_tanh(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """A rational approximation of 1.7159·tanh(2x/3) (LeCun et al. 1998).

    y = 1.7159·sign(x)·(1 − 1/(1 + a + a² + 1.41645·a⁴)),  a = |2x/3|

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> print(g.output({}, gw.rational_tanh(g.constant([0.0, 1.0]), name="y"))["y"].round(3))
    [0.    0.998]
    """

def rdiv(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Quotient the other way round; integers are divided as float32.

    y = b / a

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.rdiv(g.constant([2.0, 4.0]), 1.0, name="y"))["y"].tolist()
    [0.5, 0.25]
    """

def real(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Real part of a complex tensor.

    y = Re x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.real(gw.complex(g.constant([1.0]), g.constant([2.0])))
    >>> g.output({}, y)["real"].tolist()
    [1.0]
    """

def reciprocal(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Reciprocal.

    y = 1 / x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.reciprocal(g.constant([2.0, 4.0]))
    >>> g.output({}, y)["reciprocal"].tolist()
    [0.5, 0.25]
    """

def rectified_tanh(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Hyperbolic tangent of what is above 0.

    y = max(0, tanh x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> print(g.output({}, gw.rectified_tanh(g.constant([-1.0, 1.0]), name="y"))["y"].round(3))
    [0.    0.762]
    """

def round(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Nearest whole number; halves go to the even one.

    y = ⌊x⌉

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.round(g.constant([0.5, 1.5, -0.7])))["round"].tolist()
    [0.0, 2.0, -1.0]
    """

def rsqrt(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Reciprocal of the square root.

    y = 1 / √x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.rsqrt(g.constant([4.0, 16.0]))
    >>> g.output({}, y)["rsqrt"].tolist()
    [0.5, 0.25]
    """

def rsub(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Difference the other way round.

    y = b − a

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.rsub(g.constant([1, 2]), 5, name="y"))["y"].tolist()
    [4, 3]
    """

def set_diag(
    x: Tensor | ArrayLike, diagonal: Tensor | ArrayLike, k: int = 0, *, name: str | None = None
) -> Tensor:
    """Matrices with another diagonal.

    y[…, i, i + k] = diagonal[…, i], x elsewhere

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.set_diag(g.constant([[1, 2], [3, 4]]), [0, 9], name="y")
    >>> g.output({}, y)["y"].tolist()
    [[0, 2], [3, 9]]

    Attributes:
        k: Diagonal: 0 the main one, above it positive.
    """

def shannon_entropy(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Entropy of probabilities, in bits; 0·log₂ 0 is 0.

    y = −Σ p·log₂ p

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.shannon_entropy(g.constant([0.5, 0.5]), name="y"))["y"])
    1.0

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def sign(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Sign: −1, 0 or 1; of a complex tensor, the number of modulus 1 in its direction, or 0.

    y = x / |x|

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sign(g.constant([-2.0, 0.0, 3.0]))
    >>> g.output({}, y)["sign"].tolist()
    [-1.0, 0.0, 1.0]
    """

def sin(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Sine.

    y = sin x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sin(g.constant([0.0, 1.5708]))
    >>> g.output({}, y)["sin"].tolist()
    [0.0, 1.0]
    """

def sinc(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Sine over argument, 1 at 0.

    y = sin πx / (πx)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.sinc(g.constant([0.0, 0.5]), name="y"))["y"].round(4).tolist()
    [1.0, 0.6366000175476074]
    """

def sinh(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Hyperbolic sine.

    y = sinh x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sinh(g.constant([0.0, 1.0]))
    >>> print(g.output({}, y)["sinh"].round(3))
    [0.    1.175]
    """

def sqrt(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Square root.

    y = √x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sqrt(g.constant([4.0, 9.0]))
    >>> g.output({}, y)["sqrt"].tolist()
    [2.0, 3.0]
    """

def square(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Square.

    y = x²

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.square(g.constant([-2.0, 3.0]))
    >>> g.output({}, y)["square"].tolist()
    [4.0, 9.0]
    """

def squared_difference(
    a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None
) -> Tensor:
    """Square of the difference of two tensors.

    y = (a − b)²

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.squared_difference(g.constant([1.0, 5.0]), g.constant([3.0, 3.0]))
    >>> g.output({}, y)["squared_difference"].tolist()
    [4.0, 4.0]
    """

def squared_norm(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Sum of squares.

    y = Σ x²

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.squared_norm(g.constant([3.0, -4.0]), name="y"))["y"])
    25.0

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def standardize(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    eps: float = 0.0,
    *,
    name: str | None = None,
) -> Tensor:
    """Bring elements to mean 0 and variance 1 over some axes or all; constants give 0.

    y = (x − mean x) / (√(var x) + eps)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.standardize(g.constant([1.0, 3.0]), name="y"))["y"].tolist()
    [-1.0, 1.0]

    Attributes:
        axis: Axis or axes of the statistics; None: all.
        eps: Added to the standard deviation.
    """

def step(x: Tensor | ArrayLike, cutoff: float = 0.0, *, name: str | None = None) -> Tensor:
    """Whether an element is above a cutoff, as 1 or 0.

    y = [x > cutoff]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.step(g.constant([-1.0, 0.0, 2.0]), name="y"))["y"].tolist()
    [0.0, 0.0, 1.0]

    Attributes:
        cutoff: Elements above it give 1.
    """

def sub(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Difference of two tensors.

    y = a − b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sub(g.constant([1.0, 2.0]), 10.0)
    >>> g.output({}, y)["sub"].tolist()
    [-9.0, -8.0]
    """

def tan(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Tangent.

    y = tan x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.tan(g.constant([0.0, 0.7854]))
    >>> print(g.output({}, y)["tan"].round(3))
    [0. 1.]
    """

def tanh(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Hyperbolic tangent.

    y = (eˣ − e⁻ˣ)/(eˣ + e⁻ˣ)

    The slope is 1 − y², so that x need not be kept; for large |x| its relative error in float32 is
    2e-8·e^(2|x|), and from 9 on it is 0. Where x is a placeholder or a variable, it is precise.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.tanh(g.constant([0.0, 100.0])))["tanh"].tolist()
    [0.0, 1.0]
    """

def trace(x: Tensor | ArrayLike, k: int = 0, *, name: str | None = None) -> Tensor:
    """Sum of a diagonal of matrices, which lie in the last two axes.

    y[…] = Σᵢ x[…, i, i + k]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> int(g.output({}, gw.trace(g.constant([[1, 2], [3, 4]]), name="y"))["y"])
    5

    Attributes:
        k: Diagonal: 0 the main one, above it positive.
    """

def trunc(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whole number next to an element on the way to 0.

    y = sign(x)·⌊|x|⌋

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.trunc(g.constant([-1.5, 1.5]), name="y"))["y"].tolist()
    [-1.0, 1.0]
    """

def where(
    condition: Tensor | ArrayLike,
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Elements of ``a`` where the condition holds, of ``b`` elsewhere.

    y = condition ? a : b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([-1.0, 2.0])
    >>> g.output({}, gw.where(x > 0.0, x, 0.5 * x))["where"].tolist()
    [-0.5, 2.0]
    """

def xlogy(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Product with a logarithm, 0 where the first factor is 0.

    y = a ≠ 0 ? a·ln b : 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.xlogy(g.constant(0.0), 0.0, name="y"))["y"])
    0.0
    """

def zero_fraction(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Share of the elements that are 0; NaN of no elements.

    y = Σ [x = 0] / n : f32

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.zero_fraction(g.constant([0, 1, 0, 2]), name="y"))["y"])
    0.5

    Attributes:
        axis: Axis or axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """
