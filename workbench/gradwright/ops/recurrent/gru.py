"""Gated recurrent units: the cell and the layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...op import ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec
from ..core.joining import Stack
from ..core.movement import alike
from ..numerics.products import product
from .activations import Activation, activations
from .arrays import Array, Arrays, Cotangents, gates_of
from .layer import RecurrentLayer
from .rnn import clipped, of_weights


def step(
    f: Sequence[Activation], clip: float | None, after: bool, x: Any, h: Any, weights: Sequence[Any]
) -> tuple[Any, Any]:
    """Return h, and the gates z, r, n and h's part of n (0 unless ``after``), as graph."""
    w, r, b = weights
    size = h.shape[-1]
    zx, of_h = x @ w.T, h @ r[: 2 * size].T
    if b is not None:
        zx, of_h = zx + b[: 3 * size], of_h + b[3 * size : 5 * size]
    both = f[0].build(clipped(zx[:, : 2 * size] + of_h, clip))
    z, reset = both[:, :size], both[:, size:]
    part = (h if after else reset * h) @ r[2 * size :].T
    if b is not None:
        part = part + b[5 * size :]
    n = f[1].build(clipped(zx[:, 2 * size :] + (reset * part if after else part), clip))
    saved = [z, reset, n, *([part] if after else [])]
    return (1.0 - z) * n + z * h, Stack(axis=0)(*saved)


class GruCell(Op):
    """One step of gated recurrent units (Cho et al. 2014).

    z, r = σ(x wᵀ + h rᵀ + b_w + b_r), n = tanh(x wᵀ + (r⊙h) rᵀ + …), h' = (1 − z)⊙n + z⊙h

    x: f32[B, I], h: f32[B, H], w: f32[3·H, I], r: f32[3·H, H] with the blocks z, r, n, b: f32[6·H].
    With ``linear_before_reset`` n = tanh(x wᵀ + b_w + r⊙(h rᵀ + b_r)), as in cuDNN and torch.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> h, w = g.constant([[1.0]]), g.constant([[0.0]] * 3)
    >>> g.output({}, gw.rnn.gru_cell(h, h, w, w, name="h"))["h"].tolist()
    [[0.5]]
    """

    namespace = "rnn"
    linear_before_reset: bool = attr(False, doc="Apply r to the product with h, not to h.")
    activations: tuple[str, ...] = attr(
        ("sigmoid", "tanh"), doc="Functions of the gates and of n, by ONNX name."
    )
    activation_alpha: tuple[float, ...] = attr((), doc="α of those that have one, in order.")
    activation_beta: tuple[float, ...] = attr((), doc="β of those that have one, in order.")
    clip: float | None = attr(None, doc="Largest size of what goes into an activation.")

    def expand(self, x: Any, h: Any, w: Any, r: Any, b: Any = None) -> Any:
        f = activations(self.activations, self.activation_alpha, self.activation_beta)
        x, h, w, r, b = alike(x, h, w, r, b)
        return step(f, self.clip, self.linear_before_reset, x, h, (w, r, b))[0]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        shapes = (2, 3), (2, 2), (6, 3), (6, 2), (12,)
        xs = tuple(rng.standard_normal(s) for s in shapes)
        yield Sample(xs[:4])
        yield Sample(xs, {"clip": 0.7, "linear_before_reset": True})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        shapes = (2, 4), (2, 2), (6, 3), (6, 2)
        yield ErrorSample(tuple(map(TensorSpec, shapes)), {}, "inner dimensions differ")


