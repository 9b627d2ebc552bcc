"""Positions as biases of scores: ALiBi's slopes, and T5's learned buckets of distance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import AFFINE, ZERO, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, kind
from ..core.index import Gather
from ..core.movement import Transpose

Array = np.ndarray[Any, Any]


def distances(n_queries: int, n_keys: int) -> Array:
    """Return how far each key stands behind each query; the last of both stand together."""
    return np.arange(n_keys) - (np.arange(n_queries) + (n_keys - n_queries))[:, None]


def slopes(n_heads: int) -> Array:
    """Return the slope of each head: a geometric sequence from 2^(−8/n) to 2⁻⁸.

    Where n is no power of 2, the sequence of the power below comes first, then every other slope
    of the power above (Press et al. 2022, appendix).

    >>> slopes(3).tolist()
    [0.0625, 0.00390625, 0.25]
    """
    whole = 1 << max(n_heads, 1).bit_length() - 1
    first = 2.0 ** (-8 / whole * np.arange(1, whole + 1))
    between = 2.0 ** (-8 / (2 * whole) * np.arange(1, 2 * whole + 1, 2))
    return np.concatenate([first, between])[:n_heads]


class ApplyAlibi(Op):
    """Scores less the distance of query and key, times a slope per head (Press et al. 2022).

    y[h, i, j] = scores[h, i, j] − mₕ·|i + S − T − j|, mₕ = 2^(−8·h/H) for h = 1 … H

    scores: f32[…, H, T, S]; the last query stands at the last key. Where H is no power of 2, the
    slopes of the power below are followed by every other one of the power above.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.apply_alibi(g.constant([[[0.0, 0.0], [0.0, 0.0]]]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[[0.0, -0.00390625], [-0.00390625, 0.0]]]
    """

    namespace = "nn"
    dependence = AFFINE

    def infer(self, scores: TensorSpec) -> TensorSpec:
        if kind(scores.dtype) != "f":
            raise DTypeError(f"apply_alibi does not take {scores}", need="f32[..., H, T, S]")
        if scores.rank < 3:
            raise ShapeError("apply_alibi needs scores by head", need="f32[..., H, T, S]")
        return scores.with_shape(scores.shape)

    def forward(self, scores: Any) -> Any:
        heads, n_queries, n_keys = scores.shape[-3:]
        wide: Any = np.float64 if scores.dtype == np.float64 else np.float32
        away = np.abs(distances(n_queries, n_keys)).astype(wide)
        bias = slopes(heads).astype(wide)[:, None, None] * away
        return (scores - bias).astype(scores.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (gs[0],)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((2, 3, 2, 4), (1, 2, 2), (4, 0, 3)):
            yield Sample((rng.standard_normal(shape),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3, 4)),), {}, "needs scores by head")


class RelativeBuckets(Op):
    """Numbers of the buckets of distance between queries and keys, as T5 has them.

    Small distances have a bucket each, larger ones share buckets that grow with their logarithm,
    up to ``max_distance``; y: i64[T, S] for scores: f32[…, T, S]
    """

    namespace = "gradient"
    drawing = "math"
    shape_only = (0,)
    num_buckets: int = attr(32, doc="Number of buckets.")
    max_distance: int = attr(128, doc="Distance from which all share the last bucket.")
    bidirectional: bool = attr(True, doc="Keys behind a query have buckets of their own.")

    def infer(self, scores: TensorSpec) -> TensorSpec:
        if scores.rank < 2:
            raise ShapeError("relative positions need queries by keys", need="two axes or more")
        near = self.num_buckets // (4 if self.bidirectional else 2)
        if near < 1 or self.max_distance <= near:
            raise GraphError(
                f"{self.num_buckets} buckets do not reach {self.max_distance}",
                need="4 buckets or more (2 one way), and a larger max_distance",
            )
        return TensorSpec(scores.shape[-2:], "int64")

    def forward(self, scores: Any) -> Any:
        away = distances(*scores.shape[-2:])
        n: int = self.num_buckets
        start: Any = 0
        if self.bidirectional:
            n //= 2
            start, away = np.where(away > 0, n, 0), np.abs(away)
        else:
            away = np.maximum(-away, 0)
        near = n // 2
        # In float32, as where the rule was published: a distance at a border stays on its side.
        ratio = np.log(np.maximum(away, 1).astype(np.float32) / np.float32(near))
        slope = (n - near) / math.log(self.max_distance / near)
        far = near + (ratio * np.float32(slope)).astype(int)
        return start + np.where(away < near, away, np.minimum(far, n - 1))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.zeros((3, 40)),), {"num_buckets": 8, "max_distance": 20})
        yield Sample((np.zeros((2, 9)),), {"num_buckets": 6, "bidirectional": False})
        yield Sample((np.zeros((0, 3)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)),), {}, "need queries by keys")
        yield ErrorSample((TensorSpec((3, 3)),), {"num_buckets": 3}, "do not reach")


class RelativePositionBias(Op):
    """Learned biases of scores by distance, many distances to a bucket (T5, Raffel et al. 2020).

    y[h, i, j] = weight[bucket(j − i − (S − T)), h]

    weight: f32[buckets, H], scores: f32[…, T, S] for its sizes only; the result f32[H, T, S] is to
    be added. Half of the buckets are distances of their own, the rest grow with the logarithm, up
    to ``max_distance``; if ``bidirectional``, keys behind a query have their own half.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (8, 2), init=0.5)
    >>> gw.nn.relative_position_bias(w, g.placeholder("s", (1, 2, "T", "S"))).shape
    (2, T, S)
    """

    namespace = "nn"
    shape_only = (1,)
    max_distance: int = attr(128, doc="Distance from which all share the last bucket.")
    bidirectional: bool = attr(True, doc="Keys behind a query have buckets of their own.")

    def infer(self, weight: TensorSpec, scores: TensorSpec) -> TensorSpec:
        if weight.rank != 2 or not isinstance(weight.shape[0], int):
            raise ShapeError("weight is no table of buckets", need="f32[buckets, H]")
        if kind(weight.dtype) != "f":
            raise DTypeError(f"biases are not {weight.dtype}", need="a float dtype")
        sizes = self.buckets(weight.shape[0]).infer(scores).shape
        return weight.with_shape((weight.shape[1], *sizes))

    def buckets(self, n: int) -> RelativeBuckets:
        """Return the op that numbers the buckets."""
        return RelativeBuckets(
            num_buckets=n, max_distance=self.max_distance, bidirectional=self.bidirectional
        )

    def expand(self, weight: Any, scores: Any) -> Any:
        return Transpose(axes=(2, 0, 1))(Gather()(weight, self.buckets(weight.shape[0])(scores)))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        weight = rng.standard_normal((8, 2))
        yield Sample((weight, np.zeros((1, 2, 2, 3))), {"max_distance": 16})
        yield Sample((weight, np.zeros((3, 2))), {"bidirectional": False})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        scores = TensorSpec((3, 3))
        yield ErrorSample((TensorSpec((8,)), scores), {}, "no table of buckets")
        yield ErrorSample((TensorSpec((2, 2)), scores), {}, "do not reach")
