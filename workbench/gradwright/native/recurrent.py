"""Recurrent layers as machine code: for each step of time products, and one kernel for its cell.

    forward    z = x wᵀ for all steps;  then per step  z_t += h rᵀ,  cell: gates in place, h
    backward   per step  cell: dz_t,  dh = dz_t r;  then dw = dzᵀ x,  dr = dzᵀ h,  dx = dz w

A step multiplies gate by gate: OpenBLAS multiplies matrices of up to 10⁶ multiplications without
packing them, at 97 instead of 80 GF/s (32·128 times 128·128, one core). For that r is transposed
once a run. Clipping, lengths, peepholes and other activations than the usual stay with numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..fuse.builder import Term, call
from ..lowering import Call
from .steps import DeclinedError, Load, Steps, step

Array = np.ndarray[Any, Any]
Arrays = Sequence[Array | None]
Terms = dict[str, Term]


# -- cells ----------------------------------------------------------------------------------------


def _gate(load: Load, name: str, *, biased: bool) -> Term:
    """Return what goes into a gate."""
    z = load(name)
    return z + (load(f"bw_{name}", 1) + load(f"br_{name}", 1)) if biased else z


def _of_h(load: Load, of_y: bool) -> Term:
    """Return the cotangent of a step's h."""
    return load("dh") + load("dy") if of_y else load("dh")


def _lstm(load: Load, biased: bool) -> Terms:
    i, o, f = (call("sigmoid", _gate(load, k, biased=biased)) for k in "iof")
    g = call("tanh", _gate(load, "g", biased=biased))
    c = f * load("before_c") + i * g
    return {"i": i, "o": o, "f": f, "g": g, "c": c, "h": o * call("tanh", c)}


def _lstm_grad(load: Load, of_y: bool) -> Terms:
    i, o, f, g, dh = *map(load, "iofg"), _of_h(load, of_y)
    shown = call("tanh", load("c"))
    dc = dh * o * (1 - shown * shown) + load("dc")
    return {
        "d_i": dc * g * (i * (1 - i)),
        "d_o": dh * shown * (o * (1 - o)),
        "d_f": dc * load("before_c") * (f * (1 - f)),
        "d_g": dc * i * (1 - g * g),
        "dc": dc * f,
    }


def _rnn(load: Load, biased: bool) -> Terms:
    h = call("tanh", _gate(load, "n", biased=biased))
    return {"n": h, "h": h}


def _rnn_grad(load: Load, of_y: bool) -> Terms:
    h = load("n")
    return {"d_n": _of_h(load, of_y) * (1 - h * h)}


def _gru(load: Load, biased: bool) -> Terms:
    """After the reset gate was applied to the product with h."""
    z, r = (call("sigmoid", _gate(load, k, biased=biased)) for k in "zr")
    n, part = load("n"), load("p")
    if biased:
        n, part = n + load("bw_n", 1), part + load("br_n", 1)
    n = call("tanh", n + r * part)
    return {"z": z, "r": r, "n": n, "p": part, "h": (load("before_h") - n) * z + n}


def _gru_grad(load: Load, of_y: bool) -> Terms:
    z, r, n, dh = *map(load, "zrn"), _of_h(load, of_y)
    dn = dh * (1 - z) * (1 - n * n)
    return {
        "d_z": dh * (load("before_h") - n) * (z * (1 - z)),
        "d_r": dn * load("p") * (r * (1 - r)),
        "d_n": dn,
        "d_p": dn * r,
        "dh": dh * z,
    }


@dataclass(frozen=True)
class Cell:
    """A cell: its gates as they are saved, and kernels forward and backward.

    ``of_x`` and ``of_h`` are the gates that products with x and h go into, in the order of the
    weights; ``carries`` tells whether h also goes to the next step by itself.
    """

    gates: str
    of_x: str
    of_h: str
    forward: Callable[..., Terms]
    backward: Callable[..., Terms]
    carries: bool = False

    @property
    def n_both(self) -> int:
        """Return how many gates both products go into; they come first."""
        return sum(a == b for a, b in zip(self.of_x, self.of_h, strict=True))


CELLS = {
    "lstm": Cell("iofg", "iofg", "iofg", _lstm, _lstm_grad),
    "rnn": Cell("n", "n", "n", _rnn, _rnn_grad),
    "gru": Cell("zrnp", "zrn", "zrp", _gru, _gru_grad, carries=True),
}


def cell_of(op: Any) -> Cell | None:
    """Return the cell of a layer, if it is a plain one."""
    names = op.activations or op.functions * op.n_directions
    is_usual = tuple(map(str.lower, names)) == op.functions * op.n_directions
    changed = op.clip is not None or getattr(op, "input_forget", False)
    if not is_usual or changed or not getattr(op, "linear_before_reset", True):
        return None
    return CELLS.get(op.name)


# -- layers ---------------------------------------------------------------------------------------


