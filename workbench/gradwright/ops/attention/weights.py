"""What all forms of attention share: who sees whom, the softmax over that, and grouped heads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import ZERO, Autocast, Cotangent, Dependence, ErrorSample, Op, Sample, attr
from ...spec import AnyDim, Dim, TensorSpec, broadcast, check_floats, differ, kind
from ..core.special import widened
from ..layers.nn import SoftmaxGrad, softmax_into


class VisibleKeys(Op):
    """Which keys each query may see, by their positions.

    Query i stands at position p = offset + i, where ``offset`` is ``length`` − T if there is a
    length, and sees the keys p − left ≤ j ≤ p + right, none behind p if ``is_causal``, and none
    from ``length`` on. A window of −1 is unbounded (ONNX Attention-25).

    scores: f32[…, T, S] gives the sizes, length: i64[B] the number of keys that exist in each
    sample; the result is bool[T, S], with a length bool[B, 1, T, S]. A scalar length holds for all.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.visible_keys(g.constant([[0.0] * 4] * 2), is_causal=True, offset=1, name="y")
    >>> g.output({}, y)["y"].astype(int).tolist()
    [[1, 1, 0, 0], [1, 1, 1, 0]]
    """

    namespace = "nn"
    shape_only = (0,)
    is_causal: bool = attr(False, doc="Hide the keys behind each query.")
    left_window_size: int = attr(-1, doc="How many keys before a query it sees; -1 is all.")
    right_window_size: int = attr(-1, doc="How many keys behind a query it sees; -1 is all.")
    offset: AnyDim = attr(0, doc="Position of the first query where no length is given.")

    def infer(self, scores: TensorSpec, length: TensorSpec | None = None) -> TensorSpec:
        if scores.rank < 2:
            raise ShapeError("visible_keys needs queries by keys", need="two axes or more")
        check_windows(self.left_window_size, self.right_window_size)
        if length is None:
            return TensorSpec(scores.shape[-2:], "bool")
        if kind(length.dtype) not in "iu" or length.rank > 1:
            raise DTypeError("the number of keys is no vector of integers", need="i64[B], or i64[]")
        lead = (*length.shape, 1) if length.rank else ()
        return TensorSpec((*lead, *scores.shape[-2:]), "bool")

    def forward(self, scores: Any, length: Any = None) -> Any:
        n_queries, n_keys = scores.shape[-2:]
        i, j = np.arange(n_queries)[:, None], np.arange(n_keys)
        if length is None:
            ends, offset = None, self.offset
        else:
            ends = length.astype(np.int64).reshape(-1, 1, 1, 1) if length.ndim else int(length)
            offset = ends - n_queries
        back = (i + offset) - j  # how far each key lies before the query
        right = 0 if self.is_causal else self.right_window_size
        seen = np.ones(back.shape, bool) if ends is None else np.broadcast_to(j < ends, back.shape)
        if right >= 0:
            seen = seen & (back >= -right)
        if self.left_window_size >= 0:
            seen = seen & (back <= self.left_window_size)
        return np.array(seen)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return [ZERO] * len(xs)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        scores = rng.standard_normal((2, 3, 4))
        yield Sample((scores,), {"is_causal": True, "offset": 1})
        yield Sample((scores,), {"left_window_size": 1, "right_window_size": 2})
        yield Sample((scores, np.array([4, 2])), {"is_causal": True, "left_window_size": 0})
        yield Sample((scores[0], np.array(3)))
        yield Sample((np.zeros((0, 3)),), {"is_causal": True})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        scores = TensorSpec((3, 4))
        yield ErrorSample((TensorSpec((3,)),), {}, "needs queries by keys")
        yield ErrorSample((scores, TensorSpec((2,))), {}, "no vector of integers")
        yield ErrorSample((scores,), {"left_window_size": -2}, "is no window")


class MaskedSoftmax(Op):
    """Softmax over the last axis of what is seen; zero elsewhere, and in rows that see nothing.

    yᵢ = sᵢ·exp(xᵢ − m) / Σⱼ sⱼ·exp(xⱼ − m), m = max over the seen xⱼ

    scores: f32[…, S], seen: bool, broadcastable to it. Scores of −∞ count as not seen; what is not
    seen may be anything, NaN too. Halves are computed in float32 unless ``rounded``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> seen = g.constant([[True, True, False], [False, False, False]])
    >>> y = gw.nn.masked_softmax(g.constant([[1.0, 1.0, 9.0]] * 2), seen, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
    """

    namespace = "nn"
    autocast = Autocast.POWER
    dependence = Dependence("rows", -1)
    rounded: bool = attr(False, doc="Round each step to the dtype, as the ONNX reference does.")

    def infer(self, scores: TensorSpec, seen: TensorSpec | None = None) -> TensorSpec:
        if kind(scores.dtype) != "f" or not scores.rank:
            raise DTypeError(f"masked_softmax does not take {scores}", need="f32[..., S]")
        if seen is not None:
            if kind(seen.dtype) != "b":
                raise DTypeError("what is seen is not bool", need=f"bool, got {seen}")
            joint = broadcast(scores.shape, seen.shape)
            if len(joint) > scores.rank or any(map(differ, joint, scores.shape)):
                raise ShapeError("seen does not fit", need=f"broadcastable to {scores.shape}")
        return scores.with_shape(scores.shape)

    def forward(self, scores: Any, seen: Any = None) -> Any:
        x = scores if self.rounded else widened(scores)
        y = np.empty(x.shape, x.dtype)
        softmax_into(x, y, seen, rows_may_be_empty=True)
        return y.astype(scores.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return [SoftmaxGrad()(gs[0], ys[0]), ZERO][: len(xs)]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 3, 4))
        seen = rng.random((3, 4)) < 0.6
        seen[1] = False
        yield Sample((x, seen))
        yield Sample((x, np.array([[[True]], [[False]]])))
        yield Sample((x[0],), {"rounded": True})
        yield Sample((np.zeros((2, 0)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((2, 3))
        yield ErrorSample((TensorSpec((2,), "int64"),), {}, "does not take")
        yield ErrorSample((x, x), {}, "not bool")
        yield ErrorSample((x, TensorSpec((4, 2, 3), "bool")), {}, "seen does not fit")


def check_windows(left: int, right: int) -> None:
    """Refuse window sizes below -1."""
    if min(left, right) < -1:
        raise ShapeError(f"{min(left, right)} is no window", need="-1 for all keys, or 0 and more")


def check_heads(query: TensorSpec, key: TensorSpec, value: TensorSpec) -> None:
    """Refuse queries, keys and values that are not ``[B, heads, positions, features]`` in step."""
    if not query.rank == key.rank == value.rank == 4:
        raise ShapeError(
            "attention needs heads apart",
            need="query: f32[B, Hq, T, E], key: f32[B, H, S, E], value: f32[B, H, S, D]",
        )
    if differ(query.shape[-1], key.shape[-1]):
        raise ShapeError("query and key have different features", need="equal last axes")
    if differ(key.shape[2], value.shape[2]):
        raise ShapeError("key and value differ in length", need="key.shape[2] == value.shape[2]")
    if differ(key.shape[1], value.shape[1]) or differ(query.shape[0], key.shape[0]):
        raise ShapeError("key and value have other heads or samples", need="equal leading axes")
    check_groups(query.shape[1], key.shape[1])
    check_floats("attention", query, key, value)


def check_groups(n_queries: AnyDim, n_keys: AnyDim) -> None:
    """Refuse heads of queries that do not share heads of keys evenly."""
    known = isinstance(n_queries, int) and isinstance(n_keys, int)
    if known and (n_keys == 0 or n_queries % n_keys):  # type: ignore[operator]
        raise ShapeError(
            f"{n_queries} heads of queries cannot share {n_keys} heads of keys",
            need="query heads a multiple of key heads",
        )


def group_scores(query: Any, key: Any) -> Any:
    """Return ``f32[B, Hq, T, S]`` products; runs of query heads share a head of keys."""
    b, n, t, e = query.shape
    if n == key.shape[1]:
        return query @ key.mT
    # One product per head of keys: its queries stand below each other.
    joined = query.reshape(b, key.shape[1], n // key.shape[1] * t, e)
    return (joined @ key.mT).reshape(b, n, t, key.shape[2])


def group_average(weights: Any, value: Any) -> Any:
    """Return ``f32[B, Hq, T, D]`` averages of values; runs of query heads share a head."""
    b, n, t, s = weights.shape
    if n == value.shape[1]:
        return weights @ value
    joined = weights.reshape(b, value.shape[1], n // value.shape[1] * t, s)
    return (joined @ value).reshape(b, n, t, value.shape[3])


def split_heads(x: Any, n: int) -> Any:
    """Return ``[B, n, T, D]`` for ``[B, T, n·D]``."""
    return x.reshape(x.shape[0], x.shape[1], n, -1).transpose(0, 2, 1, 3)


def join_heads(x: Any) -> Any:
    """Return ``[B, T, n·D]`` for ``[B, n, T, D]``."""
    b, n, t, d = x.shape
    return x.transpose(0, 2, 1, 3).reshape(b, t, n * d)


def scale_of(scale: float | None, features: AnyDim) -> float:
    """Return the factor of the scores; None is 1/√features."""
    if scale is not None:
        return scale
    if isinstance(features, Dim):
        raise ShapeError("the default scale needs the number of features", need="scale=...")
    return 1 / math.sqrt(max(features, 1))
