"""Recurrent layers as machine code: for each step of time products, and one kernel for its cell.

    forward    per step  z = x wᵀ,  z += h rᵀ,  cell: gates in the place of z, h
    backward   per step  cell: dz,  dh = dz r;  for all steps  dw = dzᵀ x,  dr = dzᵀ h,  dx = dz w

A step multiplies gate by gate: OpenBLAS does small products without packing their operands, at 97
instead of 80 GF/s (32·128 times 128·128, one core). For that w and r are transposed once a run.
Clipping, lengths, peepholes and other activations than the usual stay with numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...program.declined import DeclinedError
from ..call import Call
from .cells import Cell
from .steps import Steps, step

Array = np.ndarray[Any, Any]
Arrays = Sequence[Array | None]
SMALL = 1_000_000
"""Multiplications up to which OpenBLAS packs no operand."""
MAX_STEPS = 4096
"""Each takes 4 kB of addresses and 0.3 ms when a plan is made, forward and back."""


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


def bind_grad(
    op: Any, cell: Cell, xs: Arrays, ys: Sequence[Array], wanted: Sequence[str]
) -> Sequence[Call] | None:
    """Return the calls of a layer's gradient with respect to some inputs; None: numpy has to."""
    if not all(x is None or x.size for x in (*xs, *ys)):
        return None
    steps, n = Steps([*xs, *ys]), op.n_inputs
    m = (len(xs) - n) // 2
    try:
        layer = Layer(op, cell, steps, xs[:n], xs[n : n + m])
        gradient = _Gradient(layer, layer.by_name(layer.names, xs[n + m :]))
        into = layer.by_name(wanted, ys)
        for d, order in enumerate(op.orders(layer.n_steps)):
            gradient.unsweep(d, order, into)
            gradient.of_weights(d, order, into)
            gradient.of_x(d, into)
    except DeclinedError:
        return None
    return steps.calls


