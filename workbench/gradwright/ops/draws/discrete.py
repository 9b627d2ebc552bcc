"""Draws of whole numbers: counts, integers of a range, classes, orders."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import ZERO, Cotangent, ErrorSample, NotDifferentiable, OnnxRule, Op, Sample, attr
from ...spec import Dim, TensorSpec, differ, dtype, dtype_name, kind
from . import philox
from .random import KEY, _Random

_SAMPLE_KEY = np.array([7, 3], np.uint64)


def _refuse_overflow(d: np.dtype[Any], largest: float, what: str) -> None:
    """Refuse an integer dtype in which the largest number that may be drawn would wrap."""
    if kind(d) in "iu" and largest > np.iinfo(d).max:
        raise GraphError(f"{dtype_name(d)} does not hold {what} {largest}", need="a wider dtype")


class _Counts(_Random):
    """Counts, by inversion of a distribution function that is tabulated in float64.

    The table reaches 40 standard deviations and 60 counts to either side of the mean, beyond which
    less than 10⁻¹⁵⁰ is left; a draw is a search in it.
    """

    kinds = "fiu"

    def mean_and_variance(self) -> tuple[float, float]:
        """Return mean and variance."""
        raise NotImplementedError

    def log_ratios(self, k: Any) -> Any:
        """Return log p(k)/p(k − 1) of counts above the first."""
        raise NotImplementedError

    def largest(self) -> float:
        """Return the largest possible count."""
        return math.inf

    def check(self) -> None:
        mean, variance = self.mean_and_variance()
        top = min(self.largest(), math.ceil(mean + 10 * math.sqrt(variance) + 10))
        _refuse_overflow(self.dtype, top, "counts up to")  # of more is P(y) < 2⁻⁵³: never drawn

    def draw(self, rng: Any, n: int) -> Any:
        mean, variance = self.mean_and_variance()
        reach = 40 * math.sqrt(variance) + 60
        first = max(0, math.floor(mean - reach))
        last = int(min(self.largest(), math.ceil(mean + reach)))
        logs = np.concatenate([[0.0], np.cumsum(self.log_ratios(np.arange(first + 1, last + 1)))])
        table = np.cumsum(np.exp(logs - logs.max()))
        u = (philox.words64(rng, self.stream, n) >> np.uint64(11)) * 2.0**-53
        return first + np.searchsorted(table, u * table[-1], side="right")


class Binomial(_Counts):
    """How many of ``n`` independent trials succeed.

    P(y = k) = n!/(k!·(n − k)!)·pᵏ·(1 − p)ⁿ⁻ᵏ

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.random.binomial((2, 3), n=10, p=1.0)
    >>> g.output({}, y)["binomial"].tolist()
    [[10.0, 10.0, 10.0], [10.0, 10.0, 10.0]]
    """

    n: int = attr(1, doc="Number of trials.")
    p: float = attr(0.5, doc="Probability of success.")

    def check(self) -> None:
        if self.n < 0 or not 0 <= self.p <= 1:
            raise GraphError(f"n={self.n}, p={self.p} are no trials", need="n >= 0 and 0 <= p <= 1")
        super().check()

    def mean_and_variance(self) -> tuple[float, float]:
        return self.n * self.p, self.n * self.p * (1 - self.p)

    def largest(self) -> float:
        return self.n

    def log_ratios(self, k: Any) -> Any:
        return np.log((self.n - k + 1) / k) + math.log(self.p) - math.log1p(-self.p)

    def draw(self, rng: Any, n: int) -> Any:
        if self.p in (0.0, 1.0):
            return np.full(n, self.n if self.p else 0)
        return super().draw(rng, n)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((_SAMPLE_KEY,), {"shape": (4,), "n": 1000, "p": 0.1, "dtype": "int32"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((KEY,), {"shape": (3,), "n": -1}, "are no trials")
        yield ErrorSample((KEY,), {"shape": (3,), "p": 1.5}, "are no trials")
        yield ErrorSample((KEY,), {"shape": (), "n": 1000, "dtype": "int8"}, "does not hold")


class Poisson(_Counts):
    """How many events come in a unit of time at a constant rate.

    P(y = k) = rateᵏ·exp(−rate)/k!

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.random.poisson((2,), rate=0.0)
    >>> g.output({}, y)["poisson"].tolist()
    [0.0, 0.0]
    """

    rate: float = attr(1.0, doc="Mean number of events.")

    def check(self) -> None:
        if not 0 <= self.rate < math.inf:
            raise GraphError(f"rate={self.rate} is no rate", need="rate >= 0")
        super().check()

    def mean_and_variance(self) -> tuple[float, float]:
        return self.rate, self.rate

    def log_ratios(self, k: Any) -> Any:
        return math.log(self.rate) - np.log(k) if self.rate else np.full(k.shape, -np.inf)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((_SAMPLE_KEY,), {"shape": (4,), "rate": 200.0, "dtype": "int64"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((KEY,), {"shape": (3,), "rate": -1.0}, "is no rate")
        yield ErrorSample((KEY,), {"shape": (), "rate": 250.0, "dtype": "uint8"}, "does not hold")


class Randint(_Random):
    """Whole numbers of a range, all equally likely up to 2⁻³².

    y ~ U{low, …, high − 1}, y = low + ⌊w·(high − low)/2⁶⁴⌋ with 64 random bits w

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.random.randint((2, 3), 5, 6)
    >>> g.output({}, y)["randint"].tolist()
    [[5, 5, 5], [5, 5, 5]]
    """

    kinds = "iu"
    low: int = attr(0, doc="Smallest number.")
    high: int = attr(2, doc="Upper end, not reached.")
    dtype: np.dtype[Any] = attr("int64", doc="Dtype of the result.")

    def check(self) -> None:
        limits = np.iinfo(self.dtype)
        if not self.low < self.high:
            raise GraphError(f"no range from {self.low} to {self.high}", need="low < high")
        if self.low < limits.min or self.high - 1 > limits.max:
            raise GraphError(f"{dtype_name(self.dtype)} does not hold {self.low} to {self.high}")

    def draw(self, rng: Any, n: int) -> Any:
        words, span = philox.words64(rng, self.stream, n), self.high - self.low
        number = words if span == 1 << 64 else philox.upper_half(words, np.uint64(span))
        return number + np.uint64(self.low % (1 << 64))  # modulo 2⁶⁴, as integers of fewer bits

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((_SAMPLE_KEY,), {"shape": (3, 5), "high": 10})
        yield Sample((_SAMPLE_KEY,), {"shape": (), "low": -4, "high": 4, "dtype": "int8"})
        yield Sample((_SAMPLE_KEY,), {"shape": (0, 2)})
        top = {"low": (1 << 64) - 3, "high": 1 << 64, "dtype": "uint64"}
        yield Sample((_SAMPLE_KEY,), {"shape": (3,), **top})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {"shape": (3,)}, "needs a random key")
        yield ErrorSample((KEY,), {"shape": (3,), "low": 2}, "no range from 2 to 2")
        yield ErrorSample((KEY,), {"shape": (3,), "high": 300, "dtype": "uint8"}, "does not hold")
        yield ErrorSample((KEY,), {"shape": (3,), "dtype": "float32"}, "does not make float32")


class Permutation(_Random):
    """Numbers from 0 to n − 1 in random order, all orders equally likely.

    y: i64[n], the order of n random words of 64 bits

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.random.permutation(4)
    >>> sorted(g.output({}, y)["permutation"].tolist())
    [0, 1, 2, 3]
    """

    kinds = "iu"
    dtype: np.dtype[Any] = attr("int64", doc="Dtype of the result.")

    def check(self) -> None:
        if len(self.shape) != 1:
            raise ShapeError(f"{self.shape} is no length", need="shape: (n,)")
        if isinstance(self.shape[0], int):
            _refuse_overflow(self.dtype, self.shape[0] - 1, "numbers up to")

    def draw(self, rng: Any, n: int) -> Any:
        return np.argsort(philox.words64(rng, self.stream, n), kind="stable")

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((_SAMPLE_KEY,), {"shape": (5,)})
        yield Sample((_SAMPLE_KEY,), {"shape": (0,), "dtype": "int32"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {"shape": (3,)}, "needs a random key")
        yield ErrorSample((KEY,), {"shape": (3, 2)}, "is no length")
        yield ErrorSample((KEY,), {"shape": (300,), "dtype": "uint8"}, "does not hold")


def _refuse_rows(fits: Any, problem: str, need: str) -> None:
    """Refuse logits of which a row does not fit; name the first one."""
    if not fits.all():
        at = [int(i) for i in np.argwhere(~fits)[0]]
        raise GraphError(f"the logits{f' of row {at}' if at else ''} {problem}", need=need)


class Categorical(Op):
    """Class numbers drawn with given logits, with or without replacement.

    P(y = i) = softmax(logits)ᵢ over the last axis

    With logits f32[…, C]: i64[…, num_samples], or i64[…] for num_samples=None. Without replacement
    the classes of a row differ; they are the largest of logits + Gumbel noise (Kool et al. 2019). A
    row that leaves no class possible is an error when it is run.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.random.categorical(g.constant([[0.0, 1000.0]]), num_samples=3, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[1, 1, 1]]
    """

    namespace = "random"
    num_samples: int | None = attr(None, doc="Draws per row; None: one, without an axis for it.")
    replacement: bool = attr(True, doc="Whether a class may be drawn twice.")
    stream: int = attr(0, doc="Random stream, given by the graph.")
    dtype: np.dtype[Any] = attr(dtype("int64"), doc="Dtype of the result.")
    onnx = OnnxRule("Multinomial", since=7, rename={"num_samples": "sample_size"})

    def infer(self, rng: TensorSpec, logits: TensorSpec) -> TensorSpec:
        if rng.dtype != KEY.dtype or rng.rank != 1 or differ(rng.shape[0], 2):
            raise DTypeError(f"{self.name} needs a random key, got {rng}", need="g.rng: u64[2]")
        if kind(logits.dtype) != "f" or kind(self.dtype) not in "iu":
            raise DTypeError(
                f"no {dtype_name(self.dtype)} are drawn with {logits}",
                need="floating logits, an integer dtype",
            )
        if not logits.rank or logits.shape[-1] == 0:
            raise ShapeError("there are no classes", need="logits: f32[…, C]")
        n, n_classes = self.num_samples, logits.shape[-1]
        if n is not None and n < 0:
            raise GraphError(f"num_samples={n} is negative", need="num_samples >= 0")
        if not self.replacement and not isinstance(n_classes, Dim) and (n or 1) > n_classes:
            raise GraphError(f"{n} classes of {n_classes} cannot differ", hint="replacement=True")
        if isinstance(n_classes, int):
            _refuse_overflow(self.dtype, n_classes - 1, "classes up to")
        shape = logits.shape[:-1] if n is None else (*logits.shape[:-1], n)
        return TensorSpec(shape, self.dtype)

    def forward(self, rng: Any, logits: Any) -> Any:
        n, wide = 1 if self.num_samples is None else self.num_samples, logits.astype(np.float64)
        top = wide.max(-1, keepdims=True)
        _refuse_rows(np.isfinite(top[..., 0]), "leave no class possible", "a finite maximum")
        if not self.replacement:
            possible = np.count_nonzero(wide > -np.inf, -1)
            need = f"{n} logits above -inf, or replacement=True"
            _refuse_rows(possible >= n, f"leave fewer than {n} classes possible", need)
        found = (
            self.repeated(rng, wide - top, n) if self.replacement else self.distinct(rng, wide, n)
        )
        return (found[..., 0] if self.num_samples is None else found).astype(self.dtype)

    def repeated(self, rng: Any, logits: Any, n: int) -> Any:
        """Return classes by inversion of the distribution function of each row."""
        table = np.cumsum(np.exp(logits), -1)
        size = math.prod(logits.shape[:-1]) * n
        u = (philox.words64(rng, self.stream, size) >> np.uint64(11)) * 2.0**-53
        u = u.reshape(*logits.shape[:-1], n) * table[..., -1:]
        return (table[..., None, :] <= u[..., None]).sum(-1)

    def distinct(self, rng: Any, logits: Any, n: int) -> Any:
        """Return the classes of the largest logits with Gumbel noise."""
        words = philox.words64(rng, self.stream, logits.size) >> np.uint64(12)
        noise = -np.log(-np.log((words.astype(np.float64) + 0.5) * 2.0**-52))
        return np.argsort(-(logits + noise.reshape(logits.shape)), -1, kind="stable")[..., :n]

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return ZERO, NotDifferentiable("class numbers are drawn: they do not move with the logits")

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        logits = rng.standard_normal((2, 3))
        yield Sample((_SAMPLE_KEY, logits), {"num_samples": 4}, smooth=False)
        yield Sample((_SAMPLE_KEY, logits), {"dtype": "int32"}, smooth=False)
        attrs = {"num_samples": 2, "replacement": False}
        yield Sample((_SAMPLE_KEY, logits[0]), attrs, smooth=False)
        yield Sample((_SAMPLE_KEY, np.zeros((0, 3))), {"num_samples": 2}, smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((2, 3))
        yield ErrorSample((x, x), {}, "needs a random key")
        yield ErrorSample((KEY, x), {"num_samples": 4, "replacement": False}, "cannot differ")
        yield ErrorSample((KEY, x.with_dtype("int64")), {}, "floating logits")
        yield ErrorSample((KEY, TensorSpec((2, 0))), {}, "no classes")
        yield ErrorSample((KEY, TensorSpec((2, 300))), {"dtype": "uint8"}, "does not hold")
        yield ErrorSample((KEY, x), {"num_samples": -1}, "is negative")
