"""Functions of the namespace math; written by python -m gradwright.ops.stubs."""

from collections.abc import Sequence

from numpy.typing import ArrayLike

from gradwright.graph import Tensor

def abs(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Absolute value; its gradient at 0 is 0. Of a complex tensor, the real modulus.

    y = |x|
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
    """

def arccos(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Inverse cosine.

    y = arccos x
    """

def arccosh(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Inverse hyperbolic cosine.

    y = arcosh x
    """

def arcsin(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Inverse sine.

    y = arcsin x
    """

def arcsinh(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Inverse hyperbolic sine.

    y = arsinh x
    """

def arctan(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Inverse tangent.

    y = arctan x
    """

def arctan2(y: Tensor | ArrayLike, x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Angle of the point (x, y), in (−π, π].

    z = arg(x + i·y)
    """

def arctanh(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Inverse hyperbolic tangent.

    y = artanh x
    """

def ceil(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Smallest whole number that is not below.

    y = ⌈x⌉
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

def conj(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Complex conjugate.

    y = Re x − i·Im x
    """

def cos(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Cosine.

    y = cos x
    """

def cosh(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Hyperbolic cosine.

    y = cosh x
    """

def div(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """True quotient of two tensors; integers are divided as float32.

    y = a / b
    """

def equal(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether a equals b.

    y = a = b
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

def exp(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Exponential.

    y = eˣ
    """

def expm1(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Exponential less one, precise near 0.

    y = eˣ − 1
    """

def floor(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Largest whole number that is not above.

    y = ⌊x⌋
    """

def floor_div(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Quotient rounded towards −∞; steps have no gradient.

    y = ⌊a / b⌋
    """

def greater(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether a is larger than b.

    y = a > b
    """

def greater_equal(
    a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None
) -> Tensor:
    """Whether a is at least b.

    y = a ≥ b
    """

def imag(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Imaginary part of a complex tensor.

    y = Im x
    """

def is_finite(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether an element is neither infinite nor NaN.

    y = |x| < ∞
    """

def is_inf(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether an element is infinite.

    y = |x| = ∞
    """

def is_nan(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether an element is not a number.

    y = x ≠ x
    """

def less(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether a is smaller than b.

    y = a < b
    """

def less_equal(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether a is at most b.

    y = a ≤ b
    """

def log(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Natural logarithm.

    y = ln x
    """

def log10(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Logarithm to base 10.

    y = log₁₀ x
    """

def log1p(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Logarithm of one more, precise near 0.

    y = ln(1 + x)
    """

def log2(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Logarithm to base 2.

    y = log₂ x
    """

def logical_and(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether both hold.

    y = a ∧ b
    """

def logical_not(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether it does not hold.

    y = ¬x
    """

def logical_or(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether at least one holds.

    y = a ∨ b
    """

def logical_xor(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether exactly one holds.

    y = a ⊕ b
    """

def maximum(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Larger of two tensors, element by element; equal ones share the gradient.

    y = max(a, b)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.maximum(g.constant([-1.0, 2.0]), 0.0))["maximum"].tolist()
    [0.0, 2.0]
    """

def minimum(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Smaller of two tensors, element by element; equal ones share the gradient.

    y = min(a, b)
    """

def mod(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Remainder of the division rounded towards −∞; it has the sign of the divisor.

    y = a − b·⌊a / b⌋

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.mod(g.constant([-7, 7]), 3))["mod"].tolist()
    [2, 1]
    """

def mul(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Product of two tensors, element by element.

    y = a·b
    """

def neg(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Negative.

    y = −x
    """

def not_equal(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Whether a differs from b.

    y = a ≠ b
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

def real(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Real part of a complex tensor.

    y = Re x
    """

def reciprocal(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Reciprocal.

    y = 1 / x
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
    """

def sign(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Sign: −1, 0 or 1; of a complex tensor, the number of modulus 1 in its direction, or 0.

    y = x / |x|
    """

def sin(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Sine.

    y = sin x
    """

def sinh(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Hyperbolic sine.

    y = sinh x
    """

def sqrt(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Square root.

    y = √x
    """

def square(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Square.

    y = x²
    """

def squared_difference(
    a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None
) -> Tensor:
    """Square of the difference of two tensors.

    y = (a − b)²
    """

def sub(a: Tensor | ArrayLike, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Difference of two tensors.

    y = a − b
    """

def tan(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Tangent.

    y = tan x
    """

def tanh(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Hyperbolic tangent.

    y = (eˣ − e⁻ˣ)/(eˣ + e⁻ˣ)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.tanh(g.constant([0.0, 100.0])))["tanh"].tolist()
    [0.0, 1.0]
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
