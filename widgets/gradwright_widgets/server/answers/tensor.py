"""A stored tensor as a page without kernel shows it: the state and picture of a TensorView.

Of a large tensor a part is read, evenly spread, and the view says so; of every number only where
that is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradwright.formats.stored import Files, Stored, thinned
from gradwright.shared import Bounded
from gradwright.spec import dtype_name

from ...panels.tensor.picture import Picture
from ...panels.tensor.reduction import Real, Summary, histogram, real_part, summarize
from ...panels.tensor.sheet import spec_text
from ...panels.tensor.slicing import Index, default_index, part_text, read_index
from ...panels.tensor.still import statistics
from ..refused import RefusedError
from .asked import Asked, real
from .model import check_tensor, nbytes
from .states import TENSOR

Array = np.ndarray[Any, Any]

HELD = 1 << 26
"""Bytes of a tensor that are held at once."""
PASSED = 1 << 28
"""Bytes that are read for one answer, unless all are asked for."""
TEXTS = 200
"""Elements of text that are shown."""
_MEASURED = Bounded[tuple[Summary, Array]](64)
"""Statistics and bars of large tensors, by file, stamp, name and how they were read."""
PARTS = ("real", "imag", "abs", "angle")


def tensor(asked: Asked) -> dict[str, Any]:
    """Return state and messages of a TensorView, and its numbers as such."""
    name = asked.text("name")
    found = check_tensor(asked, name)
    with Files(asked.file, asked.open) as files:
        stored = Stored(found, files)
        shown = _texts(stored) if stored.dtype.kind == "T" else _shown(asked, name, stored)
    return {
        "name": name,
        "dtype": dtype_name(found.dtype),
        "shape": list(found.shape),
        "bytes": nbytes(found),
        **shown,
    }


def _texts(stored: Stored) -> dict[str, Any]:
    first = next(stored.pieces(), np.zeros(0, stored.dtype))[:TEXTS]
    texts = [text[:1000] for text in first.tolist()]
    return {"state": None, "messages": [], "texts": texts, "every": 1}


def check_shown(stored: Stored) -> None:
    """Raise RefusedError where a tensor is more than numpy's arrays can be."""
    if len(stored.shape) > 32 or stored.size >= 1 << 62:
        raise RefusedError(422, "it has more axes or elements than can be shown")


def _shown(asked: Asked, name: str, stored: Stored) -> dict[str, Any]:
    check_shown(stored)
    part, exact = part_of(asked)
    scope = asked.choice("scope", "tensor", "slice")
    text = asked.text("index")
    index, plane = slice_of(asked, stored)
    if stored.size * stored.dtype.itemsize <= HELD:
        whole = stored.take((slice(None),) * len(stored.shape))
        picture: Picture = Picture(whole, index, plane, part=part, scope=scope, exact=exact)
    else:
        key = _key(asked, name, part, exact, scope == "tensor" or (str(index), plane))
        picture = Glimpse(
            stored, index, plane, part=part, scope=scope, exact=exact, known=_MEASURED.find(key)
        )
        _MEASURED.keep(key, picture.measured())  # one look at a tensor serves all slices of it
    content, buffers = picture.message(complete=True)
    summary, counts = picture.measured()
    about = {
        "kind": "tensor.picture",
        "serial": 0,
        "name": name,
        "origin": "array",
        "outputs": [],
        **content,
        "code": "",
    }
    state = {
        **TENSOR,
        "tensor": name,
        "tensor_index": text,
        "tensor_plane": list(plane),
        "tensor_part": part,
        "tensor_scope": scope,
        "tensor_exact": exact,
    }
    return {
        "every": summary.every,
        "statistics": _numbers(summary),
        "histogram": {
            "low": real(summary.low),
            "high": real(summary.high),
            "counts": counts.tolist(),
        },
        "state": state,
        "messages": [{"content": about, "buffers": buffers}],
    }


def _key(asked: Asked, name: str, *how: Any) -> tuple[Any, ...]:
    return asked.file, asked.stamps[0], name, *how


def measured(asked: Asked, name: str, stored: Stored) -> tuple[Summary, Array]:
    """Return statistics and bars of a large tensor, of its real part, as its view has them."""
    key = _key(asked, name, PARTS[0], False, True)
    found = _MEASURED.find(key)
    if found is None:
        spread, real = Spread(stored, exact=False), real_part(stored.dtype, PARTS[0])
        whole = stored.dtype.kind in "biu"
        found = _measure(spread, real, stored.size, spread.every, whole=whole)
        _MEASURED.keep(key, found)
    return found


def _measure(
    read: Array | Spread, real: Real, size: int, every: int, *, whole: bool
) -> tuple[Summary, Array]:
    summary = summarize(read, real, every=every, size=size)
    return summary, histogram(read, real, summary.low, summary.high, whole=whole)


def part_of(asked: Asked) -> tuple[str, bool]:
    """Return what is shown of complex numbers, and whether every number is to be read."""
    return asked.choice("part", *PARTS), asked.choice("exact", "0", "1") == "1"


def slice_of(asked: Asked, stored: Stored) -> tuple[Index, tuple[int, ...]]:
    """Return the slice that is asked for, and the axes that are drawn down and across."""
    text = asked.text("index")
    index = read_index(text, stored.shape) if text.strip() else default_index(stored.shape)
    return index, _plane(asked.text("plane"))


def _plane(text: str) -> tuple[int, ...]:
    if not text:
        return ()
    axes = text.split(",")
    if len(axes) != 2 or not all(a.isascii() and a.isdecimal() and len(a) < 3 for a in axes):
        raise RefusedError(400, f"plane={text[:40]!r}", need="two axes, as in 0,1")
    return tuple(map(int, axes))


