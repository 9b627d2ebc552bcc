"""Long short-term memory: the cell, the layer, and the layer with its gates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...op import ErrorSample, OnnxRule, Op, Sample, attr
from ...ops.joining import Concat
from ...ops.like import ZerosLike
from ...spec import TensorSpec
from .activations import Activation, activations
from .layer import Array, RecurrentLayer, _Arrays, _Cotangents
from .rnn import clipped, joined, of_weights


def step(
    f: Sequence[Activation], clip: float | None, coupled: bool, z: Any, c: Any, p: Any
) -> tuple[Any, Any, Any]:
    """Return h, c and the gates i, o, f, g side by side, as graph, from what goes into these."""
    n = z.shape[-1] // 4
    i, o, forget, g = (z[:, k * n : (k + 1) * n] for k in range(4))
    if p is not None:
        i, forget = i + p[:n] * c, forget + p[2 * n :] * c
    i = f[0].build(clipped(i, clip))
    forget = 1.0 - i if coupled else f[0].build(clipped(forget, clip))
    g = f[1].build(clipped(g, clip))
    c = forget * c + i * g
    if p is not None:
        o = o + p[n : 2 * n] * c
    o = f[0].build(clipped(o, clip))
    return o * f[2].build(clipped(c, clip)), c, Concat(axis=1)(i, o, forget, g)


class LstmCell(Op):
    """One step of long short-term memory (Hochreiter and Schmidhuber 1997; Gers et al. 2000).

    i, o, f = σ(x wᵀ + h rᵀ + b_w + b_r + p⊙c), g = tanh(…), c' = f⊙c + i⊙g, h' = o⊙tanh(c')

    x: f32[B, I], h, c: f32[B, H], w: f32[4·H, I], r: f32[4·H, H] with the blocks i, o, f, g, and
    b: f32[8·H], p: f32[3·H] (peepholes of i, o, f, where o sees c') -> h', c': f32[B, H].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[0.0]]), g.constant([[0.0]] * 4)
    >>> h, c = gw.rnn.lstm_cell(x, x, x + 1.0, w, w, name="cell")
    >>> g.output({}, c)[c.name].tolist()
    [[0.5]]
    """

    namespace = "rnn"
    activations: tuple[str, ...] = attr(
        ("sigmoid", "tanh", "tanh"), doc="Functions of the gates, of g, of c', by ONNX name."
    )
    activation_alpha: tuple[float, ...] = attr((), doc="α of those that have one, in order.")
    activation_beta: tuple[float, ...] = attr((), doc="β of those that have one, in order.")
    clip: float | None = attr(None, doc="Largest size of what goes into an activation.")
    input_forget: bool = attr(False, doc="Let f be 1 − i.")

    def expand(self, x: Any, h: Any, c: Any, w: Any, r: Any, b: Any = None, p: Any = None) -> Any:
        f = activations(self.activations, self.activation_alpha, self.activation_beta)
        z = joined(x, h, w, r, b)
        return step(f, self.clip, self.input_forget, z, c, p)[:2]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        shapes = (2, 3), (2, 2), (2, 2), (8, 3), (8, 2), (16,), (6,)
        xs = tuple(rng.standard_normal(s) for s in shapes)
        yield Sample(xs[:5])
        yield Sample(xs, {"clip": 0.7, "input_forget": True})


class Lstm(RecurrentLayer):
    """Long short-term memory of one direction or two (Hochreiter and Schmidhuber 1997).

    i, o, f = σ(x_t wᵀ + h_{t-1} rᵀ + b_w + b_r + p⊙c), g = tanh(…),
    c_t = f⊙c_{t-1} + i⊙g, h_t = o⊙tanh(c_t)

    x: f32[T, B, I], w: f32[D, 4·H, I], r: f32[D, 4·H, H] with the blocks i, o, f, g;
    b: f32[D, 8·H], sequence_lens: i32[B], initial_h, initial_c: f32[D, B, H], and peepholes
    p: f32[D, 3·H] of i, o, f, where o sees c_t -> y: f32[T, D, B, H], last h and c: f32[D, B, H].
    D is 2 for bidirectional. ``layout=1`` moves the batch to the front of x, y, h and c. Past the
    end of a sequence y is 0 and the states stay. Raises ShapeError where these differ
    (ONNX LSTM-22).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("T", "B", 3))
    >>> y, h, c = gw.rnn.lstm(x, g.variable("w", (1, 8, 3)), g.variable("r", (1, 8, 2)))
    >>> y.shape, c.shape
    ((T, 1, B, 2), (1, B, 2))
    """

    n_public = 3
    n_gates = 4
    states = ("h", "c")
    functions = ("sigmoid", "tanh", "tanh")
    input_forget: bool = attr(False, doc="Let f be 1 − i.")
    onnx = OnnxRule("LSTM", since=14)

    def infer(
        self,
        x: TensorSpec,
        w: TensorSpec,
        r: TensorSpec,
        b: TensorSpec | None = None,
        sequence_lens: TensorSpec | None = None,
        initial_h: TensorSpec | None = None,
        initial_c: TensorSpec | None = None,
        p: TensorSpec | None = None,
    ) -> tuple[TensorSpec, ...]:
        return self.specs(x, w, r, b, sequence_lens, initial_h, initial_c, p)

    def saved(self, size: Any) -> tuple[Any, ...]:
        """Return the widths of gates and cells."""
        return 4 * size, size

    def sweep(self, layer: _Arrays, d: int, y: Array, saved: Sequence[Array]) -> Sequence[Array]:
        gate, squash, out = self.chosen()[d]
        z, r = layer.projected(d), layer.r[d].T.copy()
        h, c = (s[d] for s in layer.initial)
        n, clip, gates = h.shape[1], self.clip, saved[0]
        p = None if layer.p is None else layer.p[d]
        product = np.empty_like(z[0]) if layer.n_steps else z
        for t in self.orders(layer.n_steps)[d]:
            new = z[t]
            new += np.matmul(h, r, out=product)
            i, o, f, g = (new[:, k * n : (k + 1) * n] for k in range(4))
            if p is not None:
                i += p[:n] * c
                f += p[2 * n :] * c
            if clip is not None:
                np.clip(new, -clip, clip, out=new) if p is None else [
                    np.clip(a, -clip, clip, out=a) for a in (i, f, g)
                ]
            for part in (new[:, : 3 * n],) if p is None else (i, f):
                gate.apply(part)
            squash.apply(g)
            if self.input_forget:
                np.subtract(1, i, out=f)
            cell = f * c
            cell += i * g
            if p is not None:
                o += p[n : 2 * n] * cell
                if clip is not None:
                    np.clip(o, -clip, clip, out=o)
                gate.apply(o)
            hidden = cell.copy() if clip is None else np.clip(cell, -clip, clip)
            out.apply(hidden)
            hidden *= o
            if layer.valid is None:
                h, c, gates[t] = hidden, cell, new
            else:
                h, c = (np.where(layer.valid[t], *s) for s in ((hidden, h), (cell, c)))
                hidden, gates[t] = hidden * layer.valid[t], new * layer.valid[t]
            y[t], saved[1][t] = hidden, c
        return h, c

    def unsweep(
        self, layer: _Arrays, d: int, y: Array, saved: Sequence[Array], g: _Cotangents
    ) -> dict[str, Array]:
        gate, squash, out = self.chosen()[d]
        order, r, valid = self.orders(layer.n_steps)[d], layer.r[d], layer.valid
        gates, cells = saved
        n = cells.shape[2]
        i, o, f, new = (gates[..., k * n : (k + 1) * n] for k in range(4))
        h0, c0 = (s[d] for s in layer.initial)
        h_before = layer.before(d, order, y.astype(layer.dtype, copy=False), h0)
        c_before = layer.before(d, order, cells, c0)
        p = None if layer.p is None else layer.p[d]
        # All that does not depend on cotangents, for all steps at once: the slopes of the gates,
        # and what a change of c (of h for o) does to what goes into them.
        slopes = np.empty_like(gates)
        slopes[..., : 3 * n] = gate.slope(gates[..., : 3 * n])
        slopes[..., 3 * n :] = squash.slope(new)
        shown = cells.copy() if self.clip is None else np.clip(cells, -self.clip, self.clip)
        out.apply(shown)
        through = out.slope(shown) * o
        if self.clip is not None:
            raw = layer.projected(d) + h_before @ r.T
            if p is not None:
                raw[..., :n] += p[:n] * c_before
                raw[..., n : 2 * n] += p[n : 2 * n] * cells
                raw[..., 2 * n : 3 * n] += p[2 * n :] * c_before
            slopes *= np.abs(raw) <= self.clip
            through *= np.abs(cells) <= self.clip
        keep = f
        if valid is not None:
            slopes *= valid
            through *= valid
            keep = np.where(valid, f, 1)
        effect = np.concatenate([new, shown, c_before, i], axis=-1)
        of_gates = g.saved[0]
        if self.input_forget:
            effect[..., :n] -= c_before
            slopes[..., 2 * n : 3 * n] = 0
            if of_gates is not None:
                of_gates = of_gates.copy()
                of_gates[..., :n] -= of_gates[..., 2 * n : 3 * n]
        effect *= slopes
        extra = None if of_gates is None else of_gates * slopes
        dz = np.empty_like(gates)
        dh, dc = g.last
        for t in reversed(order):
            of_h, into, k = dh + g.y[t], dz[t], effect[t]
            of_o = np.multiply(of_h, k[:, n : 2 * n], out=into[:, n : 2 * n])
            if extra is not None:
                of_o += extra[t, :, n : 2 * n]
            of_c = of_h * through[t] + dc
            if p is not None:
                of_c += of_o * p[n : 2 * n]
            if g.saved[1] is not None:
                of_c += g.saved[1][t]
            np.multiply(of_c, k[:, :n], out=into[:, :n])
            np.multiply(of_c, k[:, 2 * n : 3 * n], out=into[:, 2 * n : 3 * n])
            np.multiply(of_c, k[:, 3 * n :], out=into[:, 3 * n :])
            if extra is not None:
                into[:, :n] += extra[t, :, :n]
                into[:, 2 * n :] += extra[t, :, 2 * n :]
            dc = of_c * keep[t]
            if p is not None:
                dc += into[:, :n] * p[:n] + into[:, 2 * n : 3 * n] * p[2 * n :]
            passed = None if valid is None else of_h * ~valid[t]
            dh = into @ r
            if passed is not None:
                dh += passed
        found = {**of_weights(layer, d, dz, dz, h_before), "initial_h": dh, "initial_c": dc}
        if p is not None:
            sources = (c_before, cells, c_before)
            parts = (dz[..., k * n : (k + 1) * n] * s for k, s in enumerate(sources))
            found["p"] = np.concatenate([part.sum((0, 1)) for part in parts])
        return found

    def cell(
        self, x: Any, states: Sequence[Any], weights: Sequence[Any], more: Sequence[Any], d: int
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        w, r, b = weights
        z = joined(x, states[0], w, r, b)
        found = step(self.chosen()[d], self.clip, self.input_forget, z, states[1], more[0])
        return found[:2], [found[2]]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield cls.sample(rng)
        given = "b", "initial_h", "initial_c", "p"
        yield cls.sample(rng, *given, direction="bidirectional", lengths=[2, 0])
        attrs = {"clip": 0.7, "direction": "reverse", "layout": 1, "input_forget": True}
        yield cls.sample(rng, *given, lengths=[3, 1], **attrs)


class LstmBlock(Op):
    """Long short-term memory that also returns its gates and cells at each step.

    As ``lstm`` forwards, without a layout: x: f32[T, B, I], w: f32[4·H, I], r: f32[4·H, H] with the
    blocks i, o, f, g, b: f32[8·H], c and h before the first step: f32[B, H], peepholes p: f32[3·H].
    ``forget_bias`` is added to what goes into f. Results, f32[T, B, H] each: i, c, f, o, g,
    tanh(c), h, in the order of TensorFlow's BlockLSTM.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[0.0]], [[0.0]]]), g.constant([[0.0]] * 4)
    >>> i, c, f, *_ = gw.rnn.lstm_block(x, w, w, forget_bias=0.0, name="block")
    >>> g.output({}, f)[f.name].ravel().tolist()
    [0.5, 0.5]
    """

    namespace = "rnn"
    forget_bias: float = attr(1.0, doc="Added to what goes into the forget gate.")

    def expand(
        self, x: Any, w: Any, r: Any, b: Any = None, h: Any = None, c: Any = None, p: Any = None
    ) -> Any:
        n = r.shape[1]
        rows = ZerosLike()(r[:, 0])
        i_and_o, f = rows[: 2 * n], rows[:n] + self.forget_bias
        shift = Concat(axis=0)(i_and_o, f, rows[:n], rows)
        b = shift if b is None else b + shift
        given = (None if t is None else t.expand_dims(0) for t in (w, r, b, None, h, c, p))
        node = Lstm()(x, *given)[0].node
        y, _, _, gates, cells = node.outputs
        gates, c = gates[0].cast(x.dtype), cells[0].cast(x.dtype)
        i, o, f, g = (gates[..., k * n : (k + 1) * n] for k in range(4))
        return i, c, f, o, g, activations(["tanh"], (), ())[0].build(c), y[:, 0]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        shapes = (3, 1, 2), (8, 2), (8, 2), (16,), (1, 2), (1, 2), (6,)
        xs = tuple(rng.standard_normal(s) for s in shapes)
        yield Sample(xs[:3])
        yield Sample(xs, {"forget_bias": 0.5})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, r = TensorSpec((3, 2, 2)), TensorSpec((4, 1))
        yield ErrorSample((x, TensorSpec((4, 3)), r), {}, "w does not fit")
