"""How the calls of a head are written: tiles, their memory, and loops over those that are alike."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ....program.declined import DeclinedError
from ...blocks import aligned
from ...call import Call
from ..bind import bind_copy, bind_kernel
from ..convolution.rooms import shared
from ..convolution.turning import turning
from ..repeat import Turn, repeated
from ..steps import Step
from ..unpacked import bind_product
from .kernels import Form
from .softmax import bind_weights

Array = np.ndarray[Any, Any]
QUERIES, KEYS = 128, 128
"""Of a tile: 64 kB of scores in float32, twice that on the way back."""
MANY, LONG = 256, 1024
"""Keys of a tile where all see so many: results are shrunk and read half as often, which takes 3 to
6 % of the time (64 and 128 features, 1,024 to 4,096 keys). Borders would waste more."""
PAD = 64
"""Bytes behind a row: rows 512 bytes apart would meet in a few places of the cache."""
OWN = 100
"""Numbers from which on operands are memory of our own that moves in loops."""


@dataclass
class Calls:
    """Calls on one head, whose operands have the numbers of the op's; the rest is scratch."""

    numbers: Mapping[str, int]
    piece: int
    """Pieces may run at the same time, and have scratch of their own."""
    keys: int = KEYS
    """Of a tile."""
    first: list[Call] = field(default_factory=list)
    """Made once for a head of keys."""
    made: list[Call] = field(default_factory=list)
    """Made for each head of queries that shares it."""

    own: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Scratch that moves from tile to tile: its number, and by how many bytes."""

    def number(self, name: str) -> int | None:
        """Return the number of an operand, None of scratch that does not move."""
        return self.own[name][0] if name in self.own else self.numbers.get(name)

    def steps(self, moves: Mapping[str, int]) -> dict[int, int]:
        """Return by how many bytes each operand moves; those that are not named stand still."""
        still = dict.fromkeys((*self.numbers.values(), *(n for n, _ in self.own.values())), 0)
        numbers = {self.number(name): step for name, step in moves.items()}
        return still | {n: step for n, step in numbers.items() if n is not None}

    def run(
        self,
        step: Step,
        of: Mapping[str, Array],
        named: Mapping[str, str] | None = None,
        *,
        once: bool = False,
    ) -> None:
        """Add a kernel on arrays by name; ``named`` are those that the op calls otherwise."""
        arrays = [of[name] for name in step.names]
        shape = next(x.shape for x in arrays if x.ndim == 2)
        names = [(named or {}).get(name, name) for name in step.names]
        self._add(names, bind_kernel(step.kernel, shape, arrays), once)

    def weights(self, form: Form, tile: Tile, **of: Array) -> None:
        """Add what makes weights of scores; a mask whose keys lie apart is copied first."""
        mask, named = of.get("mask"), {}
        if mask is not None and 1 in form.axes and mask.strides[-1] != mask.itemsize:
            dense = self.room("dense", tile, mask.dtype)
            of["mask"] = dense = dense if mask.ndim == 2 else dense[0]
            self._add(["mask", "dense"], bind_copy(mask, dense))
            named = {"mask": "dense"}
        call, names = bind_weights(form, of)
        self._add([named.get(name, name) for name in names], [call])

    def product(self, *, adds: bool = False, **of: Array) -> None:
        """Add c = a @ b, or c += a @ b, of three arrays by name."""
        self._add(list(of), bind_product(*of.values(), adds=adds))

    def _add(self, names: list[str], made: Any, once: bool = False) -> None:
        if made is None:
            raise DeclinedError
        for one in made:
            numbers = [(slot, self.number(names[k])) for slot, k in one.slots]
            slots = [(slot, n) for slot, n in numbers if n is not None]
            (self.first if once else self.made).append(replace(one, slots=slots))

    @contextlib.contextmanager
    def repeated(self, n: int, head: Mapping[str, Array]) -> Iterator[None]:
        """Have what is added inside done for n tiles that follow each other."""
        before, self.made = self.made, []
        yield
        if n > 1:
            axes = {**dict.fromkeys(("k", "v", "dk", "dv"), 0), "mask": 1, "dmask": 1}
            moves = {
                name: self.keys * head[name].strides[axis]
                for name, axis in axes.items()
                if name in head
            }
            steps = self.steps(moves | {name: step for name, (_, step) in self.own.items()})
            self.made = [repeated(n, [Turn(c, steps) for c in self.made])]
        self.made = [*before, *self.made]

    def turned(self, name: str, x: Array) -> Turned:
        """Turn the rows of a head, once for all that share it; the result moves as ``name``t."""
        n, (length, features) = -(-len(x) // self.keys), x.shape
        shape = n, features, self.keys
        make = functools.partial(padded, shape, x.dtype)
        place: Array = shared(("attention", name, self.piece, shape, x.dtype), make)
        for tile in range(n):
            rows = x[tile * self.keys : min((tile + 1) * self.keys, length)]
            self.first += turning(rows[None], place[tile][:, None, :], self.numbers[name])
        self.own[f"{name}t"] = OWN + len(self.own), place.strides[0]
        return Turned(place)

    def room(self, name: str, tile: Tile, dtype: np.dtype[Any]) -> Array:
        """Return memory for the scores of a tile."""
        make = functools.partial(padded, (QUERIES, self.keys), dtype)
        key = "attention", name, self.piece, self.keys, dtype
        whole: Array = shared(key, make)
        return whole[: tile.queries, : tile.keys.stop - tile.keys.start]


@dataclass(frozen=True)
class Turned:
    """Keys or values of a head, tile by tile, features before keys."""

    array: Array

    def of(self, tile: Tile) -> Array:
        """Return those of a tile."""
        first, n = tile.keys.start, tile.keys.stop - tile.keys.start
        found: Array = self.array[first // self.array.shape[2], :, :n]
        return found


def padded(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return memory whose rows have some bytes behind them."""
    *lead, columns = shape
    row = columns * dtype.itemsize + PAD
    n = int(np.prod(lead))
    return aligned(n * row).view(dtype).reshape(*lead, row // dtype.itemsize)[..., :columns]


@dataclass(frozen=True)
class Tile:
    """Some queries by some keys, and which of these each query sees."""

    queries: int
    keys: slice
    first: Array | None = None
    """[queries], the first key that each sees, counted from that of the tile; None is all."""
    last: Array | None = None

    def borders(self, dtype: np.dtype[Any]) -> dict[str, Array]:
        """Return what tells who sees whom: numbers of keys, and the borders that there are."""
        found = {n: x for n, x in (("first", self.first), ("last", self.last)) if x is not None}
        if not found:
            return {}
        numbers = np.arange(self.keys.stop - self.keys.start)
        return {n: x.astype(dtype) for n, x in (("column", numbers), *found.items())}

    def ends(self) -> dict[str, Array]:
        """Return the same as the first that is seen, and the first that is not, as far as told."""
        last = None if self.last is None else self.last + 1
        found = {n: x for n, x in (("low", self.first), ("high", last)) if x is not None}
        return {n: x.astype(np.int64) for n, x in found.items()}


def keys_at_once(op: Any, n_keys: int) -> int:
    """Return how many keys a tile has."""
    return MANY if n_keys >= LONG and max(op.reach) < 0 else KEYS


def runs(op: Any, q: Array, k: Array) -> Iterator[tuple[slice, list[tuple[int, Tile]]]]:
    """Yield runs of queries and the tiles that any of them sees, with how many follow alike."""
    n_queries, n_keys = len(q), len(k)
    offset, (left, right) = op.starts(n_queries, n_keys), op.reach
    some = keys_at_once(op, n_keys)
    for start in range(0, n_queries, QUERIES):
        rows = slice(start, min(start + QUERIES, n_queries))
        at = np.arange(rows.start, rows.stop) + offset
        low = max(int(at[0]) - left, 0) // some * some if left >= 0 else 0
        high = min(int(at[-1]) + right + 1, n_keys) if right >= 0 else n_keys
        tiles: list[tuple[int, Tile]] = []
        for begin in range(low, high, some):
            keys = slice(begin, min(begin + some, high))
            first = at - left - begin if left >= 0 and at[-1] - left > begin else None
            last = at + right - begin if right >= 0 and at[0] + right + 1 < keys.stop else None
            tile = Tile(len(at), keys, first, last)
            is_plain = first is None and last is None and keys.stop - keys.start == some
            if is_plain and tiles and tiles[-1][1].first is None and tiles[-1][1].last is None:
                tiles[-1] = tiles[-1][0] + 1, tiles[-1][1]
            else:
                tiles.append((1, tile))
        yield rows, tiles
