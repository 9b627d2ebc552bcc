"""Attention operators of the ONNX contrib set: packed heads, padding masks, caches in and out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec, check_floats, differ, kind
from ..core.choice import Where
from ..core.movement import Cast
from .attention import Attention, unpacked
from .cache import KvCacheUpdate
from .weights import VisibleKeys, check_heads, join_heads, split_heads


class MultiHeadAttention(Op):
    """Attention of packed heads with biases, padding mask and cache, as in ONNX Runtime.

    y = concatₕ(softmax(Qₕ @ Kₕᵀ·scale + attention_bias + hidden·mask_filter_value) @ Vₕ),
    Q, K, V = query, key, value + their runs of bias

    query: f32[B, T, n·E], key: f32[B, S, n·E], value: f32[B, S, n·D], bias: f32[2·n·E + n·D].
    key_padding_mask: i32[B], numbers of keys, or i32[B, P + S] or i32[B, T, P + S], where 0 hides.
    attention_bias broadcasts to [B, n, T, P + S]; past_key: f32[B, n, P, E] and past_value come
    first. Returns (f32[B, T, n·D], present_key, present_value). ONNX Runtime's contrib operator
    MultiHeadAttention.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", "T", 8))
    >>> y, key, value = gw.nn.multi_head_attention(x, x, x, num_heads=2)
    >>> y.shape, key.shape
    ((B, T, 8), (B, 2, T, 4))
    """

    namespace = "nn"
    returns = "y", "present_key", "present_value"
    onnx = OnnxRule("MultiHeadAttention", since=1, domain="com.microsoft")
    num_heads: int = attr(doc="Number of heads.")
    mask_filter_value: float = attr(-10000.0, doc="What is added to scores that the mask hides.")
    scale: float | None = attr(None, doc="Factor of the scores; None is 1/√E.")
    is_causal: bool = attr(False, doc="Hide the keys behind each query.")

    def infer(
        self,
        query: TensorSpec,
        key: TensorSpec,
        value: TensorSpec,
        bias: TensorSpec | None = None,
        key_padding_mask: TensorSpec | None = None,
        attention_bias: TensorSpec | None = None,
        past_key: TensorSpec | None = None,
        past_value: TensorSpec | None = None,
    ) -> tuple[TensorSpec, ...]:
        check_floats("attention", query, key, value, bias)
        if bias is not None:
            width = query.shape[-1] + key.shape[-1] + value.shape[-1]
            if bias.rank != 1 or differ(bias.shape[0], width):
                raise ShapeError("bias does not fit", need=f"f32[{width}], those of q, k and v")
        op = self.general()
        caches = (past_key, past_value)
        y, keys, values, scores = op.infer(query, key, value, attention_bias, *caches)
        if key_padding_mask is not None:
            b, _, t, s = scores.shape
            if kind(key_padding_mask.dtype) not in "iu":
                raise DTypeError("key_padding_mask is no integers", need="i32[B] or i32[B, P + S]")
            shapes: tuple[Any, ...] = ((b,), (b, s), (b, t, s))
            if not 1 <= key_padding_mask.rank <= 3 or any(
                map(differ, key_padding_mask.shape, shapes[key_padding_mask.rank - 1])
            ):
                raise ShapeError("key_padding_mask does not fit", need=f"i32{list(shapes[1])}")
        return y, keys, values

    def general(self) -> Attention:
        """Return the general op with these settings."""
        return Attention(
            q_num_heads=self.num_heads,
            kv_num_heads=self.num_heads,
            is_causal=self.is_causal,
            scale=self.scale,
        )

    def expand(
        self,
        query: Any,
        key: Any,
        value: Any,
        bias: Any = None,
        key_padding_mask: Any = None,
        attention_bias: Any = None,
        past_key: Any = None,
        past_value: Any = None,
    ) -> Any:
        if bias is not None:
            n, m = query.shape[2], query.shape[2] + key.shape[2]
            query, key, value = query + bias[:n], key + bias[n:m], value + bias[m:]
        added = attention_bias
        if key_padding_mask is not None:
            if key_padding_mask.rank == 1:
                pairs = query[:, None] @ key[:, None].mT  # read for its sizes only
                seen = VisibleKeys()(pairs, key_padding_mask)[:, :, :1]
            elif key_padding_mask.rank == 2:
                seen = key_padding_mask[:, None, None] != 0
            else:
                seen = key_padding_mask[:, None] != 0
            zero = query.graph.constant(np.zeros((), query.dtype))
            hidden = Where()(seen, zero, zero + self.mask_filter_value)
            added = hidden if added is None else added + hidden
        return self.general()(query, key, value, added, past_key, past_value)[:3]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        q, k, v = draw((2, 2, 4)), draw((2, 3, 4)), draw((2, 3, 2))
        yield Sample((q, k, v, draw(10), np.array([[1, 0, 1], [1, 1, 0]])), {"num_heads": 2})
        lengths = np.array([3, 1], np.int32)
        yield Sample((q, k, v, None, lengths, draw((1, 2, 2, 3))), {"num_heads": 2, "scale": 0.3})
        past = draw((2, 2, 1, 2)), draw((2, 2, 1, 1))
        yield Sample((q, k, v, None, None, None, *past), {"num_heads": 2, "is_causal": True})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((2, 3, 4))
        attrs = {"num_heads": 2}
        yield ErrorSample((x, x, x), {"num_heads": 3}, "are not 3 heads")
        yield ErrorSample((x, x, x, TensorSpec((4,))), attrs, "bias does not fit")
        yield ErrorSample((x, x, x, None, TensorSpec((2,))), attrs, "is no integers")
        mask = TensorSpec((2, 4), "int32")
        yield ErrorSample((x, x, x, None, mask), attrs, "key_padding_mask does not fit")


class DecoderMaskedMha(Op):
    """Attention of new positions to a cache of fixed room into which they are written.

    present[…, P + i, :] = new[…, i, :],  yᵢ = softmax(Qᵢ @ present_key[: P + i + 1]ᵀ·scale) @
    present_value[: P + i + 1], with P = past_sequence_length

    query: f32[B, T, Hq·E], key: f32[B, T, H·E], value: f32[B, T, H·D]; key_cache: f32[B, H, S, E],
    value_cache: f32[B, H, S, D], past_sequence_length: i64[] or i64[B]; attention_bias broadcasts
    to [B, Hq, T, S]. Returns (f32[B, T, Hq·D], present_key, present_value). What does not fit into
    the cache is an error when run. After ONNX Runtime's DecoderMaskedMultiHeadAttention.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, cache = g.placeholder("x", (1, 1, 8)), g.placeholder("cache", (1, 2, 16, 4))
    >>> at = g.placeholder("at", (), "int64")
    >>> y, keys, values = gw.nn.decoder_masked_mha(x, x, x, cache, cache, at, num_heads=2)
    >>> y.shape, keys.shape
    ((1, 1, 8), (1, 2, 16, 4))
    """

    namespace = "nn"
    returns = "y", "present_key", "present_value"
    num_heads: int = attr(doc="Heads of the queries.")
    kv_num_heads: int | None = attr(None, doc="Heads of keys and values; None is num_heads.")
    scale: float | None = attr(None, doc="Factor of the scores; None is 1/√E.")
    softcap: float = attr(0.0, doc="c in c·tanh(scores/c), before any mask; 0 is none.")
    left_window_size: int = attr(-1, doc="How many keys before a query it sees; -1 is all.")

    def general(self) -> Attention:
        """Return the general op with these settings."""
        return Attention(
            is_causal=True,
            scale=self.scale,
            softcap=self.softcap,
            left_window_size=self.left_window_size,
        )

    def infer(
        self,
        query: TensorSpec,
        key: TensorSpec,
        value: TensorSpec,
        key_cache: TensorSpec,
        value_cache: TensorSpec,
        past_sequence_length: TensorSpec,
        attention_bias: TensorSpec | None = None,
    ) -> tuple[TensorSpec, ...]:
        check_floats("attention", key_cache, value_cache)
        heads = self.kv_num_heads or self.num_heads
        q = unpacked(query, self.num_heads, "num_heads")
        k, v = (unpacked(x, heads, "kv_num_heads") for x in (key, value))
        check_heads(q, k, v)
        if differ(q.shape[2], k.shape[2]):
            raise ShapeError("query and key differ in length", need="the same new positions")
        keys, values = KvCacheUpdate().infer(key_cache, value_cache, k, v, past_sequence_length)
        none = (None, None)
        y = self.general().infer(q, keys, values, attention_bias, *none, past_sequence_length)[0]
        return query.with_shape((*query.shape[:2], self.num_heads * y.shape[3])), keys, values

    def expand(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_cache: Any,
        value_cache: Any,
        past_sequence_length: Any,
        attention_bias: Any = None,
    ) -> Any:
        heads = self.kv_num_heads or self.num_heads
        q = split_heads(query, self.num_heads)
        k, v = (split_heads(x, heads) for x in (key, value))
        keys, values = KvCacheUpdate()(key_cache, value_cache, k, v, past_sequence_length)
        length = past_sequence_length + query.graph.constant(np.int64(int(query.shape[1])))
        y = self.general()(q, keys, values, attention_bias, None, None, length)[0]
        return Cast(dtype=query.dtype)(join_heads(y)), keys, values

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        x, kv = draw((2, 2, 4)), draw((2, 2, 2))
        caches = draw((2, 1, 4, 2)), draw((2, 1, 4, 2))
        attrs = {"num_heads": 2, "kv_num_heads": 1}
        yield Sample((x, kv, kv + 1, *caches, np.array(1)), attrs)
        yield Sample((x, kv, kv + 1, *caches, np.array([2, 0]), draw(4)), {**attrs, "softcap": 2.0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, cache, at = TensorSpec((2, 2, 4)), TensorSpec((2, 2, 1, 2)), TensorSpec((), "int64")
        yield ErrorSample((x, x, x, cache, cache, at), {"num_heads": 2}, "do not fit into 1")
