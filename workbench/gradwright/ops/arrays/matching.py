"""Which elements fulfil a condition: masks, counts, first and last places, replacement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import DTypeError
from ...op import ZERO, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, broadcast, kind, promote
from ..core.choice import Where
from ..core.comparison import IsFinite, IsInf, IsNan, LogicalNot
from ..core.creation import Arange
from ..core.elementwise import Abs
from ..core.like import IotaLike
from ..core.quantifiers import All, AnyTrue, Argmax, CountNonzero
from ..core.reduce import _Reduction
from ..core.reshape import Flatten, Reshape

_COMPARE = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_ABSOLUTE = ("abs_equal", "abs_not_equal", "abs_less", "abs_less_equal", "abs_greater",
             "abs_greater_equal")  # fmt: skip
_TESTS: Mapping[str, type[Op]] = {"is_nan": IsNan, "is_inf": IsInf, "is_finite": IsFinite}
CONDITIONS = (*_COMPARE, *_ABSOLUTE, *_TESTS, "not_finite")
"""What can be asked of an element: compared with a value, or about its kind."""


def matches(x: Any, condition: str, value: float) -> Any:
    """Return the mask of the elements that fulfil a condition, as a tensor."""
    if condition == "not_finite":
        return LogicalNot()(IsFinite()(x))
    if condition in _TESTS:
        return _TESTS[condition]()(x)
    name = condition.removeprefix("abs_")
    left = Abs()(x) if name != condition else x
    match name:
        case "equal":
            return left == value
        case "not_equal":
            return left != value
        case "less":
            return left < value
        case "less_equal":
            return left <= value
        case "greater":
            return left > value
        case _:
            return left >= value


def _check(op: Op, x: TensorSpec, condition: str) -> None:
    if kind(x.dtype) not in ("f" if condition in (*_TESTS, "not_finite") else "uif"):
        raise DTypeError(f"{op.name} does not ask {x.dtype} whether {condition}")


class MatchCondition(Op):
    """Mask of the elements that fulfil a condition.

    y = [condition(x, value)], such as [x > value]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.match_condition(g.constant([1.0, -3.0]), "abs_greater", 2.0, name="y")
    >>> g.output({}, y)["y"].tolist()
    [False, True]
    """

    namespace = "base"
    condition: str = attr(doc="What is asked of each element.", choices=CONDITIONS)
    value: float = attr(0.0, doc="What it is compared with.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        _check(self, x, self.condition)
        return x.with_dtype("bool")

    def expand(self, x: Any) -> Any:
        return matches(x, self.condition, self.value)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = np.array([-2.0, 0.0, 1.0, 2.0])
        for condition in CONDITIONS[:12]:
            yield Sample((x,), {"condition": condition, "value": 2.0})
        odd = np.array([[1.0, np.nan], [np.inf, -np.inf]])
        for condition in CONDITIONS[12:]:
            yield Sample((odd,), {"condition": condition})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,), "bool"),), {"condition": "less"}, "does not ask")
        yield ErrorSample((TensorSpec((2,), "int64"),), {"condition": "is_nan"}, "does not ask")
        yield ErrorSample((TensorSpec((2,)),), {"condition": "odd"}, "is not known")


class _Matching(_Reduction):
    """What is known over axes about the elements that fulfil a condition."""

    namespace = "math"
    is_method = False
    accepts: ClassVar[str] = "uif"
    condition: str = attr(doc="What is asked of each element.", choices=CONDITIONS)
    value: float = attr(0.0, doc="What it is compared with.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        _check(self, x, self.condition)
        return super().infer(x).with_dtype("int64")

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = np.array([[1.0, -2.0, 3.0], [-1.0, -1.0, -3.0]])
        yield Sample((x,), {"condition": "greater"})
        yield Sample((x,), {"condition": "less", "axis": -1, "keepdims": True})
        yield Sample((x.astype(np.int32),), {"condition": "equal", "value": -1, "axis": 0})
        yield Sample((np.array(np.nan),), {"condition": "is_nan"})
        yield Sample((x[:, :0],), {"condition": "less", "axis": 1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((2, 3))
        yield ErrorSample((x,), {"condition": "less", "axis": 2}, "out of range")
        yield ErrorSample((x.with_dtype("bool"),), {"condition": "less"}, "does not ask")


class MatchConditionCount(_Matching):
    """Number of the elements that fulfil a condition.

    y = Σ [condition(x, value)] : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> n = gw.match_condition_count(g.constant([1.0, -3.0, 0.0]), "less_equal", name="n")
    >>> int(g.output({}, n)["n"])
    2
    """

    namespace = "base"

    def expand(self, x: Any) -> Any:
        found = matches(x, self.condition, self.value)
        return CountNonzero(axis=self.axis, keepdims=self.keepdims)(found)


class _End(_Matching):
    """The first or last place at which the condition is fulfilled."""

    drawing = "math"
    needs_elements = True
    last: ClassVar[bool]
    axis: int | None = attr(None, doc="Axis to search; None searches the flattened tensor.")

    def expand(self, x: Any) -> Any:
        found = matches(x, self.condition, self.value)
        where = {"axis": self.axis, "keepdims": self.keepdims}
        return Where()(AnyTrue(**where)(found), Argmax(**where, last=self.last)(found), -1)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from list(super().samples(rng))[:-1]


class FirstIndex(_End):
    """First place at which an element fulfils a condition; −1 if none does.

    y = min {i: condition(xᵢ, value)} : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.first_index(g.constant([1.0, 5.0, 7.0]), "greater", value=2.0)
    >>> int(g.output({}, y)["first_index"])
    1
    """

    last = False


class LastIndex(_End):
    """Last place at which an element fulfils a condition; −1 if none does.

    y = max {i: condition(xᵢ, value)} : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.last_index(g.constant([1.0, 5.0, 7.0]), "greater", value=2.0)
    >>> int(g.output({}, y)["last_index"])
    2
    """

    last = True


class ReplaceWhere(Op):
    """Replace the elements that fulfil a condition.

    y = condition(x, value) ? replacement : x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.replace_where(g.constant([1.0, float("nan")]), 0.0, "is_nan", name="y")
    >>> g.output({}, y)["y"].tolist()
    [1.0, 0.0]
    """

    namespace = "base"
    condition: str = attr(doc="What is asked of each element.", choices=CONDITIONS)
    value: float = attr(0.0, doc="What it is compared with.")

    def infer(self, x: TensorSpec, replacement: TensorSpec) -> TensorSpec:
        _check(self, x, self.condition)
        return TensorSpec(
            broadcast(x.shape, replacement.shape), promote(x.dtype, replacement.dtype)
        )

    def expand(self, x: Any, replacement: Any) -> Any:
        return Where()(matches(x, self.condition, self.value), replacement, x)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 3))
        yield Sample((x, rng.standard_normal(3)), {"condition": "abs_less", "value": 0.5})
        yield Sample((np.array([np.nan, 1.0]), np.array(0.0)), {"condition": "is_nan"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        specs = TensorSpec((2,), "complex64"), TensorSpec((2,))
        yield ErrorSample(specs, {"condition": "less"}, "does not ask")


class IsMax(Op):
    """Mask of the largest element; the first of equal ones.

    y = [i = argmax x], over one axis or all

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.is_max(g.constant([1, 3, 3]), name="y"))["y"].tolist()
    [False, True, False]
    """

    namespace = "math"
    drawing = "math"
    axis: int | None = attr(None, doc="Axis to search; None searches the flattened tensor.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        Argmax(axis=self.axis).infer(x)
        return x.with_dtype("bool")

    def expand(self, x: Any) -> Any:
        if self.axis is None:
            place = Argmax()(x)
            return IotaLike()(x) == place
        place = Argmax(axis=self.axis, keepdims=True)(x)
        n = [1] * x.rank
        n[self.axis] = -1
        along = Arange(start=x.shape[self.axis])()
        return Reshape(shape=n)(along) == place

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([[1.0, 3.0, 3.0], [2.0, 0.0, 1.0]]),))
        yield Sample((np.array([[1, 3, 3], [2, 0, 1]]),), {"axis": -1})
        yield Sample((np.array(2.0),))
        yield Sample((np.zeros((2, 0)),), {"axis": 0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {"axis": 1}, "out of range")
        yield ErrorSample((TensorSpec((0,)),), {}, "of no elements")


class _Ordered(Op):
    """Whether the elements, read in row-major order, go up."""

    namespace = "math"
    drawing = "math"

    def infer(self, x: TensorSpec) -> TensorSpec:
        if kind(x.dtype) not in "uif":
            raise DTypeError(f"{self.name} does not take {x.dtype}")
        return TensorSpec((), "bool")

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for x in ([[1.0, 2.0], [2.0, 3.0]], [1, 2, 4], [1.0, np.nan, 2.0], 5.0, [3, 2]):
            yield Sample((np.array(x),))
        yield Sample((np.zeros((0, 2)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,), "complex64"),), {}, "does not take")


class IsNonDecreasing(_Ordered):
    """Whether no element is smaller than the one before it, in row-major order.

    y = ∀i xᵢ ≤ xᵢ₊₁

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> bool(g.output({}, gw.is_non_decreasing(g.constant([1, 1, 2]), name="y"))["y"])
    True
    """

    def expand(self, x: Any) -> Any:
        flat = Flatten()(x)
        return All()(flat[:-1] <= flat[1:])


class IsStrictlyIncreasing(_Ordered):
    """Whether every element is larger than the one before it, in row-major order.

    y = ∀i xᵢ < xᵢ₊₁

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> bool(g.output({}, gw.is_strictly_increasing(g.constant([1, 1, 2]), name="y"))["y"])
    False
    """

    def expand(self, x: Any) -> Any:
        flat = Flatten()(x)
        return All()(flat[:-1] < flat[1:])


class IsNumericTensor(Op):
    """Whether a tensor holds numbers, not bools.

    y = [dtype ≠ bool] : bool

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> bool(g.output({}, gw.is_numeric_tensor(g.constant([True]), name="y"))["y"])
    False
    """

    namespace = "base"
    shape_only = (0,)

    def infer(self, x: TensorSpec) -> TensorSpec:
        return TensorSpec((), "bool")

    def forward(self, x: Any) -> Any:
        return np.array(x.dtype != bool)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal(2),))
        yield Sample((np.array(True),))
