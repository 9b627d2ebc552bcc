"""Gated recurrent units: the cell and the layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...op import ErrorSample, OnnxRule, Op, Sample, attr
from ...ops.joining import Concat
from ...spec import TensorSpec
from .activations import Activation, activations
from .layer import Array, RecurrentLayer, _Arrays, _Cotangents
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
    return (1.0 - z) * n + z * h, Concat(axis=1)(*saved)


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
        return step(f, self.clip, self.linear_before_reset, x, h, (w, r, b))[0]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        shapes = (2, 3), (2, 2), (6, 3), (6, 2), (12,)
        xs = tuple(rng.standard_normal(s) for s in shapes)
        yield Sample(xs[:4])
        yield Sample(xs, {"clip": 0.7, "linear_before_reset": True})


class Gru(RecurrentLayer):
    """Gated recurrent units of one direction or two (Cho et al. 2014).

    z, r = σ(x_t wᵀ + h_{t-1} rᵀ + b_w + b_r), n = tanh(x_t wᵀ + (r⊙h_{t-1}) rᵀ + …),
    h_t = (1 − z)⊙n + z⊙h_{t-1}

    x: f32[T, B, I], w: f32[D, 3·H, I], r: f32[D, 3·H, H] with the blocks z, r, n; b: f32[D, 6·H],
    sequence_lens: i32[B], initial_h: f32[D, B, H] -> y: f32[T, D, B, H] and the last h:
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

    n_public = 2
    n_gates = 3
    functions = ("sigmoid", "tanh")
    linear_before_reset: bool = attr(False, doc="Apply r to the product with h, not to h.")
    onnx = OnnxRule("GRU", since=14)

    def saved(self, size: Any) -> tuple[Any, ...]:
        """Return the width of the gates, and of h's part of n."""
        return (size * (4 if self.linear_before_reset else 3),)

    def sweep(self, layer: _Arrays, d: int, y: Array, saved: Sequence[Array]) -> Sequence[Array]:
        gate, squash = self.chosen()[d]
        h, after, clip = layer.initial[0][d], self.linear_before_reset, self.clip
        n = h.shape[1]
        z, r, gates = layer.projected(d, apart=n if after else 0), layer.r[d].T.copy(), saved[0]
        of_gates, of_n = r if after else r[:, : 2 * n].copy(), r[:, 2 * n :].copy()
        bias = layer.b[d, 5 * n :] if after and layer.b is not None else None
        for t in self.orders(layer.n_steps)[d]:
            new, product = z[t], h @ of_gates
            both, fresh = new[:, : 2 * n], new[:, 2 * n :]
            both += product[:, : 2 * n]
            if clip is not None:
                np.clip(both, -clip, clip, out=both)
            gate.apply(both)
            if after:
                part = product[:, 2 * n :]
                if bias is not None:
                    part += bias
                gates[t, :, 3 * n :] = part
                fresh += both[:, n:] * part
            else:
                fresh += (both[:, n:] * h) @ of_n
            if clip is not None:
                np.clip(fresh, -clip, clip, out=fresh)
            squash.apply(fresh)
            hidden = h - fresh
            hidden *= both[:, :n]
            hidden += fresh
            gates[t, :, : 3 * n] = new
            if layer.valid is None:
                h = y[t] = hidden
            else:
                gates[t] *= layer.valid[t]
                y[t] = hidden * layer.valid[t]
                h = np.where(layer.valid[t], hidden, h)
        return (h,)

    def unsweep(
        self, layer: _Arrays, d: int, y: Array, saved: Sequence[Array], g: _Cotangents
    ) -> dict[str, Array]:
        gate, squash = self.chosen()[d]
        order, r, after = self.orders(layer.n_steps)[d], layer.r[d], self.linear_before_reset
        gates = saved[0]
        n = r.shape[1]
        z, reset, fresh = (gates[..., k * n : (k + 1) * n] for k in range(3))
        before = layer.before(d, order, y.astype(layer.dtype, copy=False), layer.initial[0][d])
        slopes = np.concatenate(
            [gate.slope(gates[..., : 2 * n]), squash.slope(fresh) * np.ones_like(fresh)], axis=-1
        )
        part = gates[..., 3 * n :]
        if self.clip is not None:
            raw = layer.projected(d, apart=n if after else 0)
            raw[..., : 2 * n] += before @ r[: 2 * n].T
            raw[..., 2 * n :] += reset * part if after else (reset * before) @ r[2 * n :].T
            slopes *= np.abs(raw) <= self.clip
        if layer.valid is not None:
            slopes *= layer.valid
        of_z = (before - fresh) * slopes[..., :n]  # what a change of h does to z's input, ...
        of_n = (1 - z) * slopes[..., 2 * n :]
        of_r = (part if after else before) * slopes[..., n : 2 * n]
        keep = z if layer.valid is None else np.where(layer.valid, z, 1)
        extra, of_part = None, None
        if g.saved[0] is not None:
            extra = g.saved[0][..., : 3 * n] * slopes
            of_part = g.saved[0][..., 3 * n :]
            if layer.valid is not None:
                of_part = of_part * layer.valid
        dz = np.empty_like(slopes)
        dr = np.empty_like(slopes) if after else dz
        r_gates, r_n = r[: 2 * n].copy(), r[2 * n :].copy()
        dh = g.last[0]
        for t in reversed(order):
            of_h, into = dh + g.y[t], dz[t]
            new = np.multiply(of_h, of_n[t], out=into[:, 2 * n :])
            if extra is not None:
                new += extra[t, :, 2 * n :]
            through = new if after else new @ r_n  # the cotangent of what r is applied to
            np.multiply(of_h, of_z[t], out=into[:, :n])
            np.multiply(through, of_r[t], out=into[:, n : 2 * n])
            if extra is not None:
                into[:, : 2 * n] += extra[t, :, : 2 * n]
            dh = of_h * keep[t]
            if after:
                dr[t, :, : 2 * n] = into[:, : 2 * n]
                dr[t, :, 2 * n :] = new * reset[t]
                if of_part is not None:
                    dr[t, :, 2 * n :] += of_part[t]
                dh += dr[t] @ r
            else:
                dh += through * reset[t]
                dh += into[:, : 2 * n] @ r_gates
        found = of_weights(layer, d, dz, dr, before)
        if not after:
            flat = dz[..., 2 * n :].reshape(-1, n)
            found["r"][2 * n :] = flat.T @ (reset * before).reshape(-1, n)
        return {**found, "initial_h": dh}

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
