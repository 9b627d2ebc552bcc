"""Entropies of distributions, over some axes or all."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...op import Sample
from ..core.exponential import Log
from ..core.reduce import Sum
from ..core.statistics import _Composite
from .pairs import Xlogy


class Entropy(_Composite):
    """Entropy of probabilities, in nats; 0·ln 0 is 0.

    y = −Σ p·ln p

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> round(float(g.output({}, gw.entropy(g.constant([0.5, 0.5, 0.0]), name="y"))["y"]), 4)
    0.6931
    """

    namespace = "math"
    is_method = False

    def reduced(self, x: Any) -> Any:
        return -Sum(axis=self.axis, keepdims=self.keepdims)(Xlogy()(x, x))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in super().samples(rng):
            x = 0.1 + np.abs(sample.inputs[0])
            yield Sample((x / (x.sum() + 1),), sample.attrs)
        yield Sample((np.array([0.0, 0.3, 0.7]),), smooth=False)


class ShannonEntropy(Entropy):
    """Entropy of probabilities, in bits; 0·log₂ 0 is 0.

    y = −Σ p·log₂ p

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.shannon_entropy(g.constant([0.5, 0.5]), name="y"))["y"])
    1.0
    """

    def reduced(self, x: Any) -> Any:
        return super().reduced(x) * (1 / math.log(2))


class LogEntropy(Entropy):
    """Logarithm of the entropy of probabilities.

    y = ln(−Σ p·ln p)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> round(float(g.output({}, gw.log_entropy(g.constant([0.5, 0.5]), name="y"))["y"]), 4)
    -0.3665
    """

    def reduced(self, x: Any) -> Any:
        return Log()(super().reduced(x))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in super().samples(rng):
            if sample.inputs[0].size:
                yield sample
