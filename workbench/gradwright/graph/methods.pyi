"""Methods of Tensor that are ops; written by python -m gradwright.ops.stubs."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike, DTypeLike

from gradwright.graph import Tensor
from gradwright.spec import AnyDim

class TensorMethods:
    def abs(self, *, name: str | None = None) -> Tensor:
        """Absolute value; its gradient at 0 is 0. Of a complex tensor, the real modulus.

        y = |x|

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.abs(g.constant([-2.0, 0.5]))
        >>> g.output({}, y)["abs"].tolist()
        [2.0, 0.5]
        """

    def add(self, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
        """Sum of two tensors.

        y = a + b

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> x = g.placeholder("x", ("B", 1))
        >>> (x + g.constant([1.0, 2.0])).shape
        (B, 2)
        """

    def all(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        name: str | None = None,
    ) -> Tensor:
        """Whether all hold.

        y = ∀ x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.all(g.constant([True, False]))
        >>> g.output({}, y)["all"].tolist()
        False

        Attributes:
            axis: Axis or axes to reduce; None reduces all.
            keepdims: Keep reduced axes with size 1.
        """

    def any(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        name: str | None = None,
    ) -> Tensor:
        """Whether at least one holds.

        y = ∃ x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.any(g.constant([True, False]))
        >>> g.output({}, y)["any"].tolist()
        True

        Attributes:
            axis: Axis or axes to reduce; None reduces all.
            keepdims: Keep reduced axes with size 1.
        """

    def arccos(self, *, name: str | None = None) -> Tensor:
        """Inverse cosine.

        y = arccos x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.arccos(g.constant([0.0, 1.0]))
        >>> print(g.output({}, y)["arccos"].round(3))
        [1.571 0.   ]
        """

    def arccosh(self, *, name: str | None = None) -> Tensor:
        """Inverse hyperbolic cosine.

        y = arcosh x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.arccosh(g.constant([1.0, 2.0]))
        >>> print(g.output({}, y)["arccosh"].round(3))
        [0.    1.317]
        """

    def arcsin(self, *, name: str | None = None) -> Tensor:
        """Inverse sine.

        y = arcsin x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.arcsin(g.constant([0.0, 1.0]))
        >>> print(g.output({}, y)["arcsin"].round(3))
        [0.    1.571]
        """

    def arcsinh(self, *, name: str | None = None) -> Tensor:
        """Inverse hyperbolic sine.

        y = arsinh x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.arcsinh(g.constant([0.0, 1.0]))
        >>> print(g.output({}, y)["arcsinh"].round(3))
        [0.    0.881]
        """

    def arctan(self, *, name: str | None = None) -> Tensor:
        """Inverse tangent.

        y = arctan x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.arctan(g.constant([0.0, 1.0]))
        >>> print(g.output({}, y)["arctan"].round(3))
        [0.    0.785]
        """

    def arctanh(self, *, name: str | None = None) -> Tensor:
        """Inverse hyperbolic tangent.

        y = artanh x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.arctanh(g.constant([0.0, 0.5]))
        >>> print(g.output({}, y)["arctanh"].round(3))
        [0.    0.549]
        """

    def argmax(
        self,
        axis: int | None = None,
        keepdims: bool = False,
        last: bool = False,
        *,
        name: str | None = None,
    ) -> Tensor:
        """Place of the largest element; the first of equal ones, unless the last is asked for.

        y = argmax x : i64

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.argmax(g.constant([3, 9, 5]))
        >>> g.output({}, y)["argmax"].tolist()
        1

        Attributes:
            axis: Axis to search; None searches the flattened tensor.
            keepdims: Keep reduced axes with size 1.
            last: Take the last of equal ones, not the first.
        """

    def argmin(
        self,
        axis: int | None = None,
        keepdims: bool = False,
        last: bool = False,
        *,
        name: str | None = None,
    ) -> Tensor:
        """Place of the smallest element; the first of equal ones, unless the last is asked for.

        y = argmin x : i64

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.argmin(g.constant([3, 9, 5]))
        >>> g.output({}, y)["argmin"].tolist()
        0

        Attributes:
            axis: Axis to search; None searches the flattened tensor.
            keepdims: Keep reduced axes with size 1.
            last: Take the last of equal ones, not the first.
        """

    def argsort(
        self, axis: int = -1, descending: bool = False, *, name: str | None = None
    ) -> Tensor:
        """Places of the elements in order; equal ones keep theirs.

        x[…, y₀], x[…, y₁], … is in order

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> x = g.constant([2.0, 3.0, 1.0])
        >>> g.output({}, gw.argsort(x, descending=True))["argsort"].tolist()
        [1, 0, 2]

        Attributes:
            axis: Axis to sort along.
            descending: Largest first.
        """

    def broadcast_to(
        self, shape: Tensor | ArrayLike | Sequence[AnyDim] | None = None, *, name: str | None = None
    ) -> Tensor:
        """Repeat ``x`` along the axes in which it has size 1, or which it lacks.

        y = x, broadcast as by numpy

        The shape is an attribute or an integer tensor.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> g.output({}, gw.broadcast_to(g.constant([1, 2]), (2, 2)))["broadcast_to"].tolist()
        [[1, 2], [1, 2]]

        Attributes:
            shape: New shape, unless it is given as a tensor.
        """

    def cast(
        self,
        dtype: DTypeLike,
        saturate: bool = True,
        round_mode: str = "up",
        *,
        name: str | None = None,
    ) -> Tensor:
        """Convert the elements to another dtype; float to int rounds toward zero, to float to nearest.

        y = dtype(x). An integer that does not fit loses its higher bits, a float becomes infinite; to
        float8, ``saturate`` (ONNX Cast-25) gives the largest number instead, also for infinities.
        float8_e8m0fnu holds powers of two: ``round_mode`` says which one is taken.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> x = g.constant([-1.5, 2.5, 1000.0])
        >>> g.output({}, gw.cast(x, "int32", name="y"))["y"].tolist()
        [-1, 2, 1000]
        >>> g.output({}, gw.cast(x, "float8_e4m3fn", name="z"))["z"].tolist()
        [-1.5, 2.5, 448.0]

        Attributes:
            dtype: Dtype of the result.
            saturate: Whether float8 takes its largest number for larger ones.
            round_mode: Power of two for float8_e8m0fnu. One of 'up', 'down', 'nearest'.
        """

    def ceil(self, *, name: str | None = None) -> Tensor:
        """Smallest whole number that is not below.

        y = ⌈x⌉

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.ceil(g.constant([-2.0, 0.5]))
        >>> g.output({}, y)["ceil"].tolist()
        [-2.0, 1.0]
        """

    def clip(
        self,
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

    def conj(self, *, name: str | None = None) -> Tensor:
        """Complex conjugate.

        y = Re x − i·Im x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.conj(gw.complex(g.constant([1.0]), g.constant([2.0])))
        >>> g.output({}, y)["conj"].tolist()
        [(1-2j)]
        """

    def cos(self, *, name: str | None = None) -> Tensor:
        """Cosine.

        y = cos x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.cos(g.constant([0.0, 3.14159]))
        >>> g.output({}, y)["cos"].tolist()
        [1.0, -1.0]
        """

    def cosh(self, *, name: str | None = None) -> Tensor:
        """Hyperbolic cosine.

        y = cosh x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.cosh(g.constant([0.0, 1.0]))
        >>> print(g.output({}, y)["cosh"].round(3))
        [1.    1.543]
        """

    def count_nonzero(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        name: str | None = None,
    ) -> Tensor:
        """Number of elements that are not 0.

        y = Σ [x ≠ 0] : i64

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.count_nonzero(g.constant([0, 5, 7]))
        >>> g.output({}, y)["count_nonzero"].tolist()
        2

        Attributes:
            axis: Axis or axes to reduce; None reduces all.
            keepdims: Keep reduced axes with size 1.
        """

    def cumsum(
        self, axis: int, reverse: bool = False, exclusive: bool = False, *, name: str | None = None
    ) -> Tensor:
        """Running sum along an axis; halves accumulate in float32, bools and ints in 64-bit ints.

        yᵢ = Σⱼ₍ⱼ≤ᵢ₎ xⱼ;  exclusive: j < i;  reverse: from the end

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> g.output({}, gw.cumsum(g.constant([1, 2, 3]), 0, exclusive=True))["cumsum"].tolist()
        [0, 1, 3]

        Attributes:
            axis: Axis to sum along.
            reverse: Sum from the end.
            exclusive: Leave out the element itself.
        """

    def div(self, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
        """True quotient of two tensors; integers are divided as float32.

        y = a / b

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.div(g.constant([1.0, 3.0]), 2.0)
        >>> g.output({}, y)["div"].tolist()
        [0.5, 1.5]
        """

    def erf(self, *, name: str | None = None) -> Tensor:
        """Error function.

        y = 2/√π ∫₀ˣ exp(−t²) dt

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> g.output({}, gw.erf(g.constant([0.0, 0.5])))["erf"].round(4)
        array([0.    , 0.5205], dtype=float32)
        """

    def erfc(self, *, name: str | None = None) -> Tensor:
        """Complement of the error function, precise where that is tiny.

        y = 1 − erf(x)

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> g.output({}, gw.erfc(g.constant([0.0, 0.5])))["erfc"].round(4)
        array([1.    , 0.4795], dtype=float32)
        """

    def exp(self, *, name: str | None = None) -> Tensor:
        """Exponential.

        y = eˣ

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.exp(g.constant([0.0, 1.0]))
        >>> print(g.output({}, y)["exp"].round(3))
        [1.    2.718]
        """

    def expand_dims(self, axis: int | Sequence[int], *, name: str | None = None) -> Tensor:
        """Insert axes of size 1.

        y[…, 0, …] = x[…]

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.expand_dims(g.constant([1, 2]), 0)
        >>> g.output({}, y)["expand_dims"].tolist()
        [[1, 2]]

        Attributes:
            axis: Positions of the new axes in the result.
        """

    def expm1(self, *, name: str | None = None) -> Tensor:
        """Exponential less one, precise near 0.

        y = eˣ − 1

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.expm1(g.constant([0.0, 1.0]))
        >>> print(g.output({}, y)["expm1"].round(3))
        [0.    1.718]
        """

    def flatten(
        self, start_axis: int = 0, end_axis: int = -1, *, name: str | None = None
    ) -> Tensor:
        """Join neighbouring axes into one.

        y[…, i·n + j, …] = x[…, i, j, …]

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.flatten(g.constant([[1, 2], [3, 4]]))
        >>> g.output({}, y)["flatten"].tolist()
        [1, 2, 3, 4]

        Attributes:
            start_axis: First axis to join.
            end_axis: Last axis to join.
        """

    def flip(self, axis: int | Sequence[int] | None = None, *, name: str | None = None) -> Tensor:
        """Reverse the order of the elements along axes.

        y[…, i, …] = x[…, n − 1 − i, …]

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.flip(g.constant([1, 2, 3]))
        >>> g.output({}, y)["flip"].tolist()
        [3, 2, 1]

        Attributes:
            axis: Axes to reverse; None reverses all.
        """

    def floor(self, *, name: str | None = None) -> Tensor:
        """Largest whole number that is not above.

        y = ⌊x⌋

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.floor(g.constant([-2.0, 0.5]))
        >>> g.output({}, y)["floor"].tolist()
        [-2.0, 0.0]
        """

    def imag(self, *, name: str | None = None) -> Tensor:
        """Imaginary part of a complex tensor.

        y = Im x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.imag(gw.complex(g.constant([1.0]), g.constant([2.0])))
        >>> g.output({}, y)["imag"].tolist()
        [2.0]
        """

    def is_finite(self, *, name: str | None = None) -> Tensor:
        """Whether an element is neither infinite nor NaN.

        y = |x| < ∞

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.is_finite(g.constant([1.0, float('inf')]))
        >>> g.output({}, y)["is_finite"].tolist()
        [True, False]
        """

    def is_inf(self, *, name: str | None = None) -> Tensor:
        """Whether an element is infinite.

        y = |x| = ∞

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.is_inf(g.constant([1.0, float('inf')]))
        >>> g.output({}, y)["is_inf"].tolist()
        [False, True]
        """

    def is_nan(self, *, name: str | None = None) -> Tensor:
        """Whether an element is not a number.

        y = x ≠ x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.is_nan(g.constant([1.0, float('nan')]))
        >>> g.output({}, y)["is_nan"].tolist()
        [False, True]
        """

    def log(self, *, name: str | None = None) -> Tensor:
        """Natural logarithm.

        y = ln x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.log(g.constant([1.0, 10.0]))
        >>> print(g.output({}, y)["log"].round(3))
        [0.    2.303]
        """

    def log10(self, *, name: str | None = None) -> Tensor:
        """Logarithm to base 10.

        y = log₁₀ x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.log10(g.constant([1.0, 100.0]))
        >>> print(g.output({}, y)["log10"].round(3))
        [0. 2.]
        """

    def log1p(self, *, name: str | None = None) -> Tensor:
        """Logarithm of one more, precise near 0.

        y = ln(1 + x)

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.log1p(g.constant([0.0, 1.0]))
        >>> print(g.output({}, y)["log1p"].round(3))
        [0.    0.693]
        """

    def log2(self, *, name: str | None = None) -> Tensor:
        """Logarithm to base 2.

        y = log₂ x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.log2(g.constant([1.0, 8.0]))
        >>> g.output({}, y)["log2"].tolist()
        [0.0, 3.0]
        """

    def log_softmax(self, axis: int = -1, *, name: str | None = None) -> Tensor:
        """Logarithm of softmax along ``axis``, precise where that is tiny.

        yᵢ = xᵢ − max x − log Σⱼ exp(xⱼ − max x)

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> g.output({}, gw.nn.log_softmax(g.constant([0.0, 1000.0])))["log_softmax"].tolist()
        [-1000.0, 0.0]

        Attributes:
            axis: Axis that sums to one.
        """

    def logsumexp(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        name: str | None = None,
    ) -> Tensor:
        """Logarithm of the sum of exponentials, safe from overflow.

        y = ln Σ exp x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> float(g.output({}, gw.logsumexp(g.constant([1000.0, -1000.0])))["logsumexp"])
        1000.0

        Attributes:
            axis: Axis or axes to reduce; None reduces all.
            keepdims: Keep reduced axes with size 1.
        """

    def matmul(self, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
        """Matrix product over the last two axes; leading axes broadcast, vectors as in numpy.

        y[…, i, j] = Σₖ a[…, i, k]·b[…, k, j]

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> x, w = g.placeholder("x", ("B", "T", 8)), g.placeholder("w", (8, 4))
        >>> (x @ w).shape
        (B, T, 4)
        """

    def max(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        name: str | None = None,
    ) -> Tensor:
        """Largest element over axes; equal ones share the gradient.

        y = max x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> x = g.placeholder("x", (3,))
        >>> dx, = gw.gradients(x.max(), [x])
        >>> g.output({"x": [1.0, 2.0, 2.0]}, dx)[dx.name].tolist()
        [0.0, 0.5, 0.5]

        Attributes:
            axis: Axis or axes to reduce; None reduces all.
            keepdims: Keep reduced axes with size 1.
        """

    def mean(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        name: str | None = None,
    ) -> Tensor:
        """Mean over axes; of ints as float32, halves accumulate in float32.

        y = Σ x / n

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> x = g.placeholder("x", ("B", "T", 3))
        >>> x.mean(axis=(0, 1)).shape, x.mean(axis=-1, keepdims=True).shape
        ((3,), (B, T, 1))

        Attributes:
            axis: Axis or axes to reduce; None reduces all.
            keepdims: Keep reduced axes with size 1.
        """

    def min(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        name: str | None = None,
    ) -> Tensor:
        """Smallest element over axes; equal ones share the gradient.

        y = min x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.min(g.constant([3, 9, 5]))
        >>> g.output({}, y)["min"].tolist()
        3

        Attributes:
            axis: Axis or axes to reduce; None reduces all.
            keepdims: Keep reduced axes with size 1.
        """

    def mul(self, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
        """Product of two tensors, element by element.

        y = a·b

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.mul(g.constant([1.0, 2.0]), 10.0)
        >>> g.output({}, y)["mul"].tolist()
        [10.0, 20.0]
        """

    def neg(self, *, name: str | None = None) -> Tensor:
        """Negative.

        y = −x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.neg(g.constant([-2.0, 0.5]))
        >>> g.output({}, y)["neg"].tolist()
        [2.0, -0.5]
        """

    def norm(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        ord: float = 2.0,
        *,
        name: str | None = None,
    ) -> Tensor:
        """Vector norm over axes; its gradient at 0 is taken to be 0.

        y = (Σ |x|ᵖ)^(1/p) for p = ord, max |x| for ord = ∞, min |x| for −∞, Σ [x ≠ 0] for 0

        Orders below 1 are no norms, but numpy and torch take them, too. There elements that are 0 get
        the gradient 0, as in torch, even where the true slope is infinite, and order 0 has none.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> float(g.output({}, gw.norm(g.constant([3.0, 4.0])))["norm"])
        5.0

        Attributes:
            axis: Axis or axes to reduce; None reduces all.
            keepdims: Keep reduced axes with size 1.
            ord: Order p: any number, ∞ or −∞.
        """

    def pad(
        self,
        pad_width: int | Sequence[Any],
        mode: str = "constant",
        value: float = 0.0,
        *,
        name: str | None = None,
    ) -> Tensor:
        """Extend a tensor at the ends of its axes.

        y[i] = x[i − before], and beyond the ends a constant, the edge, x mirrored at the element of the
        edge (reflect) or behind it (symmetric), or x from its other end on (wrap)

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> g.output({}, gw.pad(g.constant([1, 2, 3]), 2, mode="reflect"))["pad"].tolist()
        [3, 2, 1, 2, 3, 2, 1]

        Attributes:
            pad_width: Places before and after, for all axes or per axis.
            mode: What to fill with. One of 'constant', 'edge', 'reflect', 'symmetric', 'wrap'.
            value: The constant.
        """

    def pow(self, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
        """Power; of a negative base for whole exponents only, as its gradient.

        y = aᵇ,  ∂y/∂a = b·aᵇ⁻¹,  ∂y/∂b = aᵇ·ln a, both 0 where the power is constant

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> x = g.placeholder("x", (3,))
        >>> dx, = gw.gradients(x**3, [x])
        >>> g.output({"x": [-1.0, 0.0, 2.0]}, dx)[dx.name].tolist()
        [3.0, 0.0, 12.0]
        """

    def prod(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        name: str | None = None,
    ) -> Tensor:
        """Product over axes; its gradient is right at zeros, too.

        y = Π x,  ∂y/∂xᵢ = Πⱼ﹙ⱼ≠ᵢ﹚ xⱼ

        Halves of the axis are multiplied with each other until one element is left, so that
        gradients of every order follow without a division.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.prod(g.constant([2.0, 3.0]))
        >>> g.output({}, y)["prod"].tolist()
        6.0

        Attributes:
            axis: Axis or axes to reduce; None reduces all.
            keepdims: Keep reduced axes with size 1.
        """

    def real(self, *, name: str | None = None) -> Tensor:
        """Real part of a complex tensor.

        y = Re x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.real(gw.complex(g.constant([1.0]), g.constant([2.0])))
        >>> g.output({}, y)["real"].tolist()
        [1.0]
        """

    def reciprocal(self, *, name: str | None = None) -> Tensor:
        """Reciprocal.

        y = 1 / x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.reciprocal(g.constant([2.0, 4.0]))
        >>> g.output({}, y)["reciprocal"].tolist()
        [0.5, 0.25]
        """

    def relu(self, *, name: str | None = None) -> Tensor:
        """Rectified linear unit; the gradient at 0 is 0 (Nair and Hinton 2010).

        y = max(x, 0)

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.nn.relu(g.constant([-1.0, 2.0]))
        >>> g.output({}, y)["relu"].tolist()
        [0.0, 2.0]
        """

    def roll(
        self,
        shift: int | Sequence[int],
        axis: int | Sequence[int] | None = None,
        *,
        name: str | None = None,
    ) -> Tensor:
        """Shift elements along axes; those that leave at one end come in at the other.

        y[…, (i + shift) mod n, …] = x[…, i, …]

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> g.output({}, gw.roll(g.constant([1, 2, 3]), 1))["roll"].tolist()
        [3, 1, 2]

        Attributes:
            shift: Places to shift by, per axis.
            axis: Axes; None rolls the flattened tensor.
        """

    def round(self, *, name: str | None = None) -> Tensor:
        """Nearest whole number; halves go to the even one.

        y = ⌊x⌉

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> g.output({}, gw.round(g.constant([0.5, 1.5, -0.7])))["round"].tolist()
        [0.0, 2.0, -1.0]
        """

    def rsqrt(self, *, name: str | None = None) -> Tensor:
        """Reciprocal of the square root.

        y = 1 / √x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.rsqrt(g.constant([4.0, 16.0]))
        >>> g.output({}, y)["rsqrt"].tolist()
        [0.5, 0.25]
        """

    def sigmoid(self, *, name: str | None = None) -> Tensor:
        """Logistic function, precise in both tails.

        y = 1/(1 + e⁻ˣ)

        The slope is y·(1 − y), so that x need not be kept; for large x its relative error in float32 is
        6e-8·eˣ, and from 17 on it is 0. Where x is a placeholder or a variable, it is precise.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> g.output({}, gw.nn.sigmoid(g.constant([-1000.0, 0.0])))["sigmoid"].tolist()
        [0.0, 0.5]
        """

    def sign(self, *, name: str | None = None) -> Tensor:
        """Sign: −1, 0 or 1; of a complex tensor, the number of modulus 1 in its direction, or 0.

        y = x / |x|

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.sign(g.constant([-2.0, 0.0, 3.0]))
        >>> g.output({}, y)["sign"].tolist()
        [-1.0, 0.0, 1.0]
        """

    def sin(self, *, name: str | None = None) -> Tensor:
        """Sine.

        y = sin x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.sin(g.constant([0.0, 1.5708]))
        >>> g.output({}, y)["sin"].tolist()
        [0.0, 1.0]
        """

    def sinh(self, *, name: str | None = None) -> Tensor:
        """Hyperbolic sine.

        y = sinh x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.sinh(g.constant([0.0, 1.0]))
        >>> print(g.output({}, y)["sinh"].round(3))
        [0.    1.175]
        """

    def softmax(self, axis: int = -1, *, name: str | None = None) -> Tensor:
        """Normalise logits to probabilities along ``axis``; never overflows.

        yᵢ = exp(xᵢ − max x) / Σⱼ exp(xⱼ − max x)

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> g.output({}, gw.nn.softmax(g.constant([1000.0, 1000.0])))["softmax"].tolist()
        [0.5, 0.5]

        Attributes:
            axis: Axis that sums to one.
        """

    def sort(self, axis: int = -1, descending: bool = False, *, name: str | None = None) -> Tensor:
        """Elements in order.

        y₀ ≤ y₁ ≤ …, or ≥ if descending. The places they come from are a residual, for gradients.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.sort(g.constant([3, 9, 5]))
        >>> g.output({}, y)["sort"].tolist()
        [3, 5, 9]

        Attributes:
            axis: Axis to sort along.
            descending: Largest first.
        """

    def sqrt(self, *, name: str | None = None) -> Tensor:
        """Square root.

        y = √x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.sqrt(g.constant([4.0, 9.0]))
        >>> g.output({}, y)["sqrt"].tolist()
        [2.0, 3.0]
        """

    def square(self, *, name: str | None = None) -> Tensor:
        """Square.

        y = x²

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.square(g.constant([-2.0, 3.0]))
        >>> g.output({}, y)["square"].tolist()
        [4.0, 9.0]
        """

    def squeeze(
        self, axis: int | Sequence[int] | None = None, *, name: str | None = None
    ) -> Tensor:
        """Drop axes of size 1.

        y[…] = x[…, 0, …]

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.squeeze(g.constant([[1, 2]]))
        >>> g.output({}, y)["squeeze"].tolist()
        [1, 2]

        Attributes:
            axis: Axes to drop; None drops all of size 1.
        """

    def std(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        ddof: int = 0,
        *,
        name: str | None = None,
    ) -> Tensor:
        """Standard deviation; its gradient where all elements are equal is taken to be 0.

        y = √(Σ (x − mean x)² / max(0, n − ddof))

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.std(g.constant([1.0, 3.0]))
        >>> g.output({}, y)["std"].tolist()
        1.0

        Attributes:
            axis: Axis or axes to reduce; None reduces all.
            keepdims: Keep reduced axes with size 1.
            ddof: What is taken off the number of elements; 1 gives the unbiased estimate.
        """

    def sub(self, b: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
        """Difference of two tensors.

        y = a − b

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.sub(g.constant([1.0, 2.0]), 10.0)
        >>> g.output({}, y)["sub"].tolist()
        [-9.0, -8.0]
        """

    def sum(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        *,
        name: str | None = None,
    ) -> Tensor:
        """Sum over axes; halves accumulate in float32, bools and ints in 64-bit ints.

        y = Σ x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> x = g.placeholder("x", ("B", 3))
        >>> x.sum(axis=1).shape, str((x > 0.0).sum().spec)
        ((B,), 'i64[]')

        Attributes:
            axis: Axis or axes to reduce; None reduces all.
            keepdims: Keep reduced axes with size 1.
        """

    def swapaxes(self, axis1: int, axis2: int, *, name: str | None = None) -> Tensor:
        """Exchange two axes.

        y[…, j, …, i, …] = x[…, i, …, j, …]

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.swapaxes(g.constant([[1, 2], [3, 4]]), 0, 1)
        >>> g.output({}, y)["swapaxes"].tolist()
        [[1, 3], [2, 4]]

        Attributes:
            axis1: One axis.
            axis2: The other axis.
        """

    def tan(self, *, name: str | None = None) -> Tensor:
        """Tangent.

        y = tan x

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.tan(g.constant([0.0, 0.7854]))
        >>> print(g.output({}, y)["tan"].round(3))
        [0. 1.]
        """

    def tanh(self, *, name: str | None = None) -> Tensor:
        """Hyperbolic tangent.

        y = (eˣ − e⁻ˣ)/(eˣ + e⁻ˣ)

        The slope is 1 − y², so that x need not be kept; for large |x| its relative error in float32 is
        2e-8·e^(2|x|), and from 9 on it is 0. Where x is a placeholder or a variable, it is precise.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> g.output({}, gw.tanh(g.constant([0.0, 100.0])))["tanh"].tolist()
        [0.0, 1.0]
        """

    def tile(self, reps: int | Sequence[int], *, name: str | None = None) -> Tensor:
        """Repeat the whole tensor along axes.

        y[…, i, …] = x[…, i mod n, …]

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> g.output({}, gw.tile(g.constant([1, 2]), 2))["tile"].tolist()
        [1, 2, 1, 2]

        Attributes:
            reps: Repeats per axis; as many as axes, or for the last.
        """

    def top_k(
        self, k: int, axis: int = -1, largest: bool = True, *, name: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """The k largest (or smallest) elements along an axis, in order, and their places.

        values, indices = the first k of sort(x) and argsort(x)

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> values, places = gw.top_k(g.placeholder("x", (4,)), 2)
        >>> [a.tolist() for a in g.output({"x": [1.0, 4.0, 2.0, 4.0]}, values, places).values()]
        [[4.0, 4.0], [1, 3]]

        Attributes:
            k: How many.
            axis: Axis to search along.
            largest: The largest; otherwise the smallest.
        """

    def tril(self, k: int = 0, *, name: str | None = None) -> Tensor:
        """Lower triangle of the last two axes, zeros above.

        y[…, i, j] = x[…, i, j] if j − i ≤ k, else 0

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> g.output({}, gw.tril(g.constant([[1, 2], [3, 4]])))["tril"].tolist()
        [[1, 0], [3, 4]]

        Attributes:
            k: Diagonal up to which elements stay: 0 the main one, above it positive.
        """

    def triu(self, k: int = 0, *, name: str | None = None) -> Tensor:
        """Upper triangle of the last two axes, zeros below.

        y[…, i, j] = x[…, i, j] if j − i ≥ k, else 0

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.triu(g.constant([[1, 2], [3, 4]]))
        >>> g.output({}, y)["triu"].tolist()
        [[1, 2], [0, 4]]

        Attributes:
            k: Diagonal up to which elements stay: 0 the main one, above it positive.
        """

    def var(
        self,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        ddof: int = 0,
        *,
        name: str | None = None,
    ) -> Tensor:
        """Variance: mean squared distance from the mean.

        y = Σ (x − mean x)² / max(0, n − ddof), which is infinite or NaN where ddof >= n

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> float(g.output({}, gw.var(g.constant([1.0, 3.0]), ddof=1))["var"])
        2.0

        Attributes:
            axis: Axis or axes to reduce; None reduces all.
            keepdims: Keep reduced axes with size 1.
            ddof: What is taken off the number of elements; 1 gives the unbiased estimate.
        """
