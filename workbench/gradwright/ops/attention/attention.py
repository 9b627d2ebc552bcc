"""The operator that all exchange formats speak of: attention as in ONNX."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import AnyDim, TensorSpec, broadcast, check_floats, differ, kind
from ..core.activation import Tanh
from ..core.choice import Where
from ..core.joining import Concat
from ..core.movement import Cast
from ..core.padding import Pad
from .flash import FlashAttention
from .tiled import is_large
from .weights import (
    MaskedSoftmax,
    VisibleKeys,
    check_heads,
    check_windows,
    group_average,
    group_scores,
    join_heads,
    scale_of,
    split_heads,
)


class Attention(Op):
    """Attention with caches, windows, grouped heads, masks and soft caps, as ONNX has it.

    P = softmax(softcap(query @ keyᵀ·scale) + bias) over the keys that are seen, y = P @ value.

    query: f32[B, Hq, T, E], key: f32[B, H, S, E], value: f32[B, H, S, D], where runs of Hq/H heads
    share one; or packed as f32[B, T, Hq·E] and so on, with ``q_num_heads`` and ``kv_num_heads``.
    attn_mask, broadcastable to [B, Hq, T, S], says which keys are seen (bool), or is added (float);
    it may be shorter than the keys, whose rest is then hidden. past_key: f32[B, H, P, E] and
    past_value: f32[B, H, P, D] come before key and value. nonpad_kv_seqlen: i64[B] (or i64[], the
    same for all) says instead how many keys of a cache exist. For ``is_causal`` and the windows,
    query i stands at position P + i, or nonpad_kv_seqlen − T + i. What sees no key gets zeros.

    Returns (y, present_key, present_value, qk_matmul_output); the last is, by
    ``qk_matmul_output_mode``, the raw scores, those after softcap, those with bias and −∞ where
    nothing is seen, or P. Raises ShapeError and DTypeError for inputs that are not in step, and
    GraphError for a past beside nonpad_kv_seqlen. ONNX operator Attention (opsets 23 to 25).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, v = g.constant([[[[1.0], [1.0]]]]), g.constant([[[[2.0], [4.0]]]])
    >>> y, *_ = gw.nn.attention(q, q, v, is_causal=True, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[[[2.0], [3.0]]]]
    """

    namespace = "nn"
    returns = "y", "present_key", "present_value", "scores"
    drawing = "linear"
    onnx = OnnxRule("Attention", since=23)
    is_causal: bool = attr(False, doc="Hide the keys behind each query.")
    scale: float | None = attr(None, doc="Factor of the scores; None is 1/√E.")
    softcap: float = attr(0.0, doc="c in c·tanh(scores/c), before any mask; 0 is none.")
    q_num_heads: int | None = attr(None, doc="Heads of packed queries.")
    kv_num_heads: int | None = attr(None, doc="Heads of packed keys and values.")
    softmax_precision: str | None = attr(
        None,
        doc="Dtype that each step of the softmax is rounded to; None: float32 or more.",
        choices=(None, "float16", "bfloat16", "float32", "float64"),
    )
    qk_matmul_output_mode: int = attr(0, doc="What the last output is.", choices=(0, 1, 2, 3))
    left_window_size: int = attr(-1, doc="How many keys before a query it sees; -1 is all.")
    right_window_size: int = attr(-1, doc="How many keys behind a query it sees; -1 is all.")

    def infer(
        self,
        query: TensorSpec,
        key: TensorSpec,
        value: TensorSpec,
        attn_mask: TensorSpec | None = None,
        past_key: TensorSpec | None = None,
        past_value: TensorSpec | None = None,
        nonpad_kv_seqlen: TensorSpec | None = None,
    ) -> tuple[TensorSpec, ...]:
        packed = query.rank == 3
        q = unpacked(query, self.q_num_heads, "q_num_heads") if packed else query
        k = unpacked(key, self.kv_num_heads, "kv_num_heads") if packed else key
        v = unpacked(value, self.kv_num_heads, "kv_num_heads") if packed else value
        check_heads(q, k, v)
        check_windows(self.left_window_size, self.right_window_size)
        if not self.softcap >= 0:
            raise GraphError(f"softcap={self.softcap} is no cap", need="0 for none, or above")
        k, v = _joined(k, v, past_key, past_value)
        b, n, t, _ = q.shape
        scores = (b, n, t, k.shape[2])
        if nonpad_kv_seqlen is not None:
            if past_key is not None:
                raise GraphError(
                    "a past and nonpad_kv_seqlen do not go together",
                    hint="past_key grows the cache, nonpad_kv_seqlen reads one of fixed size",
                )
            VisibleKeys().infer(TensorSpec(scores), nonpad_kv_seqlen)
            if nonpad_kv_seqlen.rank and differ(nonpad_kv_seqlen.shape[0], b):
                raise ShapeError("nonpad_kv_seqlen does not fit", need=f"i64[{b}]")
        if attn_mask is not None:
            check_mask(attn_mask, scores)
        y = (b, t, n * v.shape[3]) if packed else (b, n, t, v.shape[3])
        return query.with_shape(y), k, v, query.with_shape(scores)

    @property
    def rounds_once(self) -> bool:
        """Whether it is computed in float32: with a softmax in halves, all steps are rounded."""
        return self.softmax_precision not in ("float16", "bfloat16")

    def expand(
        self,
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        past_key: Any = None,
        past_value: Any = None,
        nonpad_kv_seqlen: Any = None,
    ) -> Any:
        packed = query.rank == 3
        if packed:
            query = split_heads(query, self.q_num_heads)  # type: ignore[arg-type]
            key, value = (split_heads(x, self.kv_num_heads) for x in (key, value))  # type: ignore[arg-type]
        like_key, like_value, offset = Cast(dtype=key.dtype), Cast(dtype=value.dtype), 0
        if past_key is not None:
            offset = past_key.shape[2]
            key, value = Concat(axis=2)(past_key, key), Concat(axis=2)(past_value, value)
        key, value = like_key(key), like_value(value)
        scale = scale_of(self.scale, query.shape[3])
        if query.dtype.itemsize < 4 and scale > 0:  # a share on either side: halves overflow soon
            raw = scores = group_scores(query * scale**0.5, key * scale**0.5)
        else:
            raw = scores = group_scores(query * scale, key)
        if self.softcap:
            scores = Tanh()(scores / self.softcap) * self.softcap
        capped, seen = scores, None
        window = max(self.left_window_size, self.right_window_size) >= 0
        if self.is_causal or window or nonpad_kv_seqlen is not None:
            rule = VisibleKeys(
                is_causal=self.is_causal,
                left_window_size=self.left_window_size,
                right_window_size=self.right_window_size,
                offset=offset,
            )
            seen = rule(scores) if nonpad_kv_seqlen is None else rule(scores, nonpad_kv_seqlen)
        if attn_mask is not None:
            scores, seen = with_mask(scores, seen, attn_mask)
        given = scores
        if self.softmax_precision is not None:
            given = Cast(dtype=self.softmax_precision)(scores)
        softmax = MaskedSoftmax(rounded=self.softmax_precision is not None)
        weights = softmax(given) if seen is None else softmax(given, seen)
        weights = Cast(dtype=query.dtype)(weights)
        y = group_average(weights, value)
        tiled = self._tiled(query, key, value, attn_mask, nonpad_kv_seqlen, offset)
        y = y if tiled is None else tiled
        shown = (raw, capped, scores, weights)[self.qk_matmul_output_mode]
        if self.qk_matmul_output_mode == 2 and seen is not None:
            shown = Where()(seen, scores, -np.inf)
        y = join_heads(y) if packed else y
        return Cast(dtype=query.dtype)(y), key, value, Cast(dtype=query.dtype)(shown)

    def _tiled(
        self, query: Any, key: Any, value: Any, mask: Any, length: Any, offset: Any
    ) -> Any | None:
        """Return the averages where they are made tile by tile; None: scores are held."""
        if self.softcap or self.softmax_precision not in (None, query.dtype.name):
            return None
        names = "is_causal", "left_window_size", "right_window_size"
        rule = VisibleKeys(**{name: getattr(self, name) for name in names})
        has_rule, of_rule = rule != VisibleKeys(), {}
        if mask is not None:
            mask = _covering(mask, key.shape[2])
        if length is not None:
            if mask is not None and kind(mask.dtype) == "f":
                return None
            # Without positions, which keys exist is the same for all queries.
            exist = rule(group_scores(query, key) if has_rule else key.mT[:, :, :1], length)
            mask = exist if mask is None else exist & mask
        elif has_rule:
            of_rule = {**{name: getattr(self, name) for name in names}, "offset": offset}
        given = query, key, value, *(() if mask is None else (mask,))
        if not is_large(*(x.spec for x in given)):
            return None
        return FlashAttention(scale=self.scale, **of_rule)(*given)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        q, k, v = draw((2, 4, 3, 2)), draw((2, 2, 3, 2)), draw((2, 2, 3, 3))
        past = draw((2, 2, 2, 2)), draw((2, 2, 2, 3))
        yield Sample((q, k, v), {"is_causal": True, "softcap": 0.7, "qk_matmul_output_mode": 1})
        mask = np.array([[True, False], [False, False], [True, True]])
        attrs = {"qk_matmul_output_mode": 3, "softmax_precision": "float64"}
        yield Sample((q, k, v, mask), attrs)
        bias = draw((3, 5))
        yield Sample((q, k, v, bias, *past), {"is_causal": True, "left_window_size": 2})
        packed = draw((2, 3, 4)), draw((2, 4, 2)), draw((2, 4, 2))
        heads = {"q_num_heads": 2, "kv_num_heads": 1, "scale": 0.3, "is_causal": True}
        yield Sample((*packed, None, None, None, np.array([4, 2])), heads)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        q, k, v = TensorSpec((2, 4, 3, 2)), TensorSpec((2, 2, 3, 2)), TensorSpec((2, 2, 3, 3))
        packed = TensorSpec((2, 3, 4))
        length = TensorSpec((2,), "int64")
        yield ErrorSample((packed, packed, packed), {}, "needs q_num_heads")
        yield ErrorSample((q, v, v), {}, "different features")
        yield ErrorSample((TensorSpec((2, 3, 3, 2)), k, v), {}, "cannot share 2 heads")
        yield ErrorSample((q, k, v, None, k), {}, "past_key and past_value")
        yield ErrorSample((q, k, v, None, k, v, length), {}, "do not go together")
        yield ErrorSample((q, k, v, TensorSpec((3, 4))), {}, "attn_mask does not fit")
        yield ErrorSample((q, k, v, TensorSpec((3, 3), "int64")), {}, "cannot be int64")
        yield ErrorSample((q, k, v), {"softcap": -1.0}, "softcap=-1.0 is no cap")
        heads = {"q_num_heads": -2, "kv_num_heads": 1}
        yield ErrorSample((packed, packed, packed), heads, "needs q_num_heads, not -2")


def unpacked(x: TensorSpec, heads: int | None, name: str) -> TensorSpec:
    """Return the spec of ``[B, T, n·D]`` with its heads apart."""
    if heads is None or heads < 1:
        raise ShapeError(f"attention of packed heads needs {name}, not {heads}", hint=f"{name}=8")
    if x.rank != 3:
        raise ShapeError("some inputs are packed and some are not", need="all of rank 3, or of 4")
    b, t, width = x.shape
    size = width // heads
    if differ(size * heads, width):
        raise ShapeError(f"{width} features are not {heads} heads", need=f"a multiple of {heads}")
    return x.with_shape((b, heads, t, size))


def check_mask(mask: TensorSpec, scores: tuple[AnyDim, ...]) -> None:
    """Refuse a mask that is not broadcastable to the scores; its last axis may be shorter."""
    if kind(mask.dtype) not in "bf":
        raise DTypeError(f"attn_mask cannot be {mask.dtype}", need="bool, or a float dtype")
    short = mask.rank and mask.shape[-1] != 1
    known = mask.rank and isinstance(mask.shape[-1], int) and isinstance(scores[-1], int)
    too_long = known and mask.shape[-1] > scores[-1]  # type: ignore[operator]
    covered = (*scores[:-1], mask.shape[-1]) if short else scores
    fits = mask.rank <= len(scores) and not too_long
    if not fits or any(map(differ, broadcast(mask.shape, covered), covered)):
        raise ShapeError("attn_mask does not fit", need=f"broadcastable to {list(scores)}")


def with_mask(scores: Any, seen: Any, mask: Any) -> tuple[Any, Any]:
    """Return the scores with a float mask added, and what is seen through either mask."""
    visible = mask = _covering(mask, scores.shape[-1])
    if kind(mask.dtype) != "b":
        # Not mask > −∞: a mask that is NaN has to be seen, not to hide.
        scores, visible = Cast(dtype=scores.dtype)(scores + mask), mask != -np.inf
    return scores, visible if seen is None else seen & visible


def _joined(
    key: TensorSpec, value: TensorSpec, past_key: TensorSpec | None, past_value: TensorSpec | None
) -> tuple[TensorSpec, TensorSpec]:
    """Return the specs of keys and values once the past stands before them."""
    if past_key is None and past_value is None:
        return key.with_shape(key.shape), value.with_shape(value.shape)
    check_floats("attention", past_key, past_value)
    if past_key is None or past_value is None:
        raise GraphError("past_key and past_value come together", need="both, or neither")
    if past_key.rank != 4 or past_value.rank != 4 or differ(past_key.shape[2], past_value.shape[2]):
        raise ShapeError("the pasts differ in length", need="f32[B, H, P, E] and f32[B, H, P, D]")
    join = Concat(axis=2)
    return (
        join.infer(past_key, key).with_dtype(key.dtype),
        join.infer(past_value, value).with_dtype(value.dtype),
    )


def _covering(mask: Any, n_keys: Any) -> Any:
    """Return a mask for so many keys, of which those behind its end are hidden."""
    if not mask.rank or mask.shape[-1] in (1, n_keys):
        return mask
    pads = ((0, 0),) * (mask.rank - 1) + ((0, n_keys - mask.shape[-1]),)
    return Pad(pad_width=pads, value=False if kind(mask.dtype) == "b" else -np.inf)(mask)
