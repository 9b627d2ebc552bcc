"""Draws of real numbers by inversion: uniform words through a quantile function, in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import GraphError
from ...op import ErrorSample, Sample, attr
from . import philox
from .random import KEY, Normal, _Random


def _open(rng: Any, stream: int, n: int, dtype: np.dtype[Any]) -> Any:
    """Return ``n`` numbers in the middle of 2³² cells of (0, 1), of 2⁵² for float64."""
    if dtype == np.float64:
        words = philox.words64(rng, stream, n) >> np.uint64(12)
        return (words.astype(np.float64) + 0.5) * 2.0**-52
    return (philox.words(rng, stream, n).astype(np.float64) + 0.5) * 2.0**-32


class Exponential(_Random):
    """Waiting times between events that come at a constant rate.

    y ~ Exp(rate), y = −log(u)/rate with u uniform in (0, 1)

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.random.exponential((2, 3), rate=2.0)
    >>> bool((g.output({}, y)["exponential"] > 0).all())
    True
    """

    rate: float = attr(1.0, doc="Events per unit of time: one over the mean.")

    def check(self) -> None:
        if not 0 < self.rate < math.inf:
            raise GraphError(f"rate={self.rate} is not positive", need="rate > 0")

    def draw(self, rng: Any, n: int) -> Any:
        return -np.log(_open(rng, self.stream, n, self.dtype)) / self.rate

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([7, 3], np.uint64),), {"shape": (4,), "rate": 0.1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((KEY,), {"shape": (3,), "rate": 0.0}, "is not positive")


class LogNormal(Normal):
    """Numbers whose logarithm is Gaussian.

    y = exp(mean + std·z), z ~ N(0, 1)

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.random.log_normal((2, 3), std=0.5)
    >>> bool((g.output({}, y)["log_normal"] > 0).all())
    True
    """

    mean: float = attr(0.0, doc="Mean of the logarithm.")
    std: float = attr(1.0, doc="Standard deviation of the logarithm.")
    onnx = None

    def draw(self, rng: Any, n: int) -> Any:
        wide = np.dtype("float64" if self.dtype == np.float64 else "float32")
        z = philox.normal(rng, self.stream, n, wide)
        return np.exp(z * wide.type(self.std) + wide.type(self.mean))


class _LocScale(_Random):
    """A distribution moved by ``loc`` and stretched by ``scale``."""

    loc: float = attr(0.0, doc="Where the distribution lies.")
    scale: float = attr(1.0, doc="How wide it is.")

    def check(self) -> None:
        if not 0 < self.scale < math.inf:
            raise GraphError(f"scale={self.scale} is not positive", need="scale > 0, finite")
        if not math.isfinite(self.loc):
            raise GraphError(f"loc={self.loc} is no place", need="a finite number")

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((KEY,), {"shape": (3,), "scale": 0.0}, "is not positive")
        yield ErrorSample((KEY,), {"shape": (3,), "loc": math.nan}, "is no place")


class Gumbel(_LocScale):
    """Extreme values of type I; argmax(logits + gumbel) draws from softmax(logits).

    y = loc − scale·log(−log u), with u uniform in (0, 1)

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.random.gumbel((2, 3))
    >>> g.output({}, y)["gumbel"].shape
    (2, 3)
    """

    def draw(self, rng: Any, n: int) -> Any:
        unit = -np.log(-np.log(_open(rng, self.stream, n, self.dtype)))
        return self.loc + self.scale * unit


class Laplace(_LocScale):
    """Differences of two exponential numbers.

    y = loc − scale·sign(v)·log(1 − 2|v|), with v uniform in (−½, ½)

    >>> import gradwright as gw
    >>> with gw.Graph() as g:
    ...     y = gw.random.laplace((2, 3))
    >>> g.output({}, y)["laplace"].shape
    (2, 3)
    """

    def draw(self, rng: Any, n: int) -> Any:
        v = _open(rng, self.stream, n, self.dtype) - 0.5
        return self.loc - self.scale * np.sign(v) * np.log1p(-2 * np.abs(v))
