"""Forward through time: what x and h make of the gates, then the kernel of a cell.

OpenBLAS multiplies gate by gate, since it does small products without packing their operands, at
97 instead of 80 GF/s (32·128 times 128·128, one core). w and r are transposed once a run.
Clipping, lengths, peepholes and other activations than the usual stay with numpy.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....program.declined import DeclinedError
from ...call import Call
from ..steps import Steps, step
from .cells import Cell
from .layer import PAD, SMALL, Arrays, Layer

Array = np.ndarray[Any, Any]


def bind_layer(op: Any, cell: Cell, xs: Arrays, ys: Sequence[Array]) -> Sequence[Call] | None:
    """Return the calls of a recurrent layer on these arrays; None: numpy has to."""
    if not all(x is None or x.size for x in (*xs, *ys)):
        return None
    steps = Steps([*xs, *ys])
    try:
        layer = Layer(op, cell, steps, xs, ys)
        ways = [
            functools.partial(_sweep, layer, d, order, _weights(layer, d), layer.biases(d))
            for d, order in enumerate(op.orders(layer.n_steps))
        ]
        layer.run("forward", ways)
    except DeclinedError:
        return None
    return steps.calls


def _weights(layer: Layer, d: int) -> list[Array]:
    """Return w and r, transposed for each gate."""
    pad = PAD if layer.is_ours else 0
    return [layer.steps.copied(layer.weight(k, d).swapaxes(1, 2), pad) for k in "wr"]


def _ahead(layer: Layer) -> int:
    """Return how many steps are multiplied with w at once: few, so that they stay in cache."""
    if layer.is_ours:
        return 1
    if layer.is_whole:
        return layer.n_steps
    is_small = 32 * layer.x.shape[2] * layer.size <= SMALL
    rows = 32 if is_small else 256
    return max(1, rows // layer.n_batch)


def _sweep(
    whole: Layer,
    d: int,
    order: range,
    weights: Sequence[Array],
    biases: Mapping[str, Array],
    part: slice,
) -> None:
    """Go through time in one direction, for some rows of the batch."""
    layer, (w, r) = whole.rows(part), weights
    steps, cell, n, gates = layer.steps, layer.cell, layer.cell.n_h, layer.results["gates"][d]
    forward, *reset = (
        step(write, layer.dtype, bool(biases)) for write in (cell.forward, *cell.reset[:1])
    )
    fixed = {**biases, "rh": steps.scratch(layer.shape, layer.dtype)}
    ahead = _ahead(layer)

    def of_x(t: int) -> None:
        """Multiply x with w where a step begins that some others follow."""
        if ahead == 1:
            layer.product(layer.x[t], w, gates[: cell.n_x, t])
        elif (n_done := abs(t - order[0])) % ahead == 0:
            some = order[n_done : n_done + ahead]
            rows = slice(min(some) * layer.n_batch, (max(some) + 1) * layer.n_batch)
            z = gates[: cell.n_x].reshape(cell.n_x, -1, layer.size)
            steps.product(layer.x.reshape(z.shape[1], -1)[rows], w, z[:, rows])

    def at(t: int) -> None:
        of_x(t)
        before = layer.initial(d) if t == order[0] else layer.after(d, t - order.step)
        now = {f"before_{s}": a for s, a in before.items()}
        now |= fixed | layer.saved(d, t) | layer.after(d, t)
        h = before["h"]
        layer.product(h, r[:n], gates[:n, t], adds=True)
        for kernel in reset:
            steps.run(kernel, layer.shape, now)
            layer.product(now["rh"], r[n:], gates[cell.rest, t], adds=True)
        if not reset and n < len(r):
            layer.product(h, r[n:], gates[cell.rest, t])
        steps.run(forward, layer.shape, now)

    at(order[0])
    layer.each(order[1:], at)
    for s, last in layer.after(d, order[-1]).items():
        steps.copy(last, layer.results[s][d])
