"""Back through time: the kernel of a cell, what goes back to h, and in the end to weights and x."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....program.declined import DeclinedError
from ...call import Call
from ..steps import Steps, step
from .cells import Cell
from .layer import PAD, Arrays, Layer, rows_of

Array = np.ndarray[Any, Any]


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
        gradient.fill(layer.by_name(wanted, ys))
    except DeclinedError:
        return None
    return steps.calls


class _Gradient:
    """The way back: cotangents of a layer's results, and of what goes into its gates."""

    def __init__(self, layer: Layer, of_results: Mapping[str, Array]) -> None:
        if not of_results.keys() <= {"y", *layer.op.states}:
            raise DeclinedError
        self.layer, self.of_results = layer, of_results
        rows, size, cell = layer.n_steps * layer.n_batch, layer.size, layer.cell
        self.x = layer.x.reshape(rows, -1)
        """All steps one after the other, [T·B, I]."""
        n = layer.op.n_directions
        self.dz = layer.steps.scratch((n, rows, len(cell.gates), size), layer.dtype)
        self.rh = layer.steps.scratch((n, rows if cell.reset else 0, size), layer.dtype)
        """r⊙h of all steps."""

    def fill(self, into: Mapping[str, Array]) -> None:
        """Write the calls that fill the cotangents of inputs."""
        layer, orders = self.layer, self.layer.op.orders(self.layer.n_steps)
        ways = [
            functools.partial(self._unsweep, d, order, self._weight(d), into)
            for d, order in enumerate(orders)
        ]
        layer.run("backward", ways)
        for d, order in enumerate(orders):
            self._of_weights(d, order, into)
            self._of_x(d, into)

    def _weight(self, d: int) -> Array:
        """Return r, for each gate."""
        r = self.layer.weight("r", d)
        return self.layer.steps.copied(r, PAD) if self.layer.is_ours else r

    def _unsweep(
        self, d: int, order: range, r: Array, into: Mapping[str, Array], part: slice
    ) -> None:
        """Go back through time in one direction; fill dz, and cotangents of the first states."""
        whole, layer = self.layer, self.layer.rows(part)
        steps, cell, states = layer.steps, layer.cell, layer.op.states
        of_results, into = rows_of(self.of_results, part), rows_of(into, part)
        time = whole.n_steps, whole.n_batch
        dz = self.dz[d].reshape(*time, len(cell.gates), layer.size)[:, part]
        rh = self.rh[d].reshape(-1, *whole.shape)[:, part]
        fixed = {f"d{s}": steps.scratch(layer.shape, layer.dtype) for s in (*states, "_rh")}
        for s in states:
            steps.copy(of_results[s][d] if s in of_results else layer.zero, fixed[f"d{s}"])
        of_y = of_results.get("y")
        backward = step(cell.backward, layer.dtype, of_y is not None)
        reset = [step(write, layer.dtype) for write in cell.reset[1:]]
        into_h = [*range(cell.n_h), *range(cell.n_x, len(cell.gates))]

        def at(t: int) -> None:
            before = layer.initial(d) if t == order[0] else layer.after(d, t - order.step)
            now = fixed | layer.saved(d, t) | {f"before_{s}": a for s, a in before.items()}
            now |= {f"d_{k}": dz[t, :, n] for n, k in enumerate(cell.gates)}
            now |= {s: a for s, a in layer.after(d, t).items() if s != "h"}
            if of_y is not None:
                now["dy"] = of_y[t, d]
            steps.run(backward, layer.shape, now)
            for kernel in reset:
                layer.product(dz[t, :, cell.n_h], r[cell.n_h], now["d_rh"])
                steps.run(kernel, layer.shape, {**now, "rh": rh[t]})
            for n, gate in enumerate(into_h):
                layer.product(dz[t, :, gate], r[n], now["dh"], adds=n > 0 or cell.carries)

        layer.each(order[:0:-1], at)
        at(order[0])
        for s in states:
            if f"initial_{s}" in into:
                steps.copy(fixed[f"d{s}"], into[f"initial_{s}"][d])

    def _of_weights(self, d: int, order: range, into: Mapping[str, Array]) -> None:
        """Fill the cotangents of w, r and b in one direction."""
        layer, dz, rh = self.layer, self.dz[d], self.rh[d]
        steps, n_x, n_h, rest = layer.steps, layer.cell.n_x, layer.cell.n_h, layer.cell.rest
        if "w" in into:
            steps.product(_matrix(dz[:, :n_x]).T, self.x, into["w"][d])
        if "r" in into:
            border = n_h * layer.size
            first, last = into["r"][d][:border], into["r"][d][border:]
            for k, (dg, h) in enumerate(self._with_h(d, order)):
                steps.product(_matrix(dg[:, :n_h]).T, h, first, adds=k > 0)
                if len(last) and not len(rh):
                    steps.product(_matrix(dg[:, rest]).T, h, last, adds=k > 0)
            if len(rh):
                steps.product(_matrix(dz[:, rest]).T, rh, last)
        if "b" in into:
            sums = steps.scratch(dz.shape[1:], dz.dtype)
            steps.sum(_matrix(dz), sums.reshape(1, -1))
            of_w, of_r = into["b"][d].reshape(2, n_x, layer.size)
            steps.copy(sums[:n_x], of_w)
            steps.copy(sums[:n_h], of_r[:n_h])
            if n_h < n_x:
                steps.copy(sums[rest], of_r[n_h:])

    def _of_x(self, d: int, into: Mapping[str, Array]) -> None:
        """Add what one direction makes to the cotangent of x."""
        if "x" not in into:
            return
        layer, dx = self.layer, into["x"]
        is_last = d == layer.op.n_directions - 1
        if d == 0:
            is_dense = dx.flags.c_contiguous
            self.dx = dx if is_dense else layer.steps.scratch(dx.shape, layer.dtype)
        w = layer.weight("w", d).reshape(-1, self.x.shape[1])
        of_gates = _matrix(self.dz[d, :, : layer.cell.n_x])
        layer.steps.product(of_gates, w, self.dx.reshape(self.x.shape), adds=d > 0)
        if is_last and self.dx is not dx:
            layer.steps.copy(self.dx, dx)

    def _with_h(self, d: int, order: range) -> list[tuple[Array, Array]]:
        """Return parts of dz [T·B, G, H], and h before each of their steps, [T·B, H]."""
        layer, n, dz = self.layer, self.layer.n_batch, self.dz[d]
        h = layer.steps.dense(layer.results["y"][:, d]).reshape(-1, layer.size)
        forwards = order.step > 0
        first, rest = (dz[:n], dz[n:]) if forwards else (dz[-n:], dz[:-n])
        pairs = [(rest, h[:-n] if forwards else h[n:])] if len(rest) else []
        if "initial_h" in layer.given or not pairs:
            pairs.append((first, layer.initial(d)["h"]))
        return pairs


def _matrix(gates: Array) -> Array:
    """Return [N, G, H] as [N, G·H]."""
    return gates.reshape(len(gates), -1)
