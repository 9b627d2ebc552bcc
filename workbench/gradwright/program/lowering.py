"""Lowerings: how an op runs on a device; without one, its numpy ``forward`` is used."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import LoweringError
from ..op import Op
from ..shared import first_use, module_lock
from ..spec import TensorSpec

Launch = Callable[[Sequence[Any], Sequence[Any]], None]
"""Reads the input arrays, writes the output arrays; called once per run of a plan."""


@dataclass(frozen=True)
class Returning:
    """A launcher that returns its output arrays, for sizes known only when it has run."""

    run: Callable[[Sequence[Any]], Sequence[Any]]


Found = Any
"""A Launch, a Returning, what else the device knows, or None."""
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
            held = _table.get((op, device))
            if held is None or not _is_ours(make) or _is_ours(held):
                _table[op, device] = make
                _revision += 1
        return make

    return decorate


def _is_ours(make: Make) -> bool:
    """Tell whether a lowering comes with gradwright: those load late, and replace no other."""
    return make.__module__.partition(".")[0] in ("gradwright", "gradwright_kernels")


def lowering_revision() -> int:
    """Return a number that grows whenever a lowering is registered; plans depend on it."""
    return _revision


def lowered_ops(device: str) -> list[str]:
    """Return the names of the ops that have a lowering for ``device`` alone."""
    load(device)
    return sorted(name for name, d in list(_table) if d == family(device))


def replaced_ops(device: str) -> frozenset[str]:
    """Return the names of the ops that run on ``device`` as somebody else has said."""
    return frozenset(
        name
        for (name, d), make in _table.copy().items()
        if d in (family(device), "*") and not _is_ours(make)
    )


def load(device: str) -> None:
    """Import the packages that offer lowerings for ``device`` by entry point."""
    package = family(device)
    if package in _loaded:
        return
    import importlib.metadata  # 24 ms, and only for devices of other packages

    entries = importlib.metadata.entry_points(group="gradwright.lowerings", name=package)
    if not entries:
        raise LoweringError(
            f"no package offers the device {device!r}", need="'cpu', 'guard' or an installed device"
        )
    with first_use:
        for entry in entries:
            entry.load()
    _loaded.add(package)


def find_launch(
    op: Op, device: str, ins: Sequence[TensorSpec | None], outs: Sequence[TensorSpec]
) -> Found:
    """Return what the lowering of an op makes for these specs, if it has one."""
    make = _table.get((op.name, family(device)), _table.get((op.name, "*")))
    return None if make is None else make(op, ins, outs)


def is_lowered(op: str, device: str) -> bool:
    """Tell whether an op has a lowering of its own on a device."""
    return (op, family(device)) in _table or (op, "*") in _table


@functools.cache
def family(device: str) -> str:
    """Return whose lowerings a device has: those of ``cuda`` are what ``cuda-sim`` runs.

    >>> family("cuda-sim"), family("cuda:1"), family("cpu")
    ('cuda', 'cuda', 'cpu')
    """
    return device.removesuffix("-sim").partition(":")[0]
