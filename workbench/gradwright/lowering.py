"""Lowerings: how an op runs on a device; without one, its numpy ``forward`` is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from .errors import LoweringError
from .op import Op
from .shared import module_lock
from .spec import TensorSpec

Launch = Callable[[Sequence[Any], Sequence[Any]], None]
"""Reads the input arrays, writes the output arrays; called once per run of a plan."""


@dataclass(frozen=True)
class Returning:
    """A launcher that returns its output arrays, for sizes known only when it has run."""

    run: Callable[[Sequence[Any]], Sequence[Any]]


@dataclass(frozen=True)
class Cut:
    """A range of independent work within a call: pieces of it may run at the same time.

    Its ``length`` stands in ``block[slot]``. ``steps`` are pairs (place of an address in the block,
    bytes that it advances for one index); each piece but the last is a multiple of ``grain``, and
    none is shorter than ``least``. ``scratch`` is a place with memory that each piece has for
    itself, and how many bytes. Where pieces may compute other bits than the whole, ``keeps`` tells
    whether those between such indices do not, and ``instead`` how else the call is cut.
    """

    slot: int
    length: int
    steps: Sequence[tuple[int, int]]
    least: int
    grain: int = 1
    scratch: tuple[int, int] | None = None
    keeps: Callable[[Sequence[int]], bool] | None = None
    instead: Cut | None = None


@dataclass(frozen=True)
class Call:
    """Machine code bound to arrays: ``void f(int64_t *block)`` and the block to call it with.

    ``slots`` are pairs (place in the block, operand), inputs counted before outputs: there stands
    an address within that operand, which moves with it. ``held`` is memory that the block names.
    Where the call leaves something in ``alarm``, the op's ``forward`` is run afterwards: it raises.
    ``cut`` says how it may be run in pieces, or makes so many, ``cost`` how many ns it takes,
    about, and ``label`` tells it from calls that take another time.
    """

    address: int
    block: np.ndarray[Any, Any]
    slots: Sequence[tuple[int, int]]
    held: Any = None
    alarm: np.ndarray[Any, Any] | None = None
    cut: Cut | Callable[[int], Sequence[Call]] | None = None
    cost: float = 0.0
    label: Any = None


@dataclass(frozen=True)
class Native:
    """A launcher that becomes machine code when a plan has its kernels.

    ``bind(inputs, outputs)`` returns the calls for these arrays, or None if it cannot take them as
    they lie; it may compile. Before that, and then, ``launch`` runs, or ``forward`` if it is None.
    """

    bind: Callable[[Sequence[Any], Sequence[Any]], Sequence[Call] | None]
    launch: Launch | None = None


Found = Launch | Returning | Native | None
Make = Callable[[Op, Sequence[TensorSpec | None], Sequence[TensorSpec]], Found]
"""Called when a plan is made; returns a launcher, or None to decline these specs."""
MakeT = TypeVar("MakeT", bound=Make)

_registering = module_lock()
_table: dict[tuple[str, str], Make] = {}
"""Packages are loaded on first use, in any thread: who goes through all takes a copy first."""
_loaded: set[str] = {"cpu", "guard"}
_revision = 0


def lowering(op: str, device: str = "cpu") -> Callable[[MakeT], MakeT]:
    """Register how the op called ``op`` runs on ``device``; registering again replaces it.

    >>> import gradwright as gw
    >>> @gw.lowering("cube", device="cpu")
    ... def cube(op, in_specs, out_specs):
    ...     from numpy import power
    ...     return lambda ins, outs: power(ins[0], 3, out=outs[0])
    """

    def decorate(make: MakeT) -> MakeT:
        global _revision
        with _registering:
            _table[op, device] = make
            _revision += 1
        return make

    return decorate


def lowering_revision() -> int:
    """Return a number that grows whenever a lowering is registered; plans depend on it."""
    return _revision


def lowered_ops(device: str) -> list[str]:
    """Return the names of the ops that have a lowering of their own on ``device``."""
    load(device)
    return sorted(name for name, d in list(_table) if d == device)


def replaced_ops(device: str) -> frozenset[str]:
    """Return the names of the ops that run on ``device`` as somebody else has said."""
    return frozenset(
        name
        for (name, d), make in _table.copy().items()
        if d == device and not make.__module__.startswith("gradwright.")
    )


def load(device: str) -> None:
    """Import the packages that offer lowerings for ``device`` by entry point."""
    if device in _loaded:
        return
    import importlib.metadata  # 24 ms, and only for devices of other packages

    entries = importlib.metadata.entry_points(group="gradwright.lowerings", name=device)
    if not entries:
        raise LoweringError(
            f"no package offers the device {device!r}", need="'cpu', 'guard' or an installed device"
        )
    for entry in entries:
        entry.load()
    _loaded.add(device)


def find_launch(
    op: Op, device: str, ins: Sequence[TensorSpec | None], outs: Sequence[TensorSpec]
) -> Found:
    """Return the launcher for an op on these specs, if there is one."""
    make = _table.get((op.name, device))
    if make is not None and (launch := make(op, ins, outs)) is not None:
        return launch
    return _ufunc(op, ins, outs) if device in ("cpu", "guard") and op.ufunc is not None else None


def numpy_launch(found: Found) -> Launch | Returning | None:
    """Return how a launcher runs without machine code."""
    return found.launch if isinstance(found, Native) else found


def overwritable(
    op: Op, device: str, ins: Sequence[TensorSpec | None], outs: Sequence[TensorSpec]
) -> list[tuple[int, int]]:
    """Return the outputs, by position, that the launcher of an op may write over an input.

    Those of a plain ufunc that have the output's shape and dtype: it reads each element before it
    writes there. Of a lowering of its own nothing is known.
    """
    if (op.name, device) in _table or op.ufunc is None or len(outs) != 1:
        return []
    return [(0, i) for i, s in enumerate(ins) if s == outs[0]]


def _ufunc(op: Op, ins: Sequence[TensorSpec | None], outs: Sequence[TensorSpec]) -> Launch | None:
    """Run a ufunc straight into its output, where all inputs have one dtype and no copy is made."""
    dtypes = {s.dtype for s in ins if s is not None}
    ufunc: Any = op.ufunc
    if len(dtypes) != 1 or len(ins) != ufunc.nin or outs[0].dtype not in (*dtypes, np.dtype(bool)):
        return None
    if ufunc.nin == 1:
        return lambda xs, ys: ufunc(xs[0], out=ys[0])
    return lambda xs, ys: ufunc(xs[0], xs[1], out=ys[0])
