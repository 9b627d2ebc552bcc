"""More functions of each pair of elements of two tensors, which broadcast and promote."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError
from ...op import AFFINE, ELEMENT, ZERO, Autocast, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, broadcast, kind, promote_all
from ..core.activation import Sigmoid
from ..core.choice import Where
from ..core.comparison import IsInf, Sign, _Comparison
from ..core.elementwise import Div, Sub, _Binary, promoted
from ..core.exponential import Log
from ..core.movement import alike
from .elementary import Trunc


class _Composed(_Binary):
    """A function of two tensors, made of other ops."""

    accepts = "uifc"

    def forward(self, a: Any, b: Any) -> Any:
        return Op.forward(self, a, b)


class Rsub(_Composed):
    """Difference the other way round.

    y = b − a

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.rsub(g.constant([1, 2]), 5, name="y"))["y"].tolist()
    [4, 3]
    """

    dependence = AFFINE

    def expand(self, a: Any, b: Any) -> Any:
        return Sub()(b, a)


class Rdiv(_Composed):
    """Quotient the other way round; integers are divided as float32.

    y = b / a

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.rdiv(g.constant([2.0, 4.0]), 1.0, name="y"))["y"].tolist()
    [0.5, 0.25]
    """

    domain = (0.5, 2.0)
    dependence = ELEMENT, AFFINE

    def infer(self, a: TensorSpec, b: TensorSpec) -> TensorSpec:
        return Div().infer(b, a)

    def expand(self, a: Any, b: Any) -> Any:
        return Div()(b, a)


class DivNoNan(_Composed):
    """Quotient that is 0 where the divisor is 0, as are its gradients.

    y = b ≠ 0 ? a / b : 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.div_no_nan(g.constant([1.0, 0.0]), g.constant([2.0, 0.0]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [0.5, 0.0]
    """

    domain = (0.5, 2.0)
    dependence = AFFINE, ELEMENT

    def infer(self, a: TensorSpec, b: TensorSpec) -> TensorSpec:
        return Div().infer(a, b)

    def expand(self, a: Any, b: Any) -> Any:
        nothing = b == 0
        return Where()(nothing, 0.0, Div()(a, Where()(nothing, 1.0, b)))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([1.0, 0.0, 3.0]), np.array([0.0, 0.0, 2.0])), differentiate=(0,))
        yield Sample((np.array([4, 1]), np.array([8, 0])))


class Fmod(_Binary):
    """Remainder of the division rounded towards 0; it has the sign of the dividend.

    y = a − b·trunc(a / b)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.fmod(g.constant([-7, 7]), 3, name="y"))["y"].tolist()
    [-1, 1]
    """

    element = "fmod"
    accepts = "uif"
    domain = (0.5, 2.0)

    def forward(self, a: Any, b: Any) -> Any:
        joint = promoted(a, b)
        wide = joint if kind(joint) in "ui" or joint.itemsize >= 4 else np.dtype(np.float32)
        return np.fmod(a.astype(wide), b.astype(wide)).astype(joint)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return gs[0], lambda: -gs[0] * Trunc()(xs[0] / xs[1])


class Copysign(_Binary):
    """Size of one tensor with the signs of another.

    y = |a|·sign b, the sign of −0 and NaN included

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.copysign(g.constant([1.0, -2.0]), -0.0, name="y"))["y"].tolist()
    [-1.0, -2.0]
    """

    element = "copysign"
    ufunc = np.copysign
    accepts = "f"

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return gs[0] * Sign()(xs[0]) * Sign()(ys[0]), ZERO


class Hypot(_Binary):
    """Length of the hypotenuse, safe from overflow; its gradient at 0 is taken to be 0.

    y = √(a² + b²)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.hypot(g.constant(3.0), 4.0, name="y"))["y"])
    5.0
    """

    ufunc = np.hypot
    accepts = "f"
    domain = (0.5, 2.0)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (y,), (a, b) = gs, ys, xs
        length = Where()(y == 0.0, 1.0, y)
        return lambda: g * (a / length), lambda: g * (b / length)


class Logaddexp(_Binary):
    """Logarithm of the sum of two exponentials, safe from overflow.

    y = ln(eᵃ + eᵇ)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.logaddexp(g.constant(1000.0), 0.0, name="y"))["y"])
    1000.0
    """

    autocast = Autocast.POWER
    ufunc = np.logaddexp
    accepts = "f"

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (a, b) = gs, xs
        lead = Where()((a == b) & IsInf()(a), 0.0, a - b)  # ∞ − ∞ is NaN
        return lambda: g * Sigmoid()(lead), lambda: g * Sigmoid()(-lead)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([800.0, -900.0]), np.array([799.0, -901.0])))
        yield Sample((np.array([-np.inf, -np.inf]), np.array([1.0, -np.inf])), smooth=False)


class Xlogy(_Composed):
    """Product with a logarithm, 0 where the first factor is 0.

    y = a ≠ 0 ? a·ln b : 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.xlogy(g.constant(0.0), 0.0, name="y"))["y"])
    0.0
    """

    autocast = Autocast.POWER
    accepts = "f"
    domain = (0.5, 2.0)

    def expand(self, a: Any, b: Any) -> Any:
        unsure = (b <= 0.0) | (b == math.inf)  # where a logarithm has no product with 0
        return a * Log()(Where()((a == 0.0) & unsure, 1.0, b))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([0.0, 0.0]), np.array([0.5, 2.0])))
        yield Sample((np.zeros(3), np.array([0.0, -1.0, np.inf])), smooth=False)


class Heaviside(_Binary):
    """Step function: 0 below 0, 1 above, and a given value at 0.

    y = [x > 0], values where x = 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.heaviside(g.constant([-1.0, 0.0, 2.0]), 0.5, name="y"))["y"].tolist()
    [0.0, 0.5, 1.0]
    """

    accepts = "f"

    def infer(self, x: TensorSpec, values: TensorSpec) -> TensorSpec:
        return super().infer(x, values)

    def forward(self, x: Any, values: Any) -> Any:
        joint = promoted(x, values)
        wide = np.float32 if joint.itemsize < 4 else joint
        return np.heaviside(x.astype(wide), values.astype(wide)).astype(joint)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return ZERO, lambda: Where()(xs[0] == 0.0, gs[0], 0.0)


class IsClose(_Comparison):
    """Whether two tensors are equal up to a tolerance.

    y = |a − b| ≤ atol + rtol·|b|

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.is_close(g.constant([1.0, 1.1]), 1.000001, name="y"))["y"].tolist()
    [True, False]
    """

    rtol: float = attr(1e-5, doc="Tolerance relative to b.")
    atol: float = attr(1e-8, doc="Absolute tolerance.")
    equal_nan: bool = attr(False, doc="Whether NaN is close to NaN.")

    def forward(self, a: Any, b: Any) -> Any:
        joint = promoted(a, b)
        wide = np.float32 if kind(joint) == "f" and joint.itemsize < 4 else joint
        a, b = a.astype(wide, copy=False), b.astype(wide, copy=False)
        return np.isclose(a, b, self.rtol, self.atol, self.equal_nan)


class _Divisors(_Binary):
    """A function of the common divisors of two integers."""

    accepts = "ui"

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([[12], [-8], [0]]), np.array([18, 0, 5])))
        yield Sample((np.zeros((0, 2), np.uint8), np.array([1, 2], np.uint8)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)), TensorSpec((2,))), {}, "does not take float32")


class Gcd(_Divisors):
    """Greatest common divisor.

    y = max {d: d | a, d | b}

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> int(g.output({}, gw.gcd(g.constant(12), 18, name="y"))["y"])
    6
    """

    ufunc = np.gcd


class Lcm(_Divisors):
    """Least common multiple.

    y = min {m > 0: a | m, b | m}

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> int(g.output({}, gw.lcm(g.constant(4), 6, name="y"))["y"])
    12
    """

    ufunc = np.lcm


class Lerp(Op):
    """Linear interpolation, or extrapolation, from one tensor to another.

    y = a + weight·(b − a)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.lerp(g.constant([0.0, 10.0]), 20.0, 0.25, name="y"))["y"].tolist()
    [5.0, 12.5]
    """

    namespace = "math"

    def infer(self, a: TensorSpec, b: TensorSpec, weight: TensorSpec) -> TensorSpec:
        joint = promote_all(a, b, weight)
        if kind(joint) not in "fc":
            raise DTypeError(f"lerp does not take {joint}", hint="gw.cast(x, 'float32')")
        return TensorSpec(broadcast(a.shape, b.shape, weight.shape), joint)

    def expand(self, a: Any, b: Any, weight: Any) -> Any:
        a, b, weight = alike(a, b, weight)
        return a + weight * (b - a)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)), rng.standard_normal(3), np.array(0.3)))
        yield Sample((np.array(1.0), rng.standard_normal(2), rng.standard_normal((0, 2))))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        whole = TensorSpec((2,), "int64")
        yield ErrorSample((whole, whole, whole), {}, "does not take int64")
