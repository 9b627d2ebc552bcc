"""Gated delta rule: memories that are corrected, not only added to, in chunks of products."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import Cotangent, ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, differ, kind
from ..arrays.recurrence import LinearScan, shifted
from ..core.activation import Sigmoid, Silu, Softplus
from ..core.creation import Tril
from ..core.exponential import Exp
from ..core.lengths import RootSumSquares
from ..core.reduce import Cumsum
from ..core.special import widened
from ..layers.norm import RmsNorm
from .convolution import CausalConv1d
from .halves import narrowed, wide
from .state_space import between, check, in_chunks, last_state


class UnitLowerInverse(Op):
    """Inverse of I + A, where only what is below the diagonal of A counts.

    Y = (I + tril(A, −1))⁻¹, row by row: y_i = e_i − Σ_{j<i} a_ij·y_j, f32[…, N, N]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = UnitLowerInverse()(g.constant([[7.0, 7.0], [3.0, 7.0]]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[1.0, 0.0], [-3.0, 1.0]]
    """

    namespace = "gradient"

    def infer(self, a: TensorSpec) -> TensorSpec:
        if kind(a.dtype) != "f":
            raise DTypeError(f"{self.name} does not take {a.dtype}", hint="gw.cast(x, 'float32')")
        if a.rank < 2 or differ(a.shape[-1], a.shape[-2]):
            raise ShapeError("a is no square matrix", need="[…, N, N]", facts=[f"got {a}"])
        return a

    def forward(self, a: Any) -> Any:
        n = a.shape[-1]
        wide = widened(a)
        y = np.zeros(a.shape, wide.dtype)
        y[..., range(n), range(n)] = 1
        for i in range(1, n):
            y[..., i : i + 1, :i] = -(wide[..., i : i + 1, :i] @ y[..., :i, :i])
        return y.astype(a.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        turned = ys[0].mT
        return (-Tril(k=-1)(turned @ gs[0] @ turned),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 3)),))
        yield Sample((rng.standard_normal((1, 1)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {}, "no square matrix")


class GatedDeltaRule(Op):
    """Memory S of values by keys, which decays and is corrected at each step (Yang et al. 2025).

    S ← exp(g_t)·S, S ← S + k_t ⊗ β_t·(v_t − Sᵀk_t), y_t = scale·Sᵀq_t, g the decay

    query, key: f32[B, T, H, K], value: f32[B, T, H, V], decay: f32[B, T, H] (at most 0),
    beta: f32[B, T, H], initial: f32[B, H, K, V] -> y: f32[B, T, H, V], last S: f32[B, H, K, V].
    Within a chunk the corrections are a triangular system (Yang et al. 2024); only from chunk to
    chunk there is a loop. Keys are normalised first with ``normalize``. Raises ShapeError where
    these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> k, v = g.constant([[[[1.0]], [[1.0]]]]), g.constant([[[[4.0]], [[8.0]]]])
    >>> gate, half = g.constant([[[0.0], [0.0]]]), g.constant([[[0.5], [0.5]]])
    >>> y, s = gw.nn.gated_delta_rule(k, k, v, gate, half, scale=1.0, name="delta")
    >>> g.output({}, y)[y.name].ravel().tolist()
    [2.0, 5.0]
    """

    namespace = "nn"
    returns = "y", "state"
    drawing = "activation"
    scale: float | None = attr(None, doc="Factor of the queries; None is 1/√K.")
    normalize: bool = attr(False, doc="Bring queries and keys to length 1 first.")
    chunk_size: int = attr(32, doc="Steps of a chunk.")

    def infer(
        self,
        query: TensorSpec,
        key: TensorSpec,
        value: TensorSpec,
        decay: TensorSpec,
        beta: TensorSpec,
        initial: TensorSpec | None = None,
    ) -> tuple[TensorSpec, TensorSpec]:
        if query.rank != 4 or value.rank != 4 or self.chunk_size < 1:
            raise ShapeError(
                "query or value has other axes, or chunk_size is below 1",
                need="query: [B, T, H, K], value: [B, T, H, V]",
                facts=[f"got {query}, {value}, {self.chunk_size}"],
            )
        batch, steps, heads, n = query.shape
        width = value.shape[3]
        check(
            self,
            [
                ("query", query, query.shape),
                ("key", key, query.shape),
                ("value", value, (batch, steps, heads, width)),
                ("decay", decay, (batch, steps, heads)),
                ("beta", beta, (batch, steps, heads)),
                ("initial", initial, (batch, heads, n, width)),
            ],
        )
        return value.with_shape(value.shape), value.with_shape((batch, heads, n, width))

    def expand(
        self, query: Any, key: Any, value: Any, decay: Any, beta: Any, initial: Any = None
    ) -> Any:
        q, k, v, g, beta, initial = wide(query, key, value, decay, beta, initial)
        batch, steps, heads, n = q.shape
        if self.normalize:
            q, k = (x / RootSumSquares(axis=-1, keepdims=True, eps=1e-6)(x) for x in (q, k))
        factor = float(int(n)) ** -0.5 if self.scale is None else self.scale
        size = min(self.chunk_size, max(int(steps), 1)) if isinstance(steps, int) else 1
        # [batch, chunk, head, step, …]: products of matrices run over the last two axes.
        q, k, v, g, beta = (
            in_chunks(x, size).transpose((0, 1, 3, 2, *range(4, x.rank + 1)))
            for x in (q * factor, k, v, g, beta)
        )
        b = beta.expand_dims(-1)
        fade, total = between(g), Cumsum(axis=-1)(g)
        grown, whole = Exp()(total).expand_dims(-1), total[..., -1:]
        left = Exp()(whole - total).expand_dims(-1)  # of a step, at the end of its chunk
        # What each step writes, given that it corrects what the steps before it have written:
        # values − keys @ S, where S is the memory at the start of the chunk.
        solved = UnitLowerInverse()((k @ k.mT) * fade * b)
        values, keys = solved @ (v * b), solved @ (k * b * grown)
        kept = (k * left).mT
        eye = self._eye(kept @ keys)
        carried = eye * Exp()(whole).expand_dims(-1) - kept @ keys
        start = () if initial is None else (initial,)
        states = LinearScan(axis=1, matrix=True)(carried, kept @ values, *start)
        before = shifted(states, initial, 1)
        written = values - keys @ before
        y = (q * grown) @ before + ((q @ k.mT) * fade) @ written
        y = y.transpose((0, 1, 3, 2, 4))
        y = y.reshape((batch, y.shape[1] * size, heads, v.shape[-1]))[:, :steps]
        return narrowed(value, y, last_state(states, initial))

    @staticmethod
    def _eye(like: Any) -> Any:
        n = int(like.shape[-1])
        return like.graph.constant(np.eye(n), dtype=like.dtype)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        n = rng.standard_normal
        q, k, v = n((1, 3, 2, 2)), n((1, 3, 2, 2)), n((1, 3, 2, 1))
        g, beta = -np.abs(n((1, 3, 2))), rng.uniform(0.1, 0.9, (1, 3, 2))
        yield Sample((q, k, v, g, beta, n((1, 2, 2, 1))), {"chunk_size": 2})
        attrs = {"normalize": True, "scale": 0.7}
        yield Sample((q[:, :2], k[:, :2], v[:, :2], g[:, :2], beta[:, :2]), attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        q, g = TensorSpec((1, 3, 2, 4)), TensorSpec((1, 3, 2))
        yield ErrorSample((q, q, q, q, g), {}, "decay does not fit")
        yield ErrorSample((g, q, q, g, g), {}, "other axes")


class GatedDeltaNetBlock(Op):
    """Block of a gated delta network: projections, short convolutions, memory, gated norm.

    q, k, v = silu(conv(x w_q)), silu(conv(x w_k)), silu(conv(x w_v)), q and k of length 1 per head;
    β = σ(x w_b), g = −exp(a_log)·softplus(x w_a + dt_bias);
    y = (rms_norm(gated_delta_rule(q, k, v, g, β))·norm⊙silu(x w_z)) w_o (Yang et al. 2025)

    x: f32[B, T, D], w_q, w_k: f32[D, H·K], w_v, w_z: f32[D, H·V], w_b, w_a: f32[D, H],
    conv: f32[H·(2·K + V), 1, k] for q, k and v one after the other, a_log, dt_bias: f32[H],
    norm: f32[V], w_o: f32[H·V, D] -> f32[B, T, D]. Raises ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> shapes = dict(x=(1, 5, 8), w_q=(8, 6), w_k=(8, 6), w_v=(8, 4), w_z=(8, 4), w_b=(8, 2),
    ...     w_a=(8, 2), conv=(16, 1, 3), a_log=(2,), dt_bias=(2,), norm=(2,), w_o=(4, 8))
    >>> gw.nn.gated_delta_net_block(*(g.placeholder(k, s) for k, s in shapes.items())).shape
    (1, 5, 8)
    """

    namespace = "nn"
    drawing = "activation"
    eps: float = attr(1e-6, doc="Added to the mean square in the norm.", least=0.0)
    chunk_size: int = attr(32, doc="Steps of a chunk.")

    def infer(
        self,
        x: TensorSpec,
        w_q: TensorSpec,
        w_k: TensorSpec,
        w_v: TensorSpec,
        w_z: TensorSpec,
        w_b: TensorSpec,
        w_a: TensorSpec,
        conv: TensorSpec,
        a_log: TensorSpec,
        dt_bias: TensorSpec,
        norm: TensorSpec,
        w_o: TensorSpec,
    ) -> TensorSpec:
        if x.rank != 3 or w_q.rank != 2 or norm.rank != 1 or a_log.rank != 1 or conv.rank != 3:
            raise ShapeError("x, w_q, norm, a_log or conv has other axes",
                             facts=[f"got {x}, {w_q}, {norm}, {a_log}, {conv}"])  # fmt: skip
        d, heads, of_keys = x.shape[2], a_log.shape[0], w_q.shape[1]
        of_values = heads * norm.shape[0]
        check(
            self,
            [
                ("x", x, x.shape),
                ("w_q", w_q, (d, of_keys)),
                ("w_k", w_k, (d, of_keys)),
                ("w_v", w_v, (d, of_values)),
                ("w_z", w_z, (d, of_values)),
                ("w_b", w_b, (d, heads)),
                ("w_a", w_a, (d, heads)),
                ("conv", conv, (of_keys * 2 + of_values, 1, conv.shape[2])),
                ("dt_bias", dt_bias, (heads,)),
                ("w_o", w_o, (of_values, d)),
            ],
        )
        return x.with_shape(x.shape)

    def expand(self, x: Any, *weights: Any) -> Any:
        w_q, w_k, w_v, w_z, w_b, w_a, conv, a_log, dt_bias, norm, w_o = weights
        batch, steps, _ = x.shape
        heads, width = a_log.shape[0], norm.shape[0]
        ends = (0, w_q.shape[1], w_q.shape[1] * 2, conv.shape[0])
        parts = []
        for w, start, stop in zip((w_q, w_k, w_v), ends, ends[1:], strict=False):
            moved = (x @ w).transpose((0, 2, 1))
            y, _ = CausalConv1d(activation="silu")(moved, conv[start:stop])
            y = y.transpose((0, 2, 1))
            parts.append(y.reshape((batch, steps, heads, w.shape[1] // heads)))
        gate = -Exp()(a_log) * Softplus()(x @ w_a + dt_bias)
        rule = GatedDeltaRule(normalize=True, chunk_size=self.chunk_size)
        y, _ = rule(*parts, gate, Sigmoid()(x @ w_b))
        z = (x @ w_z).reshape((batch, steps, heads, width))
        y = RmsNorm(eps=self.eps)(y, norm) * Silu()(z)
        return y.reshape((batch, steps, heads * width)) @ w_o

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        shapes = (
            *((1, 3, 2), (2, 4), (2, 4), (2, 2), (2, 2), (2, 2), (2, 2)),
            *((10, 1, 2), (2,), (2,), (1,), (2, 2)),
        )
        yield Sample(tuple(rng.standard_normal(s) for s in shapes), {"chunk_size": 2})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        shapes = (
            *((1, 3, 2), (2, 4), (2, 4), (2, 2), (2, 2), (2, 2), (2, 2)),
            *((10, 1, 2), (2,), (2,), (1,), (2, 2)),
        )
        specs = [TensorSpec(s) for s in shapes]
        yield ErrorSample((*specs[:7], TensorSpec((9, 1, 2)), *specs[8:]), {}, "conv does not fit")
        yield ErrorSample((specs[0], specs[8], *specs[2:]), {}, "has other axes")
