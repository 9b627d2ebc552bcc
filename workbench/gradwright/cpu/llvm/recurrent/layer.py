"""What both ways through time share: arrays by name, products, and how threads share the work."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....program.declined import DeclinedError
from ...call import Call
from ..repeat import sequence, split
from ..steps import Steps
from ..target import is_wide
from .cells import Cell

Array = np.ndarray[Any, Any]
Arrays = Sequence[Array | None]
Sweep = Callable[[slice], None]
"""Goes through time for some rows of the batch."""
FEW, MOST = 4, 64
"""Rows of a batch whose products are ours: fewer are vectors, for more it pays to pack operands.
32 rows times 128·128 take 0.6 to 1.1, times 512·512 0.7 of OpenBLAS's time, 64 times that 0.9."""
SMALL = 1_000_000
"""Multiplications up to which OpenBLAS packs no operand; in vectors of 256 bits it wins beyond."""
MAX_STEPS = 4096
"""Where steps are not a loop each takes 4 kB of addresses and 0.3 ms when a plan is made."""
ROWS = 4
"""Rows of the batch are cut at multiples."""
PAD = 64
"""Bytes behind a row of weights: rows 1 kB apart would meet in a few places of the cache."""
_WEIGHTS = frozenset("wrbp")
_AXES = {"y": 2, "gates": 3}
"""Where the rows of the batch are; of states second, of all states third."""


class Layer:
    """Arrays of a layer by name: its inputs and results, time first."""

    def __init__(self, op: Any, cell: Cell, steps: Steps, given: Arrays, results: Arrays) -> None:
        self.op, self.cell, self.steps = op, cell, steps
        self.names = ["y", *op.states, "gates", *(f"all_{s}" for s in op.states[1:])]
        self.given = self.by_name([p.name for p in type(op).inputs], given)
        self.results = self.by_name(self.names, results)
        y = self.results["y"]
        self.n_steps, self.dtype = len(y), y.dtype
        self.n_batch, self.size = map(int, y.shape[2:])
        self.x = steps.dense(self.given["x"])
        """[T, B, I]."""
        packs = self.n_batch * self.size * max(self.size, self.x.shape[-1]) > SMALL
        self.is_ours = FEW <= self.n_batch <= MOST and (is_wide() or not packs)
        """Whether products are ours: whose rows have the bits that they would have alone."""
        self.is_whole = self.is_ours or (op.n_directions > 1 and self.n_batch < FEW)
        """Whether a sweep is one call, which loops over time."""
        if "lengths" in self.given or "p" in self.given:
            raise DeclinedError
        if self.n_steps > MAX_STEPS and not self.is_whole:
            raise DeclinedError
        self.zero = steps.scratch(self.shape, self.dtype)

    @property
    def shape(self) -> tuple[int, int]:
        """Return that of a state."""
        return self.n_batch, self.size

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

    def rows(self, part: slice) -> Layer:
        """Return the same of some rows of the batch."""
        some = copy.copy(self)
        some.given, some.results = (rows_of(named, part) for named in (self.given, self.results))
        some.x, some.zero = self.x[:, part], self.zero[part]
        some.n_batch = len(some.zero)
        return some

    # -- what a step reads and writes ------------------------------------------------------------

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

    def biases(self, d: int) -> dict[str, Array]:
        """Return the biases of the gates, [1, H] each."""
        if "b" not in self.given:
            return {}
        of_w, of_r = self.steps.dense(self.given["b"])[d].reshape(2, -1, 1, self.size)
        gates = self.cell.gates
        in_r = gates[: self.cell.n_h] + gates[self.cell.rest]
        found = {f"bw_{k}": b for k, b in zip(gates, of_w, strict=False)}
        return found | {f"br_{k}": b for k, b in zip(in_r, of_r, strict=True)}

    # -- calls -----------------------------------------------------------------------------------

    def product(self, a: Array, b: Array, c: Array, *, adds: bool = False) -> None:
        """Store ``a @ b`` of a step in ``c``, or add it: for one gate, or for each of several."""
        if not self.is_ours:
            self.steps.product(a, b, c, adds=adds)
            return
        for of_b, of_c in [(b, c)] if b.ndim == 2 else zip(b, c, strict=True):
            self.steps.unpacked(a, of_b, of_c, adds=adds)

    def each(self, turns: range, write: Callable[[int], None]) -> None:
        """Add what is written for each of these steps of time."""
        if self.is_whole:
            self.steps.repeat(turns, write)
            return
        for t in turns:
            write(t)

    def run(self, way: str, sweeps: Sequence[Sweep]) -> None:
        """Add the sweeps of all directions: as one call that threads share, or as they come."""
        everything = slice(0, self.n_batch)
        if not self.is_whole:
            for sweep in sweeps:
                sweep(everything)
            return

        def made(units: Sequence[tuple[Sweep, slice]]) -> Call:
            def write() -> None:
                for sweep, rows in units:
                    sweep(rows)

            return sequence(self.steps.apart(write))

        def pieces(n: int) -> list[Call]:
            n_directions = len(sweeps)
            apart = n % n_directions == 0
            n_parts = (n // n_directions if apart else n) if self.is_ours else 1
            ranges = split(range(self.n_batch), n_parts, ROWS)
            parts = [slice(r.start, r.stop) for r in ranges]
            units = [[(sweep, rows) for sweep in sweeps] for rows in parts]
            if apart:
                units = [[unit] for group in units for unit in group]
            return [made(some) for some in units] if len(units) > 1 else []

        width, gates = self.x.shape[2], len(self.cell.gates)
        numbers = self.n_steps * self.n_batch * self.size * gates * len(sweeps)
        sizes = f"{self.n_steps} {self.n_batch} {width} {self.size} {len(sweeps)}"
        self.steps.calls.append(
            replace(
                made([(sweep, everything) for sweep in sweeps]),
                cut=pieces,
                cost=numbers * ((width + self.size) / 50 + 1),
                label=f"{self.op.name} {way} {self.dtype.char} {sizes}",
            )
        )


def rows_of(arrays: Mapping[str, Array], part: slice) -> dict[str, Array]:
    """Return arrays of a layer, by name and time first, for some rows of the batch."""
    found = dict(arrays)
    for name in arrays.keys() - _WEIGHTS:
        axis = _AXES.get(name, 2 if name.startswith("all_") else 1)
        found[name] = arrays[name][(slice(None),) * axis + (part,)]
    return found
