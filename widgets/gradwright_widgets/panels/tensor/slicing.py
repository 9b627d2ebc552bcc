"""Slices as people type them: ``[0, :, ::2, -1]``, read without evaluating anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwright.errors import GraphError

Array = np.ndarray[Any, Any]
Part = int | slice | None

_NUMBER = re.compile(r"[+-]?\d+\Z", re.ASCII)
_NEW_AXIS = ("None", "newaxis", "np.newaxis")
_DIGITS = 19  # more do not fit an int64, and int() of millions of them would take minutes


class SliceError(GraphError):
    """A slice cannot be read or does not fit; ``at`` and ``length`` say which characters."""

    def __init__(self, problem: str, text: str, at: int, length: int, hint: str = "") -> None:
        marked = text[:at] + "»" + text[at : at + length] + "«" + text[at + length :]
        super().__init__(problem, facts=[f"slice: {marked}"], hint=hint)
        self.at, self.length = at, length


@dataclass(frozen=True)
class Index:
    """A slice of an array of ``shape``, with an entry for each of its axes.

    >>> index = read_index("[0, ..., ::2]", (4, 3, 6))
    >>> str(index), index.shape, index.full((2, 1))
    ('[0, :, ::2]', (3, 3), (0, 2, 2))
    """

    parts: tuple[Part, ...]
    source: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        lengths, axis = [], 0
        for part in self.parts:
            if part is None:
                lengths.append(1)
                continue
            if isinstance(part, slice):
                lengths.append(len(range(*part.indices(self.source[axis]))))
            axis += 1
        return tuple(lengths)

    def axes(self) -> list[tuple[int, int, int]]:
        """Return for each axis of the source where it starts, its step, and its axis of the result.

        An axis that was indexed by a number has -1 as its axis of the result.
        """
        out, axis, result = [], 0, 0
        for part in self.parts:
            if part is None:
                result += 1
                continue
            if isinstance(part, slice):
                start, _, step = part.indices(self.source[axis])
                out.append((start, step, result))
                result += 1
            else:
                out.append((part % self.source[axis], 0, -1))
            axis += 1
        return out

    def full(self, position: Sequence[int]) -> tuple[int, ...]:
        """Return where a position of the result is in the source."""
        return tuple(
            start if axis < 0 else start + step * position[axis]
            for start, step, axis in self.axes()
        )

    def holding(self, position: Sequence[int]) -> str:
        """Return the slice as text, moved and widened as far as it has to be to hold a position.

        >>> read_index("[0, ::2]", (4, 6)).holding((3, 1))
        '[3, :]'
        """
        parts, axis = [], 0
        for part in self.parts:
            if part is None:
                continue
            at = position[axis]
            if not isinstance(part, slice):
                parts.append(str(at))
            else:
                inside = at in range(*part.indices(self.source[axis]))
                parts.append(part_text(part) if inside else ":")
            axis += 1
        return f"[{', '.join(parts)}]" if parts else ""

    def of(self, array: Array) -> Array:
        """Return the slice, a view of ``array``."""
        view = array[tuple(self.parts) or ...]
        return np.asarray(view)

    def __str__(self) -> str:
        return f"[{', '.join(map(part_text, self.parts))}]" if self.parts else "[...]"


def part_text(part: Part) -> str:
    """Return one entry of a slice as numpy code.

    >>> part_text(slice(None, None, 2)), part_text(-1), part_text(None)
    ('::2', '-1', 'None')
    """
    if not isinstance(part, slice):
        return str(part)
    start, stop = ("" if end is None else str(end) for end in (part.start, part.stop))
    return f"{start}:{stop}" + ("" if part.step is None else f":{part.step}")


def default_index(shape: tuple[int, ...]) -> Index:
    """Return the last two axes, at the first index of all others.

    >>> str(default_index((8, 3, 5, 5)))
    '[0, 0, :, :]'
    """
    whole = slice(None)
    lead = max(0, len(shape) - 2)
    first: list[Part] = [0 if n else whole for n in shape[:lead]]
    return Index((*first, *[whole] * (len(shape) - lead)), shape)


def read_index(text: str, shape: tuple[int, ...]) -> Index:
    """Read a slice of an array of ``shape``: integers, ``a:b:c``, ``...`` and ``None``.

    Raises:
        SliceError: the text is no such slice, or it does not fit the shape.

    >>> read_index("[0, 7:, ::2]", (2, 4))
    Traceback (most recent call last):
    ...
    gradwright_widgets.panels.tensor.slicing.SliceError: 3 entries, but the shape (2, 4) has 2 axes
      slice: [0, 7:, »::2«]
    """
    first, last = 0, len(text)
    while first < last and text[first].isspace():
        first += 1
    while last > first and text[last - 1].isspace():
        last -= 1
    opened, closed = text[first:last].startswith("["), text[first:last].endswith("]")
    if opened != closed:
        missing = "]" if opened else "["
        at = last - 1 if closed else first
        raise SliceError(f"a {missing} is missing", text, at, 1, "[0, :, ::2]")
    if opened:
        first, last = first + 1, last - 1
    if not text[first:last].strip():
        return Index((slice(None),) * len(shape), shape)
    entries = []
    at = first
    for piece in text[first:last].split(","):
        word = piece.strip()
        entries.append((word, at + len(piece) - len(piece.lstrip()) if word else at))
        at += len(piece) + 1
    if len(entries) > 1 and not entries[-1][0]:
        entries.pop()  # as in Python, a comma may end the list
    return _fit(text, entries, shape)


def _fit(text: str, entries: list[tuple[str, int]], shape: tuple[int, ...]) -> Index:
    counted = [k for k, (word, _) in enumerate(entries) if word not in ("...", "Ellipsis")]
    dots = [k for k in range(len(entries)) if k not in counted]
    if len(dots) > 1:
        word, at = entries[dots[1]]
        raise SliceError("... may stand once", text, at, len(word))
    used = [k for k in counted if entries[k][0] not in _NEW_AXIS]
    for k in used:  # what is no slice at all is said before what is one entry too many
        _read(text, *entries[k])
    if len(used) > len(shape):
        word, at = entries[used[len(shape)]]
        axes = f"{len(shape)} {'axis' if len(shape) == 1 else 'axes'}"
        count = f"{len(used)} {'entry' if len(used) == 1 else 'entries'}"
        raise SliceError(f"{count}, but the shape {shape} has {axes}", text, at, len(word))
    rest = [slice(None)] * (len(shape) - len(used))
    parts: list[Part] = []
    axis = 0
    for word, at in entries:
        if word in ("...", "Ellipsis"):
            parts += rest
            axis += len(rest)
            continue
        part = _read(text, word, at)
        if isinstance(part, int) and not -shape[axis] <= part < shape[axis]:
            size = shape[axis]
            room = f"{-size} to {size - 1}" if size else "nothing, it is empty"
            raise SliceError(
                f"{part} is outside of axis {axis}", text, at, len(word), f"axis {axis} has {room}"
            )
        parts.append(part)
        axis += part is not None
    if not dots:
        parts += rest
    return Index(tuple(parts), shape)


def _read(text: str, word: str, at: int) -> Part:
    if word in _NEW_AXIS:
        return None
    if not word:
        raise SliceError("an entry is missing", text, at, 1, "a : takes a whole axis")
    if _NUMBER.match(word):
        return _integer(text, word, at)
    pieces = word.split(":")
    if len(pieces) == 1 or len(pieces) > 3:
        raise SliceError(
            f"{word[:40]!r} is no entry of a slice",
            text, at, len(word), "an integer, a:b, a:b:c, ... or None",
        )  # fmt: skip
    ends: list[int | None] = []
    for piece in pieces:
        bare = piece.strip()
        where = at + len(piece) - len(piece.lstrip())
        if bare and not _NUMBER.match(bare):
            problem = f"{bare[:40]!r} is no integer"
            raise SliceError(problem, text, where, len(bare), "as in 0:10:2")
        ends.append(_integer(text, bare, where) if bare else None)
        at += len(piece) + 1
    if len(ends) == 3 and ends[2] == 0:
        raise SliceError(
            "a step of zero goes nowhere", text, at - 1 - len(pieces[2]), len(pieces[2])
        )
    return slice(*ends)


def _integer(text: str, word: str, at: int) -> int:
    if len(word) > _DIGITS:
        raise SliceError("this number is too long", text, at, len(word))
    return int(word)