class Layer:
    """Arrays of a layer, time first, by name: one for each of its inputs and results."""

    def __init__(self, op: Any, cell: Cell, steps: Steps, given: Arrays, results: Arrays) -> None:
        self.op, self.cell, self.steps = op, cell, steps
        names = [p.name for p in type(op).inputs]
        self.given = self.by_name(names, given)
        if "lengths" in self.given or "p" in self.given:
            raise DeclinedError
        found = self.results = self.by_name(self.result_names, results)
        self.n_steps, _, *self.rows = found["y"].shape
        self.n_batch, self.size = self.rows
        self.dtype = found["y"].dtype
        self.shape = self.n_batch, self.size
        self.x = steps.dense(self.given["x"]).reshape(self.n_steps * self.n_batch, -1)
        self.zero = steps.scratch(self.shape, self.dtype)

    @property
    def result_names(self) -> list[str]:
        """Return the names of the results."""
        states = self.op.states
        return ["y", *states, "gates", *(f"all_{s}" for s in states[1:])]

    def by_name(self, names: Sequence[str], arrays: Arrays) -> dict[str, Array]:
        """Return arrays by name, where they are given, time first."""
        found = {k: a for k, a in zip(names, arrays, strict=False) if a is not None}
        for name in found if self.op.layout else ():
            if name == "x" or name in self.op.states or name.startswith("initial"):
                found[name] = found[name].swapaxes(0, 1)
            elif name == "y":
                found[name] = found[name].transpose(1, 2, 0, 3)
        return found

    def initial(self, d: int) -> dict[str, Array]:
        """Return the states before the first step."""
        names = {s: f"initial_{s}" for s in self.op.states}
        return {s: self.given[k][d] if k in self.given else self.zero for s, k in names.items()}

    def weight(self, name: str, d: int) -> Array:
        """Return the blocks of a weight, [G, H, …]."""
        w: Array = self.steps.dense(self.given[name])[d]
        return w.reshape(len(w) // self.size, self.size, w.shape[1])

    def biases(self, d: int) -> dict[str, Array]:
        """Return the biases of the gates by name."""
        if "b" not in self.given:
            return {}
        parts = self.given["b"][d].reshape(2, -1, self.size)
        cell = self.cell
        return {
            f"b{kind}_{'n' if gate == 'p' else gate}": part[None]
            for kind, gates, of_gates in zip("wr", (cell.of_x, cell.of_h), parts, strict=True)
            for gate, part in zip(gates, of_gates, strict=True)
        }

    def saved(self, d: int) -> dict[str, Array]:
        """Return the gates of all steps by name, [T, B, H] each."""
        return dict(zip(self.cell.gates, self.results["gates"][d], strict=True))


def bind_layer(op: Any, cell: Cell, xs: Arrays, ys: Sequence[Array]) -> Sequence[Call] | None:
    """Return the calls of a recurrent layer on these arrays; None: numpy has to."""
    if not all(x is None or x.size for x in (*xs, *ys)):
        return None
    steps = Steps([*xs, *ys])
    try:
        layer = Layer(op, cell, steps, xs, ys)
        for d, order in enumerate(op.orders(layer.n_steps)):
            _sweep(layer, d, order)
    except DeclinedError:
        return None
    return steps.calls


def _sweep(layer: Layer, d: int, order: range) -> None:
    """Go through time in one direction."""
    steps, cell, n = layer.steps, layer.cell, len(layer.cell.of_x)
    made, gates = layer.results, layer.saved(d)
    r = layer.weight("r", d)
    turned = steps.scratch(r.shape, r.dtype)
    steps.copy(r.swapaxes(1, 2), turned)
    all_gates = made["gates"][d]
    of_x = all_gates[:n].reshape(n, len(layer.x), layer.size)
    steps.product(layer.x, layer.weight("w", d).swapaxes(1, 2), of_x)
    biases, states = layer.biases(d), layer.initial(d)
    kernel = step(cell.forward, layer.dtype, bool(biases))
    both = cell.n_both
    for t in order:
        h = states["h"]
        steps.product(h, turned[:both], all_gates[:both, t], adds=True)
        if both < n:
            steps.product(h, turned[both:], all_gates[n:, t])
        before = {f"before_{s}": a for s, a in states.items()}
        states = {"h": made["y"][t, d]}
        states |= {s: made[f"all_{s}"][d, t] for s in layer.op.states[1:]}
        now = {k: a[t] for k, a in gates.items()}
        steps.run(kernel, layer.shape, {**now, **biases, **before, **states})
    for s, last in states.items():
        steps.copy(last, made[s][d])


def bind_grad(
    op: Any, cell: Cell, xs: Arrays, ys: Sequence[Array], wanted: Sequence[str]
) -> Sequence[Call] | None:
    """Return the calls of a layer's gradient with respect to some inputs; None: numpy has to."""
    if not all(x is None or x.size for x in (*xs, *ys)):
        return None
    steps = Steps([*xs, *ys])
    n = op.n_inputs
    m = (len(xs) - n) // 2
    try:
        layer = Layer(op, cell, steps, xs[:n], xs[n : n + m])
        of_results = layer.by_name(layer.result_names, xs[n + m :])
        if not of_results.keys() <= {"y", *op.states}:
            return None
        into = layer.by_name(wanted, ys)
        dz = steps.scratch((*layer.x.shape[:1], len(cell.gates), layer.size), layer.dtype)
        dx = into.get("x")
        if dx is not None:
            dx = dx if dx.flags.c_contiguous else steps.scratch(dx.shape, layer.dtype)
        for d, order in enumerate(op.orders(layer.n_steps)):
            _unsweep(layer, d, order, of_results, dz, into)
            _of_weights(layer, d, order, dz, into)
            if dx is not None:
                w = layer.weight("w", d).reshape(-1, layer.x.shape[1])
                steps.product(
                    _side_by_side(dz[:, : len(cell.of_x)]), w, dx.reshape(layer.x.shape), adds=d > 0
                )
        if dx is not None and dx is not into["x"]:
            steps.copy(dx, into["x"])
    except DeclinedError:
        return None
    return steps.calls


def _unsweep(
    layer: Layer,
    d: int,
    order: range,
    of_results: Mapping[str, Array],
    dz: Array,
    into: Mapping[str, Array],
) -> None:
    """Go back through time in one direction; fill dz [T·B, G, H], and cotangents of the states."""
    steps, cell, made = layer.steps, layer.cell, layer.results
    saved, initial = layer.saved(d), layer.initial(d)
    r = layer.weight("r", d)
    rows = dz.reshape(layer.n_steps, layer.n_batch, *dz.shape[1:])
    states = layer.op.states
    home = {s: steps.scratch(layer.shape, layer.dtype) for s in states}
    for s in states:
        steps.copy(of_results[s][d] if s in of_results else layer.zero, home[s])
    of_y = of_results.get("y")
    kernel = step(cell.backward, layer.dtype, of_y is not None)
    for t in reversed(order):
        of_gates = {f"d_{k}": rows[t, :, n] for n, k in enumerate(cell.gates)}
        if t == order[0]:
            before = initial
        else:
            before = {"h": made["y"][t - order.step, d]}
            before |= {s: made[f"all_{s}"][d, t - order.step] for s in states[1:]}
        now = {k: a[t] for k, a in saved.items()} | {f"before_{s}": a for s, a in before.items()}
        now |= {s: made[f"all_{s}"][d, t] for s in states[1:]}
        now |= {f"d{s}": a for s, a in home.items()}
        if of_y is not None:
            now["dy"] = of_y[t, d]
        steps.run(kernel, layer.shape, {**now, **of_gates})
        for n, gate in enumerate(cell.of_h):
            dg = of_gates[f"d_{gate}"]
            steps.product(dg, r[n], home["h"], adds=n > 0 or cell.carries)
    for s in states:
        if f"initial_{s}" in into:
            steps.copy(home[s], into[f"initial_{s}"][d])


def _of_weights(layer: Layer, d: int, order: range, dz: Array, into: Mapping[str, Array]) -> None:
    """Fill the cotangents of w, r and b in one direction."""
    steps, cell, n = layer.steps, layer.cell, len(layer.cell.of_x)
    both = cell.n_both
    if "w" in into:
        steps.product(_side_by_side(dz[:, :n]).T, layer.x, into["w"][d])
    if "r" in into:
        after = layer.steps.dense(layer.results["y"][:, d])
        first, rest = (0, slice(1, None)) if order.step > 0 else (-1, slice(0, -1))
        last = slice(0, -1) if order.step > 0 else slice(1, None)
        rows = dz.reshape(layer.n_steps, layer.n_batch, *dz.shape[1:])
        pairs = [(rows[rest], after[last])] if layer.n_steps > 1 else []
        if "initial_h" in layer.given or not pairs:
            pairs.append((rows[first], layer.initial(d)["h"]))
        for k, (dg, h) in enumerate(pairs):
            dg, h = dg.reshape(-1, *dz.shape[1:]), h.reshape(-1, layer.size)
            dr = into["r"][d]
            steps.product(_side_by_side(dg[:, :both]).T, h, dr[: both * layer.size], adds=k > 0)
            if both < n:
                of_rest = _side_by_side(dg[:, n:]).T
                steps.product(of_rest, h, dr[both * layer.size :], adds=k > 0)
    if "b" in into:
        sums = steps.scratch(dz.shape[1:], dz.dtype)
        steps.sum(_side_by_side(dz), sums.reshape(1, -1))
        of_w, of_r = into["b"][d].reshape(2, n, layer.size)
        steps.copy(sums[:n], of_w)
        steps.copy(sums[:both], of_r[:both])
        if both < n:
            steps.copy(sums[n:], of_r[both:])


def _side_by_side(gates: Array) -> Array:
    """Return [N, G, H] as [N, G·H]."""
    return gates.reshape(len(gates), -1)
