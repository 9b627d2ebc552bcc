"""Linear attention: a matrix per head that remembers, decays and corrects, instead of all keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import GraphError, ShapeError
from ...op import ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec, at_least_float32, differ, promote_all
from ..core.choice import Minimum
from ..core.creation import Tril
from ..core.exponential import Exp
from ..core.joining import Concat, Split
from ..core.movement import Cast, ExpandDims
from ..core.reduce import Cumsum
from ..matrices.solutions import TriangularSolve
from .attention import unpacked
from .weights import check_heads, join_heads, scale_of, split_heads

RULES = ("linear", "gated", "delta", "gated_delta")
CLOSE = 16
"""Positions of a chunk whose decay differs by feature: it holds a number per pair and feature."""


def remember(
    query: Any, key: Any, value: Any, state: Any, decay: Any, beta: Any, chunk: int
) -> tuple[Any, Any]:
    """Return the averages ``[B, H, G, T, D]`` and the last state, chunk by chunk.

    query: [B, H, G, T, E], key: [B, H, T, E], value: [B, H, T, D], state: [B, H, E, D],
    decay: [B, H, T, E or 1] in logarithms or None, beta: [B, H, T, 1] or None.

    Inside a chunk, with running sums c of the decay, S₀ the state before it, and written values
    u = value, or those that solve (I + β·strictly lower A(key)) @ u = β·(value − (key·eᶜ) @ S₀):
    y = (query·eᶜ) @ S₀ + lower A(query) @ u with A(x)ᵢⱼ = Σ xᵢ·keyⱼ·e^(cᵢ − cⱼ), and the state
    becomes e^c·S₀ + (key·e^(c − cⱼ))ᵀ @ u at the last c. All exponents are of later positions less
    earlier ones, so they never grow (Yang et al. 2024, the WY form).
    """
    by_feature = decay is not None and decay.shape[3] != 1
    size = min(chunk, CLOSE) if by_feature else chunk
    length: int = key.shape[2]
    wide = ExpandDims(axis=2)
    if not length:
        return query @ wide(state), state
    sizes = [min(size, length - start) for start in range(0, length, size)]
    outputs = []

    def chunks(x: Any, axis: int = 2) -> Any:  # cut at once: the gradient joins at once, too
        return [None] * len(sizes) if x is None else Split(parts=tuple(sizes), axis=axis)(x)

    cut = [chunks(query, 3), *map(chunks, (key, value, decay, beta))]
    for q, k, u, rate, b in zip(*cut, strict=True):
        from_key, from_query, kept, late = k, q, state, k
        if rate is None:
            own = k @ k.mT if b is not None else None
            shown = q @ k.mT[:, :, None]
        else:
            c = Cumsum(axis=2)(rate)
            last = c[:, :, -1:]
            from_key, from_query = k * Exp()(c), q * Exp()(c)[:, :, None]
            kept, late = state * Exp()(last).mT, k * Exp()(last - c)
            if by_feature:
                # The upper triangle would grow; it is dropped below, and must not overflow before.
                apart = Exp()(Minimum()(c[:, :, :, None] - c[:, :, None], 0.0))
                pairs = k[:, :, None] * apart
                own = (k[:, :, :, None] * pairs).sum(-1) if b is not None else None
                shown = (q[:, :, :, :, None] * pairs[:, :, None]).sum(-1)
            else:
                apart = Exp()(Minimum()(c - c.mT, 0.0))
                own = (k @ k.mT) * apart if b is not None else None
                shown = (q @ k.mT[:, :, None]) * apart[:, :, None]
        if b is not None:
            solve = TriangularSolve(unit_diagonal=True)
            u = solve(Tril(k=-1)(own * b), (u - from_key @ state) * b)
        outputs.append(from_query @ wide(state) + Tril()(shown) @ wide(u))
        state = kept + late.mT @ u
    return outputs[0] if len(outputs) == 1 else Concat(axis=3)(*outputs), state


def empty_state(key: Any, value: Any) -> Any:
    """Return the state ``[B, H, E, D]`` of zeros before the first position."""
    shape = (*key.shape[:2], key.shape[3], value.shape[3])
    return key.graph.constant(np.zeros([int(d) for d in shape], key.dtype))


class LinearAttention(Op):
    """Attention by a state that is written at each position and read by the query.

    Sₜ = Dₜ·Sₜ₋₁ + keyₜᵀ ⊗ uₜ,  yₜ = scale·queryₜ @ Sₜ, with uₜ = valueₜ (``linear``), Dₜ = e^decayₜ
    (``gated``), uₜ = βₜ·(valueₜ − keyₜ @ Dₜ·Sₜ₋₁) (``delta``), or both (``gated_delta``)

    query: f32[B, T, Hq·E], key: f32[B, T, H·E], value: f32[B, T, H·D]; runs of Hq/H heads share a
    state. past_state: f32[B, H, E, D], zeros if not given; decay, in logarithms and at most 0:
    f32[B, T, H] or, by feature, f32[B, T, H·E]; beta: f32[B, T, H] or f32[B, T, 1]. Returns
    (f32[B, T, Hq·D], present_state). T must be known when it runs: chunks of ``chunk_size``
    positions are computed as matrices, one after the other. ONNX operator LinearAttention-27.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> one, v = g.constant([[[1.0], [1.0]]]), g.constant([[[2.0], [4.0]]])
    >>> heads = {"q_num_heads": 1, "kv_num_heads": 1, "update_rule": "linear"}
    >>> y, state = gw.nn.linear_attention(one, one, v, name="y", **heads)
    >>> g.output({}, y)["y"].tolist()
    [[[2.0], [6.0]]]
    """

    namespace = "nn"
    returns = "y", "present_state"
    onnx = OnnxRule("LinearAttention", since=27)
    q_num_heads: int = attr(doc="Heads of the queries.")
    kv_num_heads: int = attr(doc="Heads of keys, values and states.")
    update_rule: str = attr("gated_delta", doc="How the state changes.", choices=RULES)
    scale: float | None = attr(None, doc="Factor of the results; None is 1/√E.")
    chunk_size: int = attr(64, doc="Positions computed at once.", least=1)

    def infer(
        self,
        query: TensorSpec,
        key: TensorSpec,
        value: TensorSpec,
        past_state: TensorSpec | None = None,
        decay: TensorSpec | None = None,
        beta: TensorSpec | None = None,
    ) -> tuple[TensorSpec, TensorSpec]:
        q = unpacked(query, self.q_num_heads, "q_num_heads")
        k = unpacked(key, self.kv_num_heads, "kv_num_heads")
        v = unpacked(value, self.kv_num_heads, "kv_num_heads")
        check_heads(q, k, v)
        b, t, heads = query.shape[0], query.shape[1], self.kv_num_heads
        if differ(t, key.shape[1]):
            raise ShapeError("query and key differ in length", need="one position each")
        for name, given, wanted, widths in (
            ("decay", decay, "gated" in self.update_rule, (heads, heads * k.shape[3])),
            ("beta", beta, "delta" in self.update_rule, (heads, 1)),
        ):
            if (given is not None) != wanted:
                verb = "needs" if wanted else "does not take"
                raise GraphError(f"the rule {self.update_rule!r} {verb} {name}")
            if given is not None and (
                given.rank != 3
                or any(map(differ, given.shape[:2], (b, t)))
                or all(differ(given.shape[2], w) for w in widths)
            ):
                need = " or ".join(f"f32[{b}, {t}, {w}]" for w in widths)
                raise ShapeError(f"{name} does not fit", need=f"{need}, got {given}")
        state = TensorSpec((b, heads, k.shape[3], v.shape[3]), promote_all(query, key, value))
        if past_state is not None:
            if past_state.rank != 4 or any(map(differ, past_state.shape, state.shape)):
                raise ShapeError("past_state does not fit", need=str(state))
            state = state.with_dtype(past_state.dtype)
        return query.with_shape((b, t, self.q_num_heads * v.shape[3])), state

    def expand(
        self,
        query: Any,
        key: Any,
        value: Any,
        past_state: Any = None,
        decay: Any = None,
        beta: Any = None,
    ) -> Any:
        heads = self.kv_num_heads
        like = promote_all(query.spec, key.spec, value.spec)
        wide = Cast(dtype=at_least_float32(like))
        q = split_heads(wide(query), self.q_num_heads)
        k, v = (split_heads(wide(x), heads) for x in (key, value))
        b, n, t, e = q.shape
        state = empty_state(k, v) if past_state is None else wide(past_state)
        if decay is not None:
            decay = split_heads(wide(decay), heads)
        if beta is not None:
            beta = wide(beta).transpose(0, 2, 1)[..., None]
        scaled = (q * scale_of(self.scale, e)).reshape(b, heads, n // heads, t, e)
        y, state = remember(scaled, k, v, state, decay, beta, self.chunk_size)
        y = join_heads(y.reshape(b, n, t, v.shape[3]))
        kept = Cast(dtype=like if past_state is None else past_state.dtype)
        return Cast(dtype=query.dtype)(y), kept(state)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        q, k, v = draw((1, 3, 4)), draw((1, 3, 2)) / 2, draw((1, 3, 1))
        heads = {"q_num_heads": 2, "kv_num_heads": 1}
        decay, beta, state = -rng.random((1, 3, 2)), rng.random((1, 3, 1)), draw((1, 1, 2, 1))
        none = (x[:, :0] for x in (q, k, v))
        yield Sample((*none, state, decay[:, :0]), {**heads, "update_rule": "gated"})
        yield Sample((q, k, v, state, decay), {**heads, "update_rule": "gated", "scale": 0.3})
        yield Sample((q, k, v, state, None, beta), {**heads, "update_rule": "delta"})
        yield Sample((q, k, v, None, decay[..., :1], beta), {**heads, "chunk_size": 2})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        q, k = TensorSpec((1, 3, 4)), TensorSpec((1, 3, 2))
        heads = {"q_num_heads": 2, "kv_num_heads": 1}
        linear = {**heads, "update_rule": "linear"}
        yield ErrorSample((q, k, k), heads, "'gated_delta' needs decay")
        yield ErrorSample((q, k, k, None, k), linear, "does not take decay")
        yield ErrorSample((q, k, k, None, q), {**heads, "update_rule": "gated"}, "decay does not")
        yield ErrorSample((q, k, k, q), linear, "past_state does not fit")
        yield ErrorSample((q, q, q), linear, "different features")


class LinearAttentionDecode(Op):
    """One step of linear attention: the state is decayed, written, and read by the query.

    S′ = e^decay·S + keyᵀ ⊗ u,  y = scale·query @ S′, u = value, or β·(value − key @ e^decay·S)

    query: f32[B, Hq, E], key: f32[B, H, E], value: f32[B, H, D], state: f32[B, H, E, D]; decay, in
    logarithms: f32[B, H] or f32[B, H, E]; beta: f32[B, H], with which values are corrected (delta
    rule). Returns (f32[B, Hq, D], S′): what ``linear_attention`` gives for the next position.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> one, state = g.constant([[[1.0]]]), g.constant([[[[5.0]]]])
    >>> y, _ = gw.nn.linear_attention_decode(one, one, one * 2.0, state, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[[7.0]]]
    """

    namespace = "nn"
    returns = "y", "state"
    scale: float | None = attr(None, doc="Factor of the results; None is 1/√E.")

    def infer(
        self,
        query: TensorSpec,
        key: TensorSpec,
        value: TensorSpec,
        state: TensorSpec,
        decay: TensorSpec | None = None,
        beta: TensorSpec | None = None,
    ) -> tuple[TensorSpec, TensorSpec]:
        if not query.rank == key.rank == value.rank == 3 or state.rank != 4:
            raise ShapeError(
                "a step has one position", need="query: f32[B, Hq, E], state of rank 4"
            )
        long = [x.with_shape((*x.shape[:2], 1, x.shape[2])) for x in (query, key, value)]
        check_heads(long[0], long[1], long[2])
        b, heads, e = key.shape
        if any(map(differ, state.shape, (b, heads, e, value.shape[2]))):
            raise ShapeError("state does not fit", need="f32[B, H, E, D]")
        for name, given, shapes in (
            ("decay", decay, ((b, heads), (b, heads, e))),
            ("beta", beta, ((b, heads),)),
        ):
            if given is not None and not any(
                given.rank == len(s) and not any(map(differ, given.shape, s)) for s in shapes
            ):
                raise ShapeError(f"{name} does not fit", need=f"f32{list(shapes[-1])}")
        given_all = [x for x in (query, key, value, state, decay, beta) if x is not None]
        joint = promote_all(*given_all)
        y = TensorSpec((*query.shape[:2], value.shape[2]), joint)
        return y, TensorSpec(state.shape, joint)

    def expand(
        self, query: Any, key: Any, value: Any, state: Any, decay: Any = None, beta: Any = None
    ) -> Any:
        b, n, e = query.shape
        heads = key.shape[1]
        if decay is not None:
            rate = decay[..., None, None] if decay.rank == 2 else decay[..., None]
            state = state * Exp()(rate)
        k, u = key[..., None], value[:, :, None]
        if beta is not None:
            u = (u - k.mT @ state) * beta[..., None, None]
        state = state + k * u
        q = (query * scale_of(self.scale, e)).reshape(b, heads, n // heads, e)
        return (q @ state).reshape(b, n, value.shape[2]), state

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        q, k, v, state = draw((2, 2, 2)), draw((2, 1, 2)), draw((2, 1, 3)), draw((2, 1, 2, 3))
        yield Sample((q, k, v, state))
        yield Sample((q, k, v, state, -rng.random((2, 1)), rng.random((2, 1))), {"scale": 1.0})
        yield Sample((q, k, v, state, -rng.random((2, 1, 2))))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        q, state = TensorSpec((2, 2, 3)), TensorSpec((2, 2, 3, 3))
        yield ErrorSample((q, q, q, q), {}, "one position")
        yield ErrorSample((q, q, q, state, TensorSpec((2, 3))), {}, "decay does not fit")
        yield ErrorSample((q, q, q, TensorSpec((2, 2, 3, 4))), {}, "state does not fit")


class LightningAttention(Op):
    """Linear attention whose states decay at one rate per head (Qin et al. 2024, Lightning-2).

    Sₜ = e^(−rateₕ)·Sₜ₋₁ + keyₜᵀ ⊗ valueₜ,  yₜ = queryₜ @ Sₜ

    query: f32[B, H, T, E], key: f32[B, H, T, E], value: f32[B, H, T, D], rate: f32[H] at least 0,
    past_state: f32[B, H, E, D]. Returns (f32[B, H, T, D], present_state); chunks of ``chunk_size``
    positions are computed as matrices.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> one, v = g.constant([[[[1.0], [1.0]]]]), g.constant([[[[2.0], [4.0]]]])
    >>> y, state = gw.nn.lightning_attention(one, one, v, g.constant([0.0]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[[[2.0], [6.0]]]]
    """

    namespace = "nn"
    returns = "y", "present_state"
    chunk_size: int = attr(64, doc="Positions computed at once.", least=1)

    def infer(
        self,
        query: TensorSpec,
        key: TensorSpec,
        value: TensorSpec,
        rate: TensorSpec,
        past_state: TensorSpec | None = None,
    ) -> tuple[TensorSpec, TensorSpec]:
        check_heads(query, key, value)
        b, heads, t, e = key.shape
        if differ(query.shape[1], heads) or differ(query.shape[2], t):
            raise ShapeError("query and key differ in heads or length", need="equal shapes")
        if rate.rank != 1 or differ(rate.shape[0], heads):
            raise ShapeError("there is not one rate per head", need=f"f32[{heads}]")
        joint = promote_all(query, key, value)
        state = TensorSpec((b, heads, e, value.shape[3]), joint)
        if past_state is not None and (
            past_state.rank != 4 or any(map(differ, past_state.shape, state.shape))
        ):
            raise ShapeError("past_state does not fit", need=str(state))
        return TensorSpec((b, heads, t, value.shape[3]), joint), state

    def expand(self, query: Any, key: Any, value: Any, rate: Any, past_state: Any = None) -> Any:
        joint = promote_all(query.spec, key.spec, value.spec)
        wide = Cast(dtype=at_least_float32(joint))
        q, k, v = (wide(x) for x in (query, key, value))
        state = empty_state(k, v) if past_state is None else wide(past_state)
        steps = query.graph.constant(np.ones((int(key.shape[2]), 1), wide.dtype))
        decay = -wide(rate)[None, :, None, None] * steps
        y, state = remember(q[:, :, None], k, v, state, decay, None, self.chunk_size)
        return Cast(dtype=joint)(y[:, :, 0]), Cast(dtype=joint)(state)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        q, v, rate = draw((1, 2, 3, 2)), draw((1, 2, 3, 1)), rng.random(2)
        yield Sample((q, q + 1, v, rate), {"chunk_size": 2})
        yield Sample((q, q + 1, v, rate, draw((1, 2, 2, 1))))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        q, rate = TensorSpec((1, 2, 3, 2)), TensorSpec((2,))
        yield ErrorSample((q, q, q, TensorSpec((3,))), {}, "one rate per head")
        yield ErrorSample((q, q, q, rate, q), {}, "past_state does not fit")
