"""Attention by its usual names: each is the general op with some of its settings fixed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import Autocast, ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, broadcast, differ
from ..core.activation import Tanh
from .attention import Attention, check_mask, with_mask
from .weights import MaskedSoftmax, check_heads, scale_of


class _Heads(Op):
    """Attention of heads apart, by the general op with some settings."""

    namespace = "nn"
    drawing = "linear"
    autocast = Autocast.ATTENTION
    scale: float | None = attr(None, doc="Factor of the scores; None is 1/√E.")
    softcap: float = attr(0.0, doc="c in c·tanh(scores/c), before any mask; 0 is none.")

    def settings(self) -> dict[str, Any]:
        """Return the attributes of the general op."""
        return {"scale": self.scale, "softcap": self.softcap}

    def infer(
        self,
        query: TensorSpec,
        key: TensorSpec,
        value: TensorSpec,
        attn_mask: TensorSpec | None = None,
    ) -> TensorSpec:
        if query.rank == 3:
            check_heads(query, key, value)  # packed heads are for the general op
        found = Attention(**self.settings()).infer(query, key, value, attn_mask)
        return found[0]

    def expand(self, query: Any, key: Any, value: Any, attn_mask: Any = None) -> Any:
        return Attention(**self.settings())(query, key, value, attn_mask)[0]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        q, k, v = draw((1, 4, 3, 2)), draw((1, 2, 3, 2)), draw((1, 2, 3, 1))
        yield Sample((q, k, v))
        yield Sample((q, k, v, draw((4, 1, 3))), {"scale": 0.4, "softcap": 2.0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        q, k = TensorSpec((1, 3, 3, 2)), TensorSpec((1, 2, 3, 2))
        yield ErrorSample((q, k, k), {}, "cannot share 2 heads")
        yield ErrorSample((TensorSpec((3, 3, 2)),) * 3, {}, "needs heads apart")


class GroupedQueryAttention(_Heads):
    """Attention in which runs of query heads share a head of keys and values (Ainslie et al. 2023).

    y[h] = softmax(softcap(query[h] @ key[h·H/Hq]ᵀ·scale) + mask) @ value[h·H/Hq]

    query: f32[B, Hq, T, E], key: f32[B, H, S, E], value: f32[B, H, S, D], Hq a multiple of H; with
    H = 1 it is multi-query attention (Shazeer 2019). A bool attn_mask says which keys are seen, a
    float one is added; both broadcast to [B, Hq, T, S].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, kv = g.placeholder("q", (1, 8, 5, 4)), g.placeholder("kv", (1, 2, 5, 4))
    >>> gw.nn.grouped_query_attention(q, kv, kv, is_causal=True).shape
    (1, 8, 5, 4)
    """

    is_causal: bool = attr(False, doc="Let position i see keys 0 to i only.")

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "is_causal": self.is_causal}


class SlidingWindowAttention(_Heads):
    """Attention to the last ``window_size`` keys only, its own position among them (Mistral 2023).

    Query i sees the keys i − window_size < j ≤ i; without ``is_causal`` those with
    |i − j| < window_size (Longformer, Beltagy et al. 2020).

    query: f32[B, Hq, T, E], key: f32[B, H, S, E], value: f32[B, H, S, D]; attn_mask as in
    ``grouped_query_attention``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, v = g.constant([[[[1.0], [1.0], [1.0]]]]), g.constant([[[[2.0], [4.0], [8.0]]]])
    >>> y = gw.nn.sliding_window_attention(q, q, v, window_size=2, name="y")
    >>> g.output({}, y)["y"].ravel().tolist()
    [2.0, 3.0, 6.0]
    """

    window_size: int = attr(128, doc="How many keys a query sees on each side, itself counted.")
    is_causal: bool = attr(True, doc="Look back only.")

    def settings(self) -> dict[str, Any]:
        if self.window_size < 1:
            raise ShapeError(f"a window of {self.window_size} keys shows nothing", need="1 or more")
        reach = self.window_size - 1
        sides = {"left_window_size": reach, "right_window_size": 0 if self.is_causal else reach}
        return {**super().settings(), "is_causal": self.is_causal, **sides}

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in super().samples(rng):
            causal = sample.attrs.get("softcap") is None
            yield Sample(sample.inputs, {**sample.attrs, "window_size": 2, "is_causal": causal})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        q = TensorSpec((1, 2, 3, 2))
        yield ErrorSample((q, q, q), {"window_size": 0}, "shows nothing")


class SharedKvAttention(_Heads):
    """Attention of a layer that has no keys and values of its own, to those of an earlier one.

    y = softmax(query @ keyᵀ·scale) @ value, where query i stands at position S − T + i

    query: f32[B, Hq, T, E]; shared_key: f32[B, H, S, E] and shared_value: f32[B, H, S, D] are an
    earlier layer's, past positions included (cross-layer attention, Brandon et al. 2024). Of a
    cache with room to spare, nonpad_kv_seqlen: i64[B] or i64[] says how many positions exist, and
    query i then stands at nonpad_kv_seqlen − T + i. Gradients add up in the layer that made them.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, v = g.constant([[[[1.0]]]]), g.constant([[[[2.0], [4.0], [9.0]]]])
    >>> y = gw.nn.shared_kv_attention(q, v * 0.0, v, g.constant(2), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[[[3.0]]]]
    """

    is_causal: bool = attr(True, doc="Hide the keys behind each query.")
    left_window_size: int = attr(-1, doc="How many keys before a query it sees; -1 is all.")

    def settings(self) -> dict[str, Any]:
        own = {"is_causal": self.is_causal, "left_window_size": self.left_window_size}
        return {**super().settings(), **own}

    def infer(
        self,
        query: TensorSpec,
        shared_key: TensorSpec,
        shared_value: TensorSpec,
        nonpad_kv_seqlen: TensorSpec | None = None,
    ) -> TensorSpec:
        check_heads(query, shared_key, shared_value)
        none = (None, None, None)
        op = Attention(**self.settings())
        return op.infer(query, shared_key, shared_value, *none, nonpad_kv_seqlen)[0]

    def expand(
        self, query: Any, shared_key: Any, shared_value: Any, nonpad_kv_seqlen: Any = None
    ) -> Any:
        if nonpad_kv_seqlen is None:
            nonpad_kv_seqlen = query.graph.constant(np.int64(int(shared_key.shape[2])))
        none = (None, None, None)
        op = Attention(**self.settings())
        return op(query, shared_key, shared_value, *none, nonpad_kv_seqlen)[0]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        q, k, v = draw((2, 2, 2, 2)), draw((2, 1, 4, 2)), draw((2, 1, 4, 1))
        yield Sample((q, k, v))
        yield Sample((q, k, v, np.array([4, 2])), {"left_window_size": 1})


class WindowedAttention(_Heads):
    """Attention inside blocks of neighbouring positions, at cost linear in the length.

    y = softmax(query @ keyᵀ·scale + attn_mask) @ value in each run of ``window_size`` positions

    query: f32[B, Hq, T, E], key: f32[B, H, T, E], value: f32[B, H, T, D], T a multiple of the
    window (Swin, Liu et al. 2021; ViTDet, Li et al. 2022). attn_mask, bool or added, broadcasts to
    [B, Hq, T/window_size, window_size, window_size]: [Hq, 1, w, w] holds position biases.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> v = g.constant([[[[2.0], [4.0], [8.0], [0.0]]]])
    >>> y = gw.nn.windowed_attention(v * 0.0, v * 0.0, v, window_size=2, name="y")
    >>> g.output({}, y)["y"].ravel().tolist()
    [3.0, 3.0, 4.0, 4.0]
    """

    window_size: int = attr(doc="Positions of a block.")

    def infer(
        self,
        query: TensorSpec,
        key: TensorSpec,
        value: TensorSpec,
        attn_mask: TensorSpec | None = None,
    ) -> TensorSpec:
        check_heads(query, key, value)
        t, w = query.shape[2], self.window_size
        if w < 1 or differ(t // w * w, t) or differ(t, key.shape[2]):
            raise ShapeError(
                f"{t} queries and {key.shape[2]} keys are no blocks of {w}",
                need="equally many, a multiple of window_size",
                hint="gw.pad, and attn_mask to hide what was added",
            )
        if attn_mask is not None:
            scores = (*query.shape[:2], t // w, w, w)
            if attn_mask.rank and differ(attn_mask.shape[-1], 1):  # no shorter than the window
                broadcast((w,), attn_mask.shape[-1:])
            check_mask(attn_mask, scores)
        return query.with_shape((*query.shape[:3], value.shape[3]))

    def expand(self, query: Any, key: Any, value: Any, attn_mask: Any = None) -> Any:
        b, n, t, e = query.shape
        heads, share, w = key.shape[1], n // key.shape[1], self.window_size
        # Heads that share keys stand on an axis of their own, of which keys and values have one.
        q = (query * scale_of(self.scale, e)).reshape(b, heads, share, t // w, w, e)
        k, v = (x.reshape(b, heads, 1, t // w, w, x.shape[3]) for x in (key, value))
        scores, seen = (q @ k.mT).reshape(b, n, t // w, w, w), None
        if self.softcap:
            scores = Tanh()(scores / self.softcap) * self.softcap
        if attn_mask is not None:
            scores, seen = with_mask(scores, None, attn_mask)
        weights = MaskedSoftmax()(scores) if seen is None else MaskedSoftmax()(scores, seen)
        return (weights.reshape(b, heads, share, t // w, w, w) @ v).reshape(b, n, t, v.shape[-1])

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        q, k, v = draw((1, 2, 4, 2)), draw((1, 1, 4, 2)), draw((1, 1, 4, 1))
        yield Sample((q, k, v), {"window_size": 2})
        yield Sample((q, k, v, draw((2, 1, 2, 2))), {"window_size": 2, "softcap": 2.0})
        yield Sample((q, k, v, rng.random((2, 2, 2)) < 0.7), {"window_size": 2})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        q = TensorSpec((1, 2, 4, 2))
        yield ErrorSample((q, q, q), {"window_size": 3}, "no blocks of 3")
        yield ErrorSample((q, q, q, TensorSpec((3, 3))), {"window_size": 2}, "do not broadcast")
