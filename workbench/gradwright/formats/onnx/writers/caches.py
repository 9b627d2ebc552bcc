"""Parts of attention: caches, biases by distance, and attention in tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....graph import Tensor
from ....ops.attention.biases import slopes
from ....ops.attention.tiled import LOW
from ....ops.attention.weights import VisibleKeys, scale_of
from ....spec import Dim, normalize_axis
from ..by_rule import write_by_rule
from ..node import cast, op, writes
from ..nodes import spell, spelled
from ..output import Call
from ..versions import CannotExport
from .counts import numbers, size_of
from .layers import per_batch


@writes("kv_scatter")
def kv_scatter(call: Call) -> list[str]:
    """Write by rule since opset 24, and as a scatter before."""
    if call.out.opset >= 24:
        return write_by_rule(per_batch(call, 2))
    return spell(call, _scattered)


def _places(of: Any, shape: Any, n: Any, start: Tensor | None) -> Any:
    """Return the places of n positions in each sample: i64[B, n]."""
    axis = normalize_axis(of.axis, len(shape))
    first = op("full", shape=(1,), fill_value=0, dtype="int64")() if start is None else start
    first = op("broadcast_to", shape=(shape[0],))(cast(first, "int64"))
    at = op("expand_dims", axis=-1)(first) + numbers(n)
    return op("mod")(at, size_of(shape[axis])) if of.mode == "circular" else at


def _wide(at: Any, like: Tensor, axis: int) -> Any:
    """Return places per sample and position in the shape of a tensor."""
    shape = tuple(-1 if i == axis else d if i == 0 else 1 for i, d in enumerate(like.shape))
    return op("broadcast_to", shape=like.shape)(op("reshape", shape=shape)(at))


def _scattered(of: Any, cache: Tensor, update: Tensor, start: Tensor | None = None) -> Any:
    axis = normalize_axis(of.axis, cache.rank)
    at = _places(of, cache.shape, update.shape[axis], start)
    update = op("cast", dtype=cache.dtype)(update)
    return op("scatter_update", axis=axis)(cache, _wide(at, update, axis), update)


@spelled("kv_take")
def kv_take(of: Any, cache: Tensor, like: Tensor, start: Tensor | None = None) -> Any:
    axis = normalize_axis(of.axis, cache.rank)
    n = like.shape[axis]
    at = _places(of, cache.shape, n, start)
    shape = (*cache.shape[:axis], n, *cache.shape[axis + 1 :])
    found = op("full", shape=shape, fill_value=0, dtype=cache.dtype)()
    return op("take_along_axis", axis=axis)(cache, _wide(at, found, axis))


def _distances(n_queries: Any, n_keys: Any) -> Any:
    """Return how far each key stands behind each query; the last of both stand together."""
    offset = size_of(n_keys) - size_of(n_queries)
    return numbers(n_keys) - op("expand_dims", axis=-1)(numbers(n_queries) + offset)


@spelled("apply_alibi")
def apply_alibi(of: Any, scores: Tensor) -> Any:
    heads = scores.shape[-3]
    if isinstance(heads, Dim):
        raise CannotExport
    away = cast(abs(_distances(*scores.shape[-2:])), scores.dtype)
    return scores - slopes(heads).astype(scores.dtype)[:, None, None] * away


@spelled("relative_buckets")
def relative_buckets(of: Any, scores: Tensor) -> Any:
    """Number distances in float32, as where the rule was published."""
    away, n = _distances(*scores.shape[-2:]), of.num_buckets
    start: Any = 0
    if of.bidirectional:
        n //= 2
        start = op("where")(away > 0, n, op("zeros_like")(away))
        away = abs(away)
    else:
        away = op("maximum")(-away, 0)
    near = n // 2
    ratio = op("log")(cast(op("maximum")(away, 1), "float32") / np.float32(near))
    slope = (n - near) / math.log(of.max_distance / near)
    far = cast(ratio * np.float32(slope), "int64") + near
    return op("where")(away < near, away, op("minimum")(far, n - 1)) + start


# -- attention in tiles ----------------------------------------------------------------------------


def _repeated(x: Tensor, heads: Any) -> Any:
    """Return keys or values with a head for each of the queries'."""
    if x.shape[1] == heads:
        return x
    if isinstance(x.shape[1], Dim) or isinstance(heads, Dim):
        raise CannotExport
    return op("repeat", repeats=heads // x.shape[1], axis=1)(x)


def _scores(of: Any, query: Tensor, key: Tensor, mask: Tensor | None) -> Any:
    """Return scores, −∞ where they are hidden by a mask or by position."""
    scale = scale_of(of.scale, query.shape[-1])
    scores = (query * scale) @ op("swapaxes", axis1=-1, axis2=-2)(_repeated(key, query.shape[1]))
    where = op("where")
    if mask is not None and mask.dtype == bool:
        scores = where(mask, scores, LOW if of.unseen == "average" else -np.inf)
    elif mask is not None:
        scores = scores + mask
    rule = of.visible(query.shape[2], key.shape[2])
    if rule == VisibleKeys(offset=rule.offset):
        return scores
    return where(rule(scores), scores, -np.inf)


@spelled("flash_attention")
def flash_attention(
    of: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Any:
    """Write the weights as a whole; the residual is the logarithm of their sums."""
    scores = _scores(of, query, key, mask)
    top = op("max", axis=-1, keepdims=True)(scores)
    base = op("where")(top == -np.inf, 0.0, top)
    weights = op("exp")(scores - base)
    total = op("sum", axis=-1, keepdims=True)(weights)
    total = op("where")(total == 0.0, of.of_nothing(mask), total)
    y = (weights / total) @ _repeated(value, query.shape[1])
    return y, op("squeeze", axis=-1)(base + op("log")(total))


@spelled("flash_attention_grad")
def flash_attention_grad(of: Any, *given: Tensor) -> Any:
    """Write the scores as a whole."""
    return _whole(of, given)[:3]


@spelled("flash_attention_mask_grad")
def flash_attention_mask_grad(of: Any, *given: Tensor) -> Any:
    """Write the scores as a whole."""
    return _whole(of, given)[3]


def _whole(of: Any, given: Sequence[Tensor]) -> Any:
    """Return the cotangents of queries, keys, values and a floating mask, in one dtype."""
    joint = np.result_type(*(x.dtype for x in given if x.dtype != bool))
    xs = (x if x.dtype == bool else cast(x, joint) for x in given)
    return op("flash_attention_grad_whole", **of.attributes())(*xs)