class Gru(RecurrentLayer):
    """Gated recurrent units of one direction or two (Cho et al. 2014).

    torch has ``linear_before_reset=True``, and the blocks in the order r, z, n.

    z, r = σ(x_t wᵀ + h_{t-1} rᵀ + b_w + b_r), n = tanh(x_t wᵀ + (r⊙h_{t-1}) rᵀ + …),
    h_t = (1 − z)⊙n + z⊙h_{t-1}

    x: f32[T, B, I], w: f32[D, 3·H, I], r: f32[D, 3·H, H] with the blocks z, r, n; b: f32[D, 6·H],
    lengths: i32[B], initial_h: f32[D, B, H] -> y: f32[T, D, B, H] and the last h:
    f32[D, B, H]. With ``linear_before_reset`` n = tanh(x_t wᵀ + b_w + r⊙(h_{t-1} rᵀ + b_r)), as in
    cuDNN and torch. D is 2 for bidirectional; ``layout=1`` moves the batch to the front of x, y and
    h. Past the end of a sequence y is 0 and h stays. Raises ShapeError where these differ
    (ONNX GRU-22).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", "T", 3))
    >>> y, h = gw.rnn.gru(x, g.variable("w", (2, 6, 3)), g.variable("r", (2, 6, 2)),
    ...                   direction="bidirectional", layout=1)
    >>> y.shape, h.shape
    ((B, T, 2, 2), (B, 2, 2))
    """

    returns = "y", "last_h"
    n_public = 2
    n_gates = 3
    functions = ("sigmoid", "tanh")
    linear_before_reset: bool = attr(False, doc="Apply r to the product with h, not to h.")
    onnx = OnnxRule("GRU", since=14)

    def saved(self) -> tuple[tuple[int, ...], ...]:
        """Return what stands before [T, B, H]: gates, and h's part of n."""
        return ((4 if self.linear_before_reset else 3,),)

    def sweep(self, layer: Arrays, d: int, y: Array, saved: Sequence[Array]) -> Sequence[Array]:
        gate, squash = self.chosen()[d]
        h, after, clip = layer.initial[0][d], self.linear_before_reset, self.clip
        n = h.shape[1]
        # Gates lie one after the other, not side by side: a step's are whole blocks of memory.
        z = layer.projected(d, saved[0][:3], apart=int(after))
        r = gates_of(layer.r[d], 3).swapaxes(1, 2).copy()
        bias = layer.b[d, 5 * n :] if after and layer.b is not None else None
        product = np.empty((2, *h.shape), h.dtype)
        for t in self.orders(layer.n_steps)[d]:
            new, fresh = z[:2, t], z[2, t]
            new += np.matmul(h, r[:2], out=product)
            if clip is not None:
                np.clip(new, -clip, clip, out=new)
            gate.apply(new)
            if after:
                part = np.matmul(h, r[2], out=saved[0][3, t])
                if bias is not None:
                    part += bias
                fresh += new[1] * part
            else:
                fresh += (new[1] * h) @ r[2]
            if clip is not None:
                np.clip(fresh, -clip, clip, out=fresh)
            squash.apply(fresh)
            hidden = h - fresh
            hidden *= new[0]
            hidden += fresh
            if layer.valid is None:
                h = y[t] = hidden
            else:
                h = np.where(layer.valid[t], hidden, h)
                saved[0][:, t] *= layer.valid[t]
                y[t] = hidden * layer.valid[t]
        return (h,)

    def unsweep(
        self, layer: Arrays, d: int, y: Array, saved: Sequence[Array], g: Cotangents
    ) -> dict[str, Array]:
        gate, squash = self.chosen()[d]
        order, r = self.orders(layer.n_steps)[d], gates_of(layer.r[d], 3)
        after = self.linear_before_reset
        gates, valid, of_gates = saved[0], layer.valid, g.saved[0]
        y = y.astype(layer.dtype, copy=False)
        before = layer.before(d, order, y, layer.initial[0][d])
        unclipped = None if self.clip is None else self._unclipped(layer, d, before, gates)
        dz = np.empty_like(gates[:3])
        dr = np.empty_like(dz) if after else dz
        dh = g.last[0]
        for t in reversed(order):
            of_h, into, last = dh + g.y[t], dz[:, t], before[t]
            z, reset, fresh = gates[:3, t]
            rest = squash.slope(fresh)

            def finish(k: int, slope: Array, t: int = t, into: Array = into) -> Array:
                """Go from a gate to what goes into it."""
                if of_gates is not None:
                    into[k] += of_gates[k, t]
                into[k] *= slope
                if unclipped is not None:
                    into[k] *= unclipped[k, t]
                if valid is not None:
                    into[k] *= valid[t]
                return into[k]  # type: ignore[no-any-return]

            np.multiply(of_h, 1 - z, out=into[2])
            new = finish(2, rest)
            np.multiply(of_h, last - fresh, out=into[0])
            finish(0, gate.slope(z))
            through = new if after else new @ r[2]  # the cotangent of what r is applied to
            np.multiply(through, gates[3, t] if after else last, out=into[1])
            finish(1, gate.slope(reset))
            dh = of_h * (z if valid is None else np.where(valid[t], z, 1))
            if after:
                dr[:2, t] = into[:2]
                of_part = np.multiply(new, reset, out=dr[2, t])
                if of_gates is not None:
                    of_part += of_gates[3, t] if valid is None else of_gates[3, t] * valid[t]
                dh += np.matmul(dr[:, t], r).sum(0)
            else:
                dh += through * reset
                dh += np.matmul(into[:2], r[:2]).sum(0)
        found = of_weights(layer, d, dz, dr, before)
        if not after:
            n = r.shape[2]
            rows = layer.n_steps * layer.n_batch, n
            kept = (gates[1] * before).reshape(rows)
            found["r"][2 * n :] = product(dz[2].reshape(rows).T, kept)
        return {**found, "initial_h": dh}

    def _unclipped(self, layer: Arrays, d: int, before: Array, gates: Array) -> Array:
        """Return which numbers went into the gates as they were."""
        after, r = self.linear_before_reset, gates_of(layer.r[d], 3).swapaxes(1, 2)
        raw = layer.projected(d, np.empty_like(gates[:3]), apart=int(after))
        raw[:2] += before @ r[:2, None]
        raw[2] += gates[1] * gates[3] if after else (gates[1] * before) @ r[2]
        found: Array = np.abs(raw) <= self.clip
        return found

    def cell(
        self, x: Any, states: Sequence[Any], weights: Sequence[Any], more: Sequence[Any], d: int
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        h, saved = step(
            self.chosen()[d], self.clip, self.linear_before_reset, x, states[0], weights
        )
        return [h], [saved]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield cls.sample(rng)
        given = "b", "initial_h"
        yield cls.sample(rng, *given, direction="bidirectional", lengths=[2, 0])
        attrs = {"clip": 0.7, "direction": "reverse", "layout": 1, "linear_before_reset": True}
        yield cls.sample(rng, *given, lengths=[3, 1], **attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        x, w, r = TensorSpec((3, 1, 2)), TensorSpec((1, 6, 2)), TensorSpec((1, 6, 2))
        yield ErrorSample((x, w, r, TensorSpec((1, 6))), {}, "b does not fit")