def _numbers(summary: Summary) -> dict[str, Any]:
    names = ("low", "high", "mean", "std", "norm")
    return {
        **{name: real(getattr(summary, name)) for name in names},
        "quantiles": list(map(real, summary.quantiles)),
        "zeros": summary.zeros,
        "finite": summary.finite,
        "read": summary.read,
        "bad": summary.bad,
    }


class Glimpse(Picture):
    """The picture of a slice of a tensor that is too large to be held."""

    def __init__(
        self,
        stored: Stored,
        index: Index,
        plane: Sequence[int],
        *,
        part: str,
        scope: str,
        exact: bool,
        known: tuple[Summary, Array] | None,
    ) -> None:
        self._stored = stored
        self._true, self._steps, seen = _seen(stored, index, plane)
        own = Index(tuple(slice(None) for _ in seen.shape), seen.shape)
        super().__init__(seen, own, plane, part=part, scope="slice", exact=True)
        self._measured = known
        self._of_slice, self._spread = scope == "slice", Spread(stored, exact=exact)

    def measured(self) -> tuple[Summary, Array]:
        """Return the statistics and the bars of the histogram, of the slice or the tensor."""
        if self._measured is None:
            if self._of_slice:
                read: Array | Spread = self.array
                size, every = math.prod(self._true.shape), math.prod(self._steps)
            else:
                read, size, every = self._spread, self._stored.size, self._spread.every
            whole = self.array.dtype.kind in "biu"
            self._measured = _measure(read, self.real, size, every, whole=whole)
        return self._measured

    def message(self, *, complete: bool) -> Any:
        """Return what a page shows; places are those of the tensor, not of what was read."""
        content, buffers = super().message(complete=complete)
        summary, _ = self.measured()
        true, every = self._true, math.prod(self._steps)
        whole = np.broadcast_to(np.zeros((), self._stored.dtype), self._stored.shape)
        if content.pop("whole", ""):  # of which the page would cut slices
            buffers = buffers[:1]
        height, width = (true.shape[k] if k >= 0 else 1 for k in self.sheet._order[-2:])
        if "part" in content:
            window = [*content["part"]["window"][:4], 0, height, 0, width]
            read = content["part"]["every"] * every
            content["part"] = {**content["part"], "window": window, "every": read}
        return {
            **content,
            "shape": list(whole.shape),
            "spec": spec_text(whole),
            "index": str(true),
            "parts": [part_text(part) for part in true.parts],
            "axes": [list(axis) for axis in true.axes()],
            "slice": list(true.shape),
            "height": height,
            "width": width,
            "rows": statistics(whole, summary),
            "literal": content["literal"] if every == 1 else "",
        }, buffers

    def _bad(self, summary: Summary) -> list[dict[str, Any]]:
        return [
            {"kind": kind, "count": count, "at": self._place(summary.first_bad[kind])}
            for kind, count in summary.bad.items()
            if count
        ]

    def _place(self, read: int) -> list[int]:
        """Return where in the tensor a number is, by how many were read before it."""
        if not self._of_slice:
            return self._spread.place(read)
        spot = np.unravel_index(read, self.array.shape)
        position = [int(at) * step for at, step in zip(spot, self._steps, strict=True)]
        return list(self._true.full(position))

    def _about_text(self, summary: Summary) -> str:
        what = " of slice" if self._of_slice else ""
        if summary.every > 1:
            return f"1 of {summary.every:,} values{what}"
        return f"{summary.size:,} value{'s' * (summary.size != 1)}{what}"


def _seen(
    stored: Stored, index: Index, plane: Sequence[int]
) -> tuple[Index, tuple[int, ...], Array]:
    """Return what is read of a slice, and of how many elements of each of its axes one.

    Of the planes of a slice that has too many, some are left out; then it is another slice.
    """
    rank = len(index.shape)
    inside = {k % rank for k in plane or (-2, -1)} if rank > 1 else set(range(rank))
    most = max(1, HELD // (2 * stored.dtype.itemsize))
    steps = thinned(index.shape, most, max(1, PASSED // stored.dtype.itemsize))
    own, read, axis, k = list[Any](), list[Any](), 0, -1
    for part in index.parts:
        k += not isinstance(part, int)
        if part is None:
            own.append(None)
            continue
        thin = part
        if isinstance(part, slice):
            r = range(stored.shape[axis])[part]
            thin = slice(r.start, r.stop if r.stop >= 0 else None, r.step * steps[k])
        axis += 1
        own.append(thin if not isinstance(part, int) and k not in inside and steps[k] > 1 else part)
        read.append(thin)
    new = tuple(None if p is None else slice(None) for p in index.parts if not isinstance(p, int))
    every = tuple(step if k in inside else 1 for k, step in enumerate(steps))
    return Index(tuple(own), stored.shape), every, stored.take(read)[new]


class Spread:
    """The numbers of a tensor in pieces: all of them, or pieces evenly spread."""

    def __init__(self, stored: Stored, *, exact: bool) -> None:
        self._stored = stored
        nbytes = stored.size * stored.dtype.itemsize
        self.every = 1 if exact else max(1, -(-nbytes // PASSED))
        self.size = -(-stored.size // self.every)

    def pieces(self) -> Iterator[Array]:
        """Yield the pieces."""
        return self._stored.pieces(self.every)

    def place(self, read: int) -> list[int]:
        """Return where in the tensor a number is, by how many were read before it."""
        piece, rest = divmod(read, self._stored.piece)
        flat = piece * self._stored.piece * self.every + rest
        return list(map(int, np.unravel_index(flat, self._stored.shape)))
