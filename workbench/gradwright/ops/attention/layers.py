"""Attention with positions before heads, with projections, both ways, and over latents."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import ErrorSample, Op, Sample, WeightSite, attr
from ...spec import TensorSpec, broadcast, check_floats, differ, kind, promote_all
from ..core.choice import Where
from ..core.joining import Concat
from ..core.movement import Transpose
from ..layers.nn import Linear
from .attention import Attention, check_mask, with_mask
from .weights import MaskedSoftmax, VisibleKeys, check_heads, scale_of


class DotProductAttention(Op):
    """Attention with positions before heads, as ``jax.nn.dot_product_attention`` has it.

    y = softmax(query @ keyᵀ·scale + bias) @ value over the keys that are seen

    query: f32[B, T, Hq, E], key: f32[B, S, H, E], value: f32[B, S, H, D]; runs of Hq/H heads share
    one. bias and mask: bool broadcast to [B, Hq, T, S]; query_seq_lengths and
    key_value_seq_lengths: i64[B] say how many positions exist, results beyond are zeros.
    ``local_window_size`` = (left, right) bounds what a query sees.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, v = g.constant([[[[1.0]], [[1.0]]]]), g.constant([[[[2.0]], [[4.0]]]])
    >>> y = gw.nn.dot_product_attention(q, q, v, is_causal=True, name="y")
    >>> g.output({}, y)["y"].ravel().tolist()
    [2.0, 3.0]
    """

    namespace = "nn"
    scale: float | None = attr(None, doc="Factor of the scores; None is 1/√E.")
    is_causal: bool = attr(False, doc="Let position i see keys 0 to i only.")
    local_window_size: tuple[int, int] | None = attr(None, doc="Keys seen before and behind.")

    def settings(self) -> dict[str, Any]:
        """Return the attributes of the general op."""
        left, right = self.local_window_size or (-1, -1)
        sides = {"left_window_size": left, "right_window_size": right}
        return {"scale": self.scale, "is_causal": self.is_causal, **sides}

    def infer(
        self,
        query: TensorSpec,
        key: TensorSpec,
        value: TensorSpec,
        bias: TensorSpec | None = None,
        mask: TensorSpec | None = None,
        query_seq_lengths: TensorSpec | None = None,
        key_value_seq_lengths: TensorSpec | None = None,
    ) -> TensorSpec:
        if not query.rank == key.rank == value.rank == 4:
            raise ShapeError("attention needs heads apart", need="f32[B, T, heads, features]")
        q, k, v = (Transpose(axes=(0, 2, 1, 3)).infer(x) for x in (query, key, value))
        y = Attention(**self.settings()).infer(q, k, v)[0]
        scores = (*q.shape[:3], k.shape[2])
        for given, wanted, label in ((bias, "f", "bias"), (mask, "b", "mask")):
            if given is None:
                continue
            if kind(given.dtype) != wanted:
                need = "a float dtype, added" if wanted == "f" else "bool, what is seen"
                raise DTypeError(f"{label} cannot be {given.dtype}", need=need)
            if differ(broadcast(scores, given.shape)[-1], scores[-1]):
                raise ShapeError(f"{label} does not fit", need=f"broadcastable to {list(scores)}")
            check_mask(given, scores)
        for lengths in (query_seq_lengths, key_value_seq_lengths):
            if lengths is not None:
                VisibleKeys().infer(TensorSpec(scores), lengths)
                if lengths.rank and differ(lengths.shape[0], scores[0]):
                    raise ShapeError("lengths do not fit", need=f"i64[{scores[0]}], got {lengths}")
        return Transpose(axes=(0, 2, 1, 3)).infer(y)

    def expand(
        self,
        query: Any,
        key: Any,
        value: Any,
        bias: Any = None,
        mask: Any = None,
        query_seq_lengths: Any = None,
        key_value_seq_lengths: Any = None,
    ) -> Any:
        q, k, v = (x.transpose(0, 2, 1, 3) for x in (query, key, value))
        pairs = q[:, :1] @ k[:, :1].mT  # read for its sizes only, so never computed
        seen = [] if mask is None else [mask]
        if query_seq_lengths is not None:
            seen.append(VisibleKeys()(pairs.mT, query_seq_lengths).mT)
        if key_value_seq_lengths is not None:
            seen.append(VisibleKeys()(pairs, key_value_seq_lengths))
        both = functools.reduce(operator.and_, seen) if seen else None
        if bias is not None and both is not None:
            both = Where()(both, bias, -np.inf)
        added = bias if both is None else both
        return Attention(**self.settings())(q, k, v, added)[0].transpose(0, 2, 1, 3)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        q, k, v = draw((2, 3, 2, 2)), draw((2, 3, 1, 2)), draw((2, 3, 1, 1))
        yield Sample((q, k, v), {"is_causal": True})
        seen = rng.random((2, 1, 3, 3)) < 0.7
        attrs = {"local_window_size": (1, 1), "scale": 0.4}
        yield Sample((q, k, v, draw((2, 1, 3)), seen), attrs)
        yield Sample((q, k, v, None, None, np.array([2, 3]), np.array([3, 1])))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        q, k = TensorSpec((1, 3, 3, 2)), TensorSpec((1, 3, 2, 2))
        yield ErrorSample((q, k, k), {}, "cannot share 2 heads")
        yield ErrorSample((q, q, q, TensorSpec((3, 3), "bool")), {}, "bias cannot be bool")
        yield ErrorSample((q, q, q, None, TensorSpec((3, 3))), {}, "mask cannot be float32")
        lengths = TensorSpec((2,), "int64")
        yield ErrorSample((q, q, q, None, None, lengths), {}, "lengths do not fit")


class MultiHeadDotProductAttention(Op):
    """Attention of several heads between learned projections (Vaswani et al. 2017).

    y = concatₕ(softmax(Qₕ @ Kₕᵀ·scale) @ Vₕ) @ out_weight + out_bias,
    Q = query @ query_weight + query_bias, and K, V likewise; head h takes its run of columns

    query: f32[B, T, C], key: f32[B, S, C′], value: f32[B, S, C″]; query_weight: f32[C, n·E],
    key_weight: f32[C′, n·E], value_weight: f32[C″, n·D], out_weight: f32[n·D, M], in matmul layout.
    attn_mask broadcasts to [B, n, T, S]: bool says which keys are seen, a float one is added. With
    fewer ``kv_num_heads`` than ``num_heads``, runs of query heads share one.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.placeholder("x", ("B", "T", 8)), g.variable("w", (8, 8), init=1.0)
    >>> gw.nn.multi_head_dot_product_attention(x, x, x, w, w, w, w, num_heads=2).shape
    (B, T, 8)
    """

    namespace = "nn"
    num_heads: int = attr(doc="Heads of the queries.")
    kv_num_heads: int | None = attr(None, doc="Heads of keys and values; None is num_heads.")
    is_causal: bool = attr(False, doc="Let position i see keys 0 to i only.")
    scale: float | None = attr(None, doc="Factor of the scores; None is 1/√E.")

    def infer(
        self,
        query: TensorSpec,
        key: TensorSpec,
        value: TensorSpec,
        query_weight: TensorSpec,
        key_weight: TensorSpec,
        value_weight: TensorSpec,
        out_weight: TensorSpec,
        query_bias: TensorSpec | None = None,
        key_bias: TensorSpec | None = None,
        value_bias: TensorSpec | None = None,
        out_bias: TensorSpec | None = None,
        attn_mask: TensorSpec | None = None,
    ) -> TensorSpec:
        if not query.rank == key.rank == value.rank == 3:
            raise ShapeError("attention projects sequences", need="query: f32[B, T, C]")
        linear, kv_num_heads = Linear(), self.kv_num_heads or self.num_heads
        q = linear.infer(query, query_weight, query_bias)
        k = linear.infer(key, key_weight, key_bias)
        v = linear.infer(value, value_weight, value_bias)
        settings = {"q_num_heads": self.num_heads, "kv_num_heads": kv_num_heads}
        y = Attention(**settings).infer(q, k, v, attn_mask)[0]
        return linear.infer(y, out_weight, out_bias)

    def expand(
        self,
        query: Any,
        key: Any,
        value: Any,
        query_weight: Any,
        key_weight: Any,
        value_weight: Any,
        out_weight: Any,
        query_bias: Any = None,
        key_bias: Any = None,
        value_bias: Any = None,
        out_bias: Any = None,
        attn_mask: Any = None,
    ) -> Any:
        def linear(x: Any, weight: Any, bias: Any) -> Any:
            return x @ weight if bias is None else Linear()(x, weight, bias)

        attend = Attention(
            q_num_heads=self.num_heads,
            kv_num_heads=self.kv_num_heads or self.num_heads,
            is_causal=self.is_causal,
            scale=self.scale,
        )
        q = linear(query, query_weight, query_bias)
        k = linear(key, key_weight, key_bias)
        v = linear(value, value_weight, value_bias)
        return linear(attend(q, k, v, attn_mask)[0], out_weight, out_bias)

    def weight_sites(self) -> tuple[WeightSite, ...]:
        return tuple(WeightSite(i, "in,out", "linear") for i in range(3, 7))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        x = draw((1, 2, 3))
        weights = draw((3, 4)), draw((3, 4)), draw((3, 2)), draw((2, 2))
        yield Sample((x, x + 1, x - 1, *weights), {"num_heads": 2})
        biases = draw(4), draw(2), draw(1), draw(2)
        shared = weights[0], draw((3, 2)), draw((3, 1)), weights[3]
        attrs = {"num_heads": 2, "kv_num_heads": 1, "is_causal": True}
        yield Sample((x, x + 1, x - 1, *shared, *biases, draw((2, 2))), attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((1, 2, 3)), TensorSpec((3, 4))
        yield ErrorSample((x, x, x, w, w, w, w), {"num_heads": 2}, "weight does not fit")
        yield ErrorSample((x, x, x, w, w, w, w), {"num_heads": 3}, "are not 3 heads")
        yield ErrorSample((w, w, w, w, w, w, w), {"num_heads": 2}, "projects sequences")


class TwoWayCrossAttention(Op):
    """Two sequences that attend to each other over one table of scores.

    S = a @ bᵀ·scale + attn_mask,  y_a = softmax(S) @ b_value,  y_b = softmax(Sᵀ) @ a_value

    a: f32[B, n, T, E], a_value: f32[B, n, T, D], b: f32[B, n, S, E], b_value: f32[B, n, S, F];
    attn_mask: bool, or added, broadcasts to [B, n, T, S]. Returns (y_a: f32[B, n, T, F],
    y_b: f32[B, n, S, D]) (GLIP, Li et al. 2022; BiXT, Hiller et al. 2024).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, b = g.placeholder("a", (1, 1, 2, 3)), g.placeholder("b", (1, 1, 5, 3))
    >>> [y.shape for y in gw.nn.two_way_cross_attention(a, a, b, b)]
    [(1, 1, 2, 3), (1, 1, 5, 3)]
    """

    namespace = "nn"
    returns = "y_a", "y_b"
    scale: float | None = attr(None, doc="Factor of the scores; None is 1/√E.")

    def infer(
        self,
        a: TensorSpec,
        a_value: TensorSpec,
        b: TensorSpec,
        b_value: TensorSpec,
        attn_mask: TensorSpec | None = None,
    ) -> tuple[TensorSpec, TensorSpec]:
        check_heads(a, b, b_value)
        check_heads(b, a, a_value)
        scores = (*a.shape[:3], b.shape[2])
        if attn_mask is not None:
            if differ(broadcast(scores, attn_mask.shape)[-1], scores[-1]):
                raise ShapeError("attn_mask does not fit", need=f"broadcastable to {list(scores)}")
            check_mask(attn_mask, scores)
        dtype = promote_all(a, a_value, b, b_value)
        return (
            TensorSpec((*a.shape[:3], b_value.shape[3]), dtype),
            TensorSpec((*b.shape[:3], a_value.shape[3]), dtype),
        )

    def expand(self, a: Any, a_value: Any, b: Any, b_value: Any, attn_mask: Any = None) -> Any:
        scores = (a * scale_of(self.scale, a.shape[3])) @ b.mT
        if attn_mask is None:
            there, back = (MaskedSoftmax()(s) for s in (scores, scores.mT))
        else:
            scores, seen = with_mask(scores, None, attn_mask)
            turned = seen.mT if seen.rank > 1 else seen[:, None] if seen.rank else seen
            there, back = MaskedSoftmax()(scores, seen), MaskedSoftmax()(scores.mT, turned)
        return there @ b_value, back @ a_value

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        inputs = draw((1, 2, 2, 2)), draw((1, 2, 2, 1)), draw((1, 2, 3, 2)), draw((1, 2, 3, 2))
        yield Sample(inputs)
        yield Sample((*inputs, np.array([True, False, True])), {"scale": 0.4})
        yield Sample((*inputs, draw((2, 1))))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        a, b = TensorSpec((1, 2, 2, 2)), TensorSpec((1, 2, 3, 3))
        yield ErrorSample((a, a, b, b), {}, "different features")
        yield ErrorSample((a, b, a, a), {}, "differ in length")


class MlaAttention(Op):
    """Multi-head latent attention: keys and values of all heads unfold from one small vector.

    Kₕ = (latent @ key_weight[h]ᵀ, rotated key), Vₕ = latent @ value_weight[h],
    yₕ = softmax(queryₕ @ Kₕᵀ·scale) @ Vₕ

    query: f32[B, n, T, E + R], the last R features rotated; latent: f32[B, S, C] and
    rotary_key: f32[B, S, R] are all that a cache has to hold; key_weight: f32[n, E, C],
    value_weight: f32[n, C, D]. Returns f32[B, n, T, D]. The weights are moved to the queries and
    the results, so keys and values are never unfolded (DeepSeek-V2, 2024, section 2.1). Query i
    stands at S − T + i; nonpad_kv_seqlen: i64[B] or i64[] says how many positions of a cache exist.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, c = g.placeholder("q", (1, 2, 5, 6)), g.placeholder("c", (1, 5, 3))
    >>> r = g.placeholder("r", (1, 5, 2))
    >>> up, out = g.variable("up", (2, 4, 3)), g.variable("out", (2, 3, 8))
    >>> gw.nn.mla_attention(q, c, r, up, out, is_causal=True).shape
    (1, 2, 5, 8)
    """

    namespace = "nn"
    is_causal: bool = attr(True, doc="Hide the keys behind each query.")
    scale: float | None = attr(None, doc="Factor of the scores; None is 1/√(E + R).")

    def infer(
        self,
        query: TensorSpec,
        latent: TensorSpec,
        rotary_key: TensorSpec,
        key_weight: TensorSpec,
        value_weight: TensorSpec,
        nonpad_kv_seqlen: TensorSpec | None = None,
    ) -> TensorSpec:
        ranks = tuple(x.rank for x in (query, latent, rotary_key, key_weight, value_weight))
        if ranks != (4, 3, 3, 3, 3):
            raise ShapeError(
                "mla_attention has inputs of other ranks",
                need="query [B, n, T, E + R], latent [B, S, C], rotary_key [B, S, R], weights",
            )
        (b, n, t, width), (_, e, c) = query.shape, key_weight.shape
        r = rotary_key.shape[2]
        pairs = (
            (e + r, width, "E + R features of query"),
            (latent.shape[2], c, "features of latent"),
            (value_weight.shape[1], c, "features of latent"),
            (key_weight.shape[0], n, "heads"),
            (value_weight.shape[0], n, "heads"),
            (latent.shape[1], rotary_key.shape[1], "positions of latent and rotary_key"),
            (latent.shape[0], b, "samples"),
            (rotary_key.shape[0], b, "samples"),
        )
        for left, right, what in pairs:
            if differ(left, right):
                raise ShapeError(f"{what} are {left} and {right}", need="equally many")
        if nonpad_kv_seqlen is not None:
            VisibleKeys().infer(TensorSpec((t, latent.shape[1])), nonpad_kv_seqlen)
        inputs = query, latent, rotary_key, key_weight, value_weight
        check_floats("attention", *inputs)
        dtype = promote_all(*inputs)
        return TensorSpec((b, n, t, value_weight.shape[2]), dtype)

    def expand(
        self,
        query: Any,
        latent: Any,
        rotary_key: Any,
        key_weight: Any,
        value_weight: Any,
        nonpad_kv_seqlen: Any = None,
    ) -> Any:
        e = key_weight.shape[1]
        q = Concat(axis=3)(query[..., :e] @ key_weight, query[..., e:])
        k = Concat(axis=2)(latent, rotary_key)[:, None]
        length = nonpad_kv_seqlen
        if length is None:
            length = query.graph.constant(np.int64(int(latent.shape[1])))
        op = Attention(is_causal=self.is_causal, scale=scale_of(self.scale, query.shape[3]))
        y = op(q, k, latent[:, None], None, None, None, length)[0]
        return y @ value_weight

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        inputs = draw((1, 2, 2, 3)), draw((1, 3, 2)), draw((1, 3, 1)), draw((2, 2, 2))
        yield Sample((*inputs, draw((2, 2, 1))))
        yield Sample((*inputs, draw((2, 2, 1)), np.array([2])), {"is_causal": False, "scale": 0.3})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        q, c = TensorSpec((1, 2, 2, 3)), TensorSpec((1, 3, 2))
        w = TensorSpec((2, 2, 2))
        yield ErrorSample((q, c, c, w, w), {}, "E + R features of query are 4 and 3")
        yield ErrorSample((c, c, c, w, w), {}, "inputs of other ranks")
