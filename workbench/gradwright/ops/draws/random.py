"""Random tensors: functions of seed, step and stream, the same on every device.

How words become numbers is written in ``philox.py``. What is drawn has no gradient; a normal with
a mean and a deviation that do is ``mean + std * gw.random.normal(...)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import AnyDim, Dim, TensorSpec, differ, dtype_name, kind
from ...spec.rounding import rounded
from . import philox

KEY = TensorSpec((2,), "uint64")
_FARTHEST = 37
"""Standard deviations beyond which float64 has no number for the tail of the normal."""


class _Random(Op):
    """A tensor drawn anew in every run."""

    namespace = "random"
    kinds: ClassVar[str] = "f"
    shape: tuple[AnyDim, ...] = attr(doc="Shape of the result; dims of other tensors may be used.")
    stream: int = attr(0, doc="Random stream, given by the graph.")
    dtype: np.dtype[Any] = attr("float32", doc="Dtype of the result.")

    def infer(self, rng: TensorSpec) -> TensorSpec:
        if rng.dtype != KEY.dtype or rng.rank != 1 or differ(rng.shape[0], 2):
            raise DTypeError(f"{self.name} needs a random key, got {rng}", need="g.rng: u64[2]")
        if not all(isinstance(d, Dim) or (isinstance(d, int) and d >= 0) for d in self.shape):
            raise ShapeError(f"{self.shape} is no shape", need="sizes or dims")
        if kind(self.dtype) not in self.kinds:
            raise DTypeError(f"{self.name} does not make {dtype_name(self.dtype)}")
        self.check()
        return TensorSpec(self.shape, self.dtype)

    def check(self) -> None:
        """Refuse attributes that make no distribution."""

    def draw(self, rng: Any, n: int) -> Any:
        """Return ``n`` numbers."""
        raise NotImplementedError

    def forward(self, rng: Any) -> Any:
        drawn = self.draw(rng, math.prod(self.shape))  # type: ignore[arg-type]
        return rounded(drawn, self.dtype).reshape(self.shape)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        key = np.array([7, 3], np.uint64)
        yield Sample((key,), {"shape": (3, 5)})
        yield Sample((key,), {"shape": (), "stream": 1, "dtype": "float64"})
        yield Sample((key,), {"shape": (0, 2)})
        yield Sample((key,), {"shape": (3,), "dtype": "bfloat16"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {"shape": (3,)}, "needs a random key")
        yield ErrorSample((KEY,), {"shape": (-3,)}, "is no shape")
        yield ErrorSample((KEY,), {"shape": (3,), "dtype": "complex64"}, "does not make complex64")


class FoldIn(Op):
    """A random key of its own for each number, such as the step of a loop.

    key' = philox(key, number)

    Raises DTypeError where the key is not u64[2], or the number no integer. Salmon et al. 2011.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> keys = [gw.random.fold_in(g.rng, g.constant(i)) for i in (1, 1, 2)]
    >>> a, b, c = g.output({}, *keys).values()
    >>> a.tolist() == b.tolist(), a.tolist() == c.tolist()
    (True, False)
    """

    namespace = "random"
    places = (1,)

    def infer(self, rng: TensorSpec, number: TensorSpec) -> TensorSpec:
        if rng.dtype != KEY.dtype or rng.rank != 1 or differ(rng.shape[0], 2):
            raise DTypeError(f"fold_in needs a random key, got {rng}", need="g.rng: u64[2]")
        if number.rank or kind(number.dtype) not in "iu":
            raise DTypeError(f"fold_in needs a whole number, got {number}", need="i64[]")
        return TensorSpec((2,), "uint64")

    def forward(self, rng: Any, number: Any) -> Any:
        return philox.fold_in(rng, int(number))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return ZERO, ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for number in (0, 7):
            yield Sample((np.array([7, 3], np.uint64), np.array(number)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)), TensorSpec((), "int64")), {}, "needs a random key")
        yield ErrorSample((KEY, TensorSpec(())), {}, "a whole number")


class Uniform(_Random):
    """Uniform numbers, with as many random bits as the dtype has significant ones.

    y ~ U[low, high)

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.random.uniform((2, 3), low=-1.0, high=1.0)
    >>> bool((abs(g.output({}, y)["uniform"]) <= 1.0).all())
    True
    """

    low: float = attr(0.0, doc="Smallest value.")
    high: float = attr(1.0, doc="Upper end, not reached.")
    onnx = OnnxRule("RandomUniform", since=1)

    def check(self) -> None:
        if not self.low < self.high:
            raise GraphError(f"nothing is between {self.low} and {self.high}", need="low < high")
        ends = rounded([self.low, self.high, self.high - self.low], self.dtype)
        if not np.isfinite(ends.astype(np.float64)).all():
            raise GraphError(
                f"{dtype_name(self.dtype)} does not hold the range from {self.low} to {self.high}",
                need="low, high and high - low finite in the dtype",
            )

    def draw(self, rng: Any, n: int) -> Any:
        u = philox.uniform(rng, self.stream, n, self.dtype)
        if (self.low, self.high) == (0.0, 1.0):
            return u
        low, high, span = rounded([self.low, self.high, self.high - self.low], self.dtype)
        return np.minimum(u * span + low, np.nextafter(high, low))  # may have rounded up

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([7, 3], np.uint64),), {"shape": (4,), "low": -2.0, "high": 3.0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((KEY,), {"shape": (3,), "low": 1.0}, "nothing is between")
        wide = {"shape": (3,), "high": 1e5, "dtype": "float16"}
        yield ErrorSample((KEY,), wide, "does not hold the range")
        yield ErrorSample((KEY,), {"shape": (3,), "high": math.inf}, "does not hold the range")


class Normal(_Random):
    """Gaussian numbers (Box and Muller 1958).

    y ~ N(mean, std²)

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.random.normal((2, 3), std=0.5)
    >>> g.output({}, y)["normal"].shape
    (2, 3)
    """

    mean: float = attr(0.0, doc="Mean.")
    std: float = attr(1.0, doc="Standard deviation.")
    onnx: ClassVar[OnnxRule | None] = OnnxRule("RandomNormal", since=1, rename={"std": "scale"})

    def check(self) -> None:
        if not 0 <= self.std < math.inf:
            raise GraphError(f"std={self.std} is no standard deviation", need="std >= 0, finite")
        if not math.isfinite(self.mean):
            raise GraphError(f"mean={self.mean} is no mean", need="a finite number")

    def draw(self, rng: Any, n: int) -> Any:
        z = philox.normal(rng, self.stream, n, self.dtype)
        return z * self.dtype.type(self.std) + self.dtype.type(self.mean)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((KEY,), {"shape": (3,), "std": -1.0}, "no standard deviation")
        yield ErrorSample((KEY,), {"shape": (3,), "mean": math.nan}, "is no mean")


class TruncatedNormal(Normal):
    """Gaussian numbers conditioned on a range around the mean.

    y ~ N(mean, std²) given lower ≤ (y − mean)/std ≤ upper

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.random.truncated_normal((2, 3))
    >>> bool((abs(g.output({}, y)["truncated_normal"]) <= 2.0).all())
    True
    """

    lower: float = attr(-2.0, doc="Lower end, in standard deviations from the mean.")
    upper: float = attr(2.0, doc="Upper end, in standard deviations from the mean.")
    onnx = None

    def check(self) -> None:
        super().check()
        if not self.lower < self.upper:
            raise GraphError(
                f"nothing is between {self.lower} and {self.upper}", need="lower < upper"
            )
        if max(self.lower, -self.upper) > _FARTHEST:
            raise GraphError(
                f"the range from {self.lower} to {self.upper} is too far from the mean",
                need=f"lower < {_FARTHEST} and upper > -{_FARTHEST}, in standard deviations",
            )

    def draw(self, rng: Any, n: int) -> Any:
        z = philox.truncated_normal(rng, self.stream, n, self.dtype, self.lower, self.upper)
        return z * self.dtype.type(self.std) + self.dtype.type(self.mean)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((KEY,), {"shape": (3,), "lower": 2.0}, "nothing is between")
        far = {"shape": (3,), "lower": 40.0, "upper": 50.0}
        yield ErrorSample((KEY,), far, "too far from the mean")


class Bernoulli(_Random):
    """Ones with probability ``p``, else zeros.

    y ~ B(1, p)

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.random.bernoulli((2,), p=1.0)
    >>> g.output({}, y)["bernoulli"].tolist()
    [1.0, 1.0]
    """

    p: float = attr(0.5, doc="Probability of a one.")

    kinds = "fbiu"
    onnx = OnnxRule("Bernoulli", since=15)

    def check(self) -> None:
        if not 0 <= self.p <= 1:
            raise GraphError(f"p={self.p} is no probability", need="0 <= p <= 1")

    def draw(self, rng: Any, n: int) -> Any:
        return philox.bernoulli(rng, self.stream, n, self.p)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([7, 3], np.uint64),), {"shape": (4,), "p": 0.1, "dtype": "bool"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((KEY,), {"shape": (3,), "p": -0.1}, "p=-0.1 is no probability")
