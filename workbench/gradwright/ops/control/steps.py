"""How the steps of a loop run: once for all engines, which differ in how one step is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...spec import BOXED, TensorSpec, spec_of
from ...spec.containers import box_sequence, contents

Array = np.ndarray[Any, Any]
Step = Callable[[list[Any]], Sequence[Any]]
"""(number, *carries, *items, *captured) -> results of one step."""


class Stack:
    """Results of steps as one array, which grows where the number of steps is not known.

    Where it is, they may be put right ``into`` the array that takes them all.
    """

    def __init__(self, length: int | None, what: str, into: Array | None = None) -> None:
        self._length, self._what, self._used = length, what, 0
        self._buffer = into

    def put(self, at: int, y: Array) -> None:
        """Copy the result of one step to its place."""
        buffer = self._buffer
        if buffer is None:
            rows = 16 if self._length is None else self._length
            buffer = self._buffer = np.empty((rows, *y.shape), y.dtype)
        elif y.shape != buffer.shape[1:]:
            raise ShapeError(
                f"{self._what} has shape {y.shape} in step {at}",
                need=f"{buffer.shape[1:]}, as in the other steps",
            )
        if at >= len(buffer):
            buffer = self._buffer = np.concatenate([buffer, np.empty_like(buffer)])
        buffer[at] = y
        self._used += 1

    def done(self, spec: TensorSpec) -> Array:
        """Return what was put; ``spec`` is stated for no steps at all."""
        if self._buffer is None:
            sizes = [d if isinstance(d, int) else 0 for d in spec.shape[1:]]
            return np.empty((0, *sizes), spec.dtype)
        return self._buffer[: self._used]


class Listing:
    """Results of steps as a sequence."""

    def __init__(self, reverse: bool) -> None:
        self._items: list[Array] = []
        self._reverse = reverse

    def put(self, at: int, y: Array) -> None:
        """Keep a copy of the result of one step."""
        self._items.append(y.copy())

    def done(self, spec: TensorSpec) -> Array:
        """Return the sequence."""
        return box_sequence(self._items[::-1] if self._reverse else self._items, spec)


def items_of(x: Array) -> Sequence[Array]:
    """Return what a loop takes one by one: the rows of an array, or the items of a sequence."""
    return contents(x).items if x.dtype == BOXED else _Rows(x)


class _Rows(Sequence[Array]):
    """The rows of an array, as arrays where they have no axes too: ``x[i]`` is a scalar there."""

    def __init__(self, x: Array) -> None:
        self._x = x

    def __len__(self) -> int:
        return len(self._x)

    def __getitem__(self, i: Any) -> Any:
        return self._x[i, ...]


def apart(ys: Sequence[Array], xs: Sequence[Array | None]) -> tuple[Array, ...]:
    """Return results that share memory with no input: a step may return what it was given."""
    given = [x for x in xs if x is not None and x.dtype != BOXED]
    return tuple(y.copy() if any(np.may_share_memory(x, y) for x in given) else y for y in ys)


def check_carry(
    names: Sequence[str],
    start: Sequence[Array],
    now: Sequence[Array],
    at: int,
    changing: Sequence[int],
) -> None:
    """Refuse a carry that a step has given another shape, unless it may change."""
    for j, (name, a, b) in enumerate(zip(names, start, now, strict=True)):
        if a.dtype != b.dtype or (a.shape != b.shape and j not in changing):
            raise ShapeError(
                f"the carry {name!r} is {spec_of(b)} after step {at}",
                need=f"{spec_of(a)} in all steps, as it starts",
                hint="free_shapes=True, or collect pieces in a gw.sequence",
            )