class Layer:
    """Arrays of a layer by name: its inputs and results, time first."""

    def __init__(self, op: Any, cell: Cell, steps: Steps, given: Arrays, results: Arrays) -> None:
        self.op, self.cell, self.steps = op, cell, steps
        self.names = ["y", *op.states, "gates", *(f"all_{s}" for s in op.states[1:])]
        self.given = self.by_name([p.name for p in type(op).inputs], given)
        self.results = self.by_name(self.names, results)
        y = self.results["y"]
        self.n_steps, self.dtype = len(y), y.dtype
        if "lengths" in self.given or "p" in self.given or self.n_steps > MAX_STEPS:
            raise DeclinedError
        self.shape: tuple[int, int] = y.shape[2:]
        self.n_batch, self.size = map(int, self.shape)
        self.x = steps.dense(self.given["x"]).reshape(self.n_steps * self.n_batch, -1)
        """All steps one after the other, [T·B, I]."""
        self.zero = steps.scratch(self.shape, self.dtype)

    def by_name(self, names: Sequence[str], arrays: Arrays) -> dict[str, Array]:
        """Return those arrays that are given, time first, states with their direction first."""
        found = {k: a for k, a in zip(names, arrays, strict=False) if a is not None}
        if self.op.layout:
            states = [*self.op.states, *(f"initial_{s}" for s in self.op.states)]
            turned = {k: found[k].swapaxes(0, 1) for k in ("x", *states) if k in found}
            found |= turned
            if "y" in found:
                found["y"] = found["y"].transpose(1, 2, 0, 3)
        return found

    def initial(self, d: int) -> dict[str, Array]:
        """Return the states before the first step."""
        names = {s: f"initial_{s}" for s in self.op.states}
        return {s: self.given[k][d] if k in self.given else self.zero for s, k in names.items()}

    def after(self, d: int, t: int) -> dict[str, Array]:
        """Return the states after a step."""
        rest = {s: self.results[f"all_{s}"][d, t] for s in self.op.states[1:]}
        return {"h": self.results["y"][t, d], **rest}

    def saved(self, d: int, t: int) -> dict[str, Array]:
        """Return the gates of a step."""
        return dict(zip(self.cell.gates, self.results["gates"][d][:, t], strict=True))

    def weight(self, name: str, d: int) -> Array:
        """Return the blocks of a weight, one per gate, [G, H, …]."""
        w: Array = self.steps.dense(self.given[name])[d]
        return w.reshape(len(w) // self.size, self.size, w.shape[1])

    def steps_ahead(self) -> int:
        """Return how many steps are multiplied with w at once: few, so that they stay in cache."""
        is_small = 32 * self.x.shape[1] * self.size <= SMALL
        rows = 32 if is_small else 256
        return max(1, rows // self.n_batch)

    def biases(self, d: int) -> dict[str, Array]:
        """Return the biases of the gates, [1, H] each."""
        if "b" not in self.given:
            return {}
        of_w, of_r = self.steps.dense(self.given["b"])[d].reshape(2, -1, 1, self.size)
        gates = self.cell.gates
        in_r = gates[: self.cell.n_h] + gates[self.cell.rest]
        found = {f"bw_{k}": b for k, b in zip(gates, of_w, strict=False)}
        return found | {f"br_{k}": b for k, b in zip(in_r, of_r, strict=True)}


def _sweep(layer: Layer, d: int, order: range) -> None:
    """Go through time in one direction."""
    steps, cell, n, gates = layer.steps, layer.cell, layer.cell.n_h, layer.results["gates"][d]
    w, r = (steps.copied(layer.weight(k, d).swapaxes(1, 2)) for k in "wr")
    of_x = gates[: cell.n_x].reshape(cell.n_x, len(layer.x), layer.size)
    fixed = layer.biases(d)
    forward, *reset = (
        step(write, layer.dtype, bool(fixed)) for write in (cell.forward, *cell.reset[:1])
    )
    fixed["rh"] = steps.scratch(layer.shape, layer.dtype)
    states = layer.initial(d)
    ahead = layer.steps_ahead()
    for n_done, t in enumerate(order):
        if n_done % ahead == 0:
            part = order[n_done : n_done + ahead]
            rows = slice(min(part) * layer.n_batch, (max(part) + 1) * layer.n_batch)
            steps.product(layer.x[rows], w, of_x[:, rows])
        h = states["h"]
        now = {f"before_{s}": a for s, a in states.items()}
        states = layer.after(d, t)
        now |= fixed | layer.saved(d, t) | states
        steps.product(h, r[:n], gates[:n, t], adds=True)
        for kernel in reset:
            steps.run(kernel, layer.shape, now)
            steps.product(now["rh"], r[n:], gates[cell.rest, t], adds=True)
        if not reset and n < len(r):
            steps.product(h, r[n:], gates[cell.rest, t])
        steps.run(forward, layer.shape, now)
    for s, last in states.items():
        steps.copy(last, layer.results[s][d])


class _Gradient:
    """The way back: cotangents of a layer's results, and of what goes into its gates."""

    def __init__(self, layer: Layer, of_results: Mapping[str, Array]) -> None:
        if not of_results.keys() <= {"y", *layer.op.states}:
            raise DeclinedError
        self.layer, self.of_results = layer, of_results
        rows, size, cell = len(layer.x), layer.size, layer.cell
        self.dz = layer.steps.scratch((rows, len(cell.gates), size), layer.dtype)
        self.rh = layer.steps.scratch((rows if cell.reset else 0, size), layer.dtype)
        """r⊙h of all steps."""

    def unsweep(self, d: int, order: range, into: Mapping[str, Array]) -> None:
        """Go back through time in one direction; fill dz, and cotangents of the first states."""
        layer = self.layer
        steps, cell, states = layer.steps, layer.cell, layer.op.states
        r = layer.weight("r", d)
        dz = self.dz.reshape(layer.n_steps, layer.n_batch, *self.dz.shape[1:])
        rh = self.rh.reshape(-1, *layer.shape)
        fixed = {f"d{s}": steps.scratch(layer.shape, layer.dtype) for s in (*states, "_rh")}
        for s in states:
            of_last = self.of_results[s][d] if s in self.of_results else layer.zero
            steps.copy(of_last, fixed[f"d{s}"])
        of_y = self.of_results.get("y")
        backward = step(cell.backward, layer.dtype, of_y is not None)
        reset = [step(write, layer.dtype) for write in cell.reset[1:]]
        into_h = [*range(cell.n_h), *range(cell.n_x, len(cell.gates))]
        for t in reversed(order):
            before = layer.initial(d) if t == order[0] else layer.after(d, t - order.step)
            now = fixed | layer.saved(d, t) | {f"before_{s}": a for s, a in before.items()}
            now |= {f"d_{k}": dz[t, :, n] for n, k in enumerate(cell.gates)}
            now |= {s: a for s, a in layer.after(d, t).items() if s != "h"}
            if of_y is not None:
                now["dy"] = of_y[t, d]
            steps.run(backward, layer.shape, now)
            for kernel in reset:
                steps.product(dz[t, :, cell.n_h], r[cell.n_h], now["d_rh"])
                steps.run(kernel, layer.shape, {**now, "rh": rh[t]})
            for n, gate in enumerate(into_h):
                steps.product(dz[t, :, gate], r[n], now["dh"], adds=n > 0 or cell.carries)
        for s in states:
            if f"initial_{s}" in into:
                steps.copy(fixed[f"d{s}"], into[f"initial_{s}"][d])

    def of_weights(self, d: int, order: range, into: Mapping[str, Array]) -> None:
        """Fill the cotangents of w, r and b in one direction."""
        layer, dz = self.layer, self.dz
        steps, n_x, n_h, rest = layer.steps, layer.cell.n_x, layer.cell.n_h, layer.cell.rest
        if "w" in into:
            steps.product(_matrix(dz[:, :n_x]).T, layer.x, into["w"][d])
        if "r" in into:
            border = n_h * layer.size
            first, last = into["r"][d][:border], into["r"][d][border:]
            for k, (dg, h) in enumerate(self._with_h(d, order)):
                steps.product(_matrix(dg[:, :n_h]).T, h, first, adds=k > 0)
                if len(last) and not len(self.rh):
                    steps.product(_matrix(dg[:, rest]).T, h, last, adds=k > 0)
            if len(self.rh):
                steps.product(_matrix(dz[:, rest]).T, self.rh, last)
        if "b" in into:
            sums = steps.scratch(dz.shape[1:], dz.dtype)
            steps.sum(_matrix(dz), sums.reshape(1, -1))
            of_w, of_r = into["b"][d].reshape(2, n_x, layer.size)
            steps.copy(sums[:n_x], of_w)
            steps.copy(sums[:n_h], of_r[:n_h])
            if n_h < n_x:
                steps.copy(sums[rest], of_r[n_h:])

    def of_x(self, d: int, into: Mapping[str, Array]) -> None:
        """Add what one direction makes to the cotangent of x."""
        if "x" not in into:
            return
        layer, dx = self.layer, into["x"]
        is_last = d == layer.op.n_directions - 1
        if d == 0:
            is_dense = dx.flags.c_contiguous
            self.dx = dx if is_dense else layer.steps.scratch(dx.shape, layer.dtype)
        w = layer.weight("w", d).reshape(-1, layer.x.shape[1])
        of_gates = _matrix(self.dz[:, : layer.cell.n_x])
        layer.steps.product(of_gates, w, self.dx.reshape(layer.x.shape), adds=d > 0)
        if is_last and self.dx is not dx:
            layer.steps.copy(self.dx, dx)

    def _with_h(self, d: int, order: range) -> list[tuple[Array, Array]]:
        """Return parts of dz [T·B, G, H], and h before each of their steps, [T·B, H]."""
        layer, n = self.layer, self.layer.n_batch
        h = layer.steps.dense(layer.results["y"][:, d]).reshape(-1, layer.size)
        forwards = order.step > 0
        first, rest = (self.dz[:n], self.dz[n:]) if forwards else (self.dz[-n:], self.dz[:-n])
        pairs = [(rest, h[:-n] if forwards else h[n:])] if len(rest) else []
        if "initial_h" in layer.given or not pairs:
            pairs.append((first, layer.initial(d)["h"]))
        return pairs


def _matrix(gates: Array) -> Array:
    """Return [N, G, H] as [N, G·H]."""
    return gates.reshape(len(gates), -1)
