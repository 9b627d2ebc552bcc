"""Long short-term memory: the cell, the layer, and the layer with its gates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...op import Autocast, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec
from ..core.joining import Concat, Stack
from ..core.like import ZerosLike
from ..core.movement import alike
from .activations import Activation, activations
from .arrays import Array, Arrays, Cotangents, gates_of
from .layer import RecurrentLayer
from .rnn import clipped, joined, of_weights


def step(
    f: Sequence[Activation], clip: float | None, coupled: bool, z: Any, c: Any, p: Any
) -> tuple[Any, Any, Any]:
    """Return h, c and the gates i, o, f, g, as graph, from what goes into these."""
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
    return o * f[2].build(clipped(c, clip)), c, Stack(axis=0)(i, o, forget, g)


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
        x, h, c, w, r, b, p = alike(x, h, c, w, r, b, p)
        z = joined(x, h, w, r, b)
        return step(f, self.clip, self.input_forget, z, c, p)[:2]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        shapes = (2, 3), (2, 2), (2, 2), (8, 3), (8, 2), (16,), (6,)
        xs = tuple(rng.standard_normal(s) for s in shapes)
        yield Sample(xs[:5])
        yield Sample(xs, {"clip": 0.7, "input_forget": True})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        shapes = (2, 4), (2, 2), (2, 2), (8, 3), (8, 2)
        yield ErrorSample(tuple(map(TensorSpec, shapes)), {}, "inner dimensions differ")


class Lstm(RecurrentLayer):
    """Long short-term memory of one direction or two (Hochreiter and Schmidhuber 1997).

    i, o, f = σ(x_t wᵀ + h_{t-1} rᵀ + b_w + b_r + p⊙c), g = tanh(…),
    c_t = f⊙c_{t-1} + i⊙g, h_t = o⊙tanh(c_t)

    x: f32[T, B, I], w: f32[D, 4·H, I], r: f32[D, 4·H, H] with the blocks i, o, f, g;
    b: f32[D, 8·H], lengths: i32[B], initial_h, initial_c: f32[D, B, H], and peepholes
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

    returns = "y", "last_h", "last_c"
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
        lengths: TensorSpec | None = None,
        initial_h: TensorSpec | None = None,
        initial_c: TensorSpec | None = None,
        p: TensorSpec | None = None,
    ) -> tuple[TensorSpec, ...]:
        return self.specs(x, w, r, b, lengths, initial_h, initial_c, p)

    def saved(self) -> tuple[tuple[int, ...], ...]:
        """Return what stands before [T, B, H]: four gates, and cells."""
        return (4,), ()

    def sweep(self, layer: Arrays, d: int, y: Array, saved: Sequence[Array]) -> Sequence[Array]:
        gate, squash, out = self.chosen()[d]
        # Gates lie one after the other, not side by side: a step's are whole blocks of memory.
        z, r = layer.projected(d, saved[0]), gates_of(layer.r[d], 4).swapaxes(1, 2).copy()
        h, c = (s[d] for s in layer.initial)
        n, clip = h.shape[1], self.clip
        p = None if layer.p is None else layer.p[d].reshape(3, n)
        product = np.empty((4, *h.shape), h.dtype)
        for t in self.orders(layer.n_steps)[d]:
            new = z[:, t]
            new += np.matmul(h, r, out=product)
            i, o, f, g = new
            if p is not None:
                i += p[0] * c
                f += p[2] * c
            if clip is not None:
                for part in (new,) if p is None else (i, f, g):
                    np.clip(part, -clip, clip, out=part)
            for part in (new[:3],) if p is None else (i, f):
                gate.apply(part)
            squash.apply(g)
            if self.input_forget:
                np.subtract(1, i, out=f)
            cell, hidden = saved[1][t], y[t]
            np.multiply(f, c, out=cell)
            cell += i * g
            if p is not None:
                o += p[1] * cell
                if clip is not None:
                    np.clip(o, -clip, clip, out=o)
                gate.apply(o)
            hidden[...] = cell if clip is None else np.clip(cell, -clip, clip)
            out.apply(hidden)
            hidden *= o
            if layer.valid is None:
                h, c = hidden, cell
            else:
                h, c = (np.where(layer.valid[t], *s) for s in ((hidden, h), (cell, c)))
                cell[...] = c
                hidden *= layer.valid[t]
                new *= layer.valid[t]
        return h, c

    def unsweep(
        self, layer: Arrays, d: int, y: Array, saved: Sequence[Array], g: Cotangents
    ) -> dict[str, Array]:
        gate, squash, out = self.chosen()[d]
        order, r, valid = self.orders(layer.n_steps)[d], gates_of(layer.r[d], 4), layer.valid
        gates, cells = saved
        n, clip = cells.shape[2], self.clip
        h0, c0 = (s[d] for s in layer.initial)
        before = layer.before(d, order, y.astype(layer.dtype, copy=False), h0)
        p = None if layer.p is None else layer.p[d].reshape(3, n)
        unclipped = None if clip is None else self._unclipped(layer, d, before, cells, c0)
        of_gates, of_cells = g.saved
        dz, products = np.empty_like(gates), np.empty_like(gates[:, 0]) if len(cells) else gates
        dh, dc = g.last
        of_p = None if p is None else np.zeros_like(p)
        for t in reversed(order):
            i, o, f, new = gates[:, t]
            cell, last = cells[t], cells[t - order.step] if t != order[0] else c0
            of_h, into = dh + g.y[t], dz[:, t]
            shown = cell.copy() if clip is None else np.clip(cell, -clip, clip)
            out.apply(shown)
            through = out.slope(shown)
            if clip is not None:
                through = through * (np.abs(cell) <= clip)
            # First the cotangents of the gates themselves, then of what goes into them.
            np.multiply(of_h, shown, out=into[1])
            if of_gates is not None:
                into[1] += of_gates[1, t]
            into[1] *= gate.slope(o)
            if unclipped is not None:
                into[1] *= unclipped[1, t]
            if valid is not None:
                into[1] *= valid[t]
                through = through * valid[t]
            of_c = of_h * o
            of_c *= through
            of_c += dc
            if p is not None:
                of_c += into[1] * p[1]
            if of_cells is not None:
                of_c += of_cells[t]
            for k, factor in ((0, new), (2, last), (3, i)):
                np.multiply(of_c, factor, out=into[k])
                if of_gates is not None:
                    into[k] += of_gates[k, t]
            if self.input_forget:
                into[0] -= into[2]
                into[2] = 0
            for k, slope in ((0, gate.slope(i)), (2, gate.slope(f)), (3, squash.slope(new))):
                into[k] *= slope
                if unclipped is not None:
                    into[k] *= unclipped[k, t]
                if valid is not None:
                    into[k] *= valid[t]
            dc = of_c * (f if valid is None else np.where(valid[t], f, 1))
            dh = np.matmul(into, r, out=products).sum(0)
            if p is not None:
                dc += into[0] * p[0] + into[2] * p[2]
                of_p += np.stack([into[0] * last, into[1] * cell, into[2] * last]).sum(1)
            if valid is not None:
                dh += of_h * ~valid[t]
        found = {**of_weights(layer, d, dz, dz, before), "initial_h": dh, "initial_c": dc}
        return found if of_p is None else {**found, "p": of_p.ravel()}

    def _unclipped(self, layer: Arrays, d: int, before: Array, cells: Array, c0: Array) -> Array:
        """Return which numbers went into the gates as they were."""
        raw = layer.projected(d, np.empty((4, *cells.shape), cells.dtype))
        raw += before @ gates_of(layer.r[d], 4).swapaxes(1, 2)[:, None]
        if layer.p is not None:
            p = layer.p[d].reshape(3, cells.shape[2])
            last = layer.before(d, self.orders(layer.n_steps)[d], cells, c0)
            raw[0] += p[0] * last
            raw[1] += p[1] * cells
            raw[2] += p[2] * last
        found: Array = np.abs(raw) <= self.clip
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
    drawing = "linear"
    autocast = Autocast.STATE
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
        i, o, f, g = (gates[k] for k in range(4))
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
