"""All launches of a fused group: its kernel, what it needs first, sums of what went aside."""

from __future__ import annotations

import functools
import hashlib
import linecache
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwright.errors import LoweringError
from gradwright.fuse.dense import copying, stand_in
from gradwright.fuse.ir import Kernel, Level, Operand, Store, Value
from gradwright.fuse.layout import Access, CopyFirst, Loops, Pattern, lay_out
from gradwright.spec import TensorSpec

from ..compile.compiler import Call
from ..launch import index_type
from .emit import emit
from .memory import dims_aside, pointer
from .tiles import is_sum, tiled

Array = np.ndarray[Any, Any]
MOST_EVEN = 16
"""Elements in a row that are loaded at once, at most: 16 bytes."""


@dataclass(frozen=True)
class Launched:
    """A launch, and for each of its pointers which operand it points to, or behind them scratch."""

    call: Call
    operands: tuple[int, ...]


@dataclass(frozen=True)
class Generated:
    """What a device runs for a fused group.

    ``scratch`` is memory from one launch to the next. Where indices name places, scratch number
    ``alarm`` tells of wrong ones: of ``sites[j]`` (operand, axis, size) it holds 0, or 1 + c, and
    then index ``c >> 1``, negative where c is odd, names no place.
    """

    source: str
    launches: tuple[Launched, ...]
    scratch: tuple[TensorSpec, ...] = ()
    alarm: int | None = None
    sites: tuple[tuple[int, int, int], ...] = ()


def generate(
    kernel: Kernel, shape: tuple[int, ...], arrays: Sequence[Array], names: Sequence[str] = ()
) -> Generated:
    """Return the launches of a kernel over an index space of ``shape``; nothing is read or written.

    ``arrays`` lie as those on the device will: shapes, strides, dtypes. ``names`` are those of the
    nodes that the kernel computes, for the reader.

    Raises LoweringError: the kernel has something that no text is known for.

    >>> from gradwright.fuse.builder import Builder
    >>> builder, f32 = Builder(1, 1), np.dtype("float32")
    >>> x = builder.load("x", (0,), f32)
    >>> kernel, _ = builder.kernel([(x + x, (0,), "set", f32)])
    >>> made = generate(kernel, (1000,), [np.empty(1000, f32)] * 2, ["twice"])
    >>> [launch.call.grid for launch in made.launches], "# twice" in made.source
    ([(1, 1, 1)], True)
    """
    lying = [kernel.lie(i, a, shape) for i, a in enumerate(arrays)]
    work = _Work(len(arrays))
    found = [a for a, _ in lying]
    if all(a.size == 0 for a in arrays[kernel.n_inputs :]):
        return Generated("", ())
    loops = lay_out(kernel, found, shape)
    places = list(range(len(arrays)))
    while isinstance(loops, CopyFirst):
        n = loops.operand
        if kernel.operands[n].named or places[n] != n:
            raise LoweringError(
                "an operand of a kernel has more axes than loops", facts=[f"operand {n}"]
            )
        found[n], places[n] = work.copy(found[n], n, loops.shape)
        loops = lay_out(kernel, found, shape)
    named = [tuple(numbers[i : i + 2] for i in range(0, len(numbers), 2)) for _, numbers in lying]
    loose = {i for i, a in enumerate(found) if a.ctypes.data % 16}
    work.kernel(kernel, loops, places, named, loose)
    return work.result(names)


class _Work:
    """Launches as they come."""

    def __init__(self, n_operands: int) -> None:
        self.n_operands = n_operands
        self.launches: list[Launched] = []
        self.scratch: list[TensorSpec] = []
        self.texts: list[str] = []
        self.alarm: int | None = None
        self.sites: list[tuple[int, int, int]] = []

    def result(self, names: Sequence[str]) -> Generated:
        """Return what there is, the nodes in front of it."""
        comments = "".join(f"# {name}\n" for name in names)
        source = comments + "\n\n".join(dict.fromkeys(self.texts))
        sites = tuple(self.sites)
        return Generated(source, tuple(self.launches), tuple(self.scratch), self.alarm, sites)

    def room(self, shape: tuple[int, ...], dtype: Any) -> int:
        """Return the place of new scratch memory."""
        self.scratch.append(TensorSpec(shape, dtype))
        return self.n_operands + len(self.scratch) - 1

    def copy(self, x: Array, place: int, shape: tuple[int, ...]) -> tuple[Array, int]:
        """Launch a copy into memory where one row follows the other."""
        dense, to = stand_in(TensorSpec(shape, x.dtype)), self.room(shape, x.dtype)
        self.move(np.broadcast_to(x, shape), place, dense, to)
        return dense, to

    def move(self, x: Array, place: int, y: Array, to: int) -> None:
        """Launch a copy of an array into another one of its shape and dtype."""
        space = tuple(n for n in y.shape if n != 1)
        kernel = copying(x.dtype, len(space))
        loops = lay_out(kernel, [x.reshape(space), y.reshape(space)], space)
        if isinstance(loops, CopyFirst):
            raise LoweringError(
                "an operand of a kernel has more axes than loops", facts=[str(y.shape)]
            )
        loose = {n for n, a in enumerate((x, y)) if a.ctypes.data % 16}
        self.kernel(kernel, loops, [place, to], [(), ()], loose)

    def kernel(
        self,
        kernel: Kernel,
        loops: Loops,
        places: Sequence[int],
        named: Sequence[Sequence[Sequence[int]]],
        loose: set[int],
    ) -> None:
        """Launch a kernel, then what adds up what it put aside."""
        form, tile = tiled(kernel, loops)
        sizes = {f"i{k}": n for k, n in enumerate(loops.outer)}
        sizes |= {"part": tile.parts, "block": tile.blocks, "col": loops.columns}
        numbers = {
            "n_rows": math.prod(loops.outer[k] for k in form.rows),
            "n_parts": tile.parts,
            "n_blocks": tile.blocks,
            "n_turns": tile.turns,
        }
        even = _even(kernel, loops)
        numbers["n_cols"] = loops.columns // even
        numbers |= {f"o{k}": n for k, n in enumerate(loops.outer)}
        for i, (operand, strides) in enumerate(zip(kernel.operands, loops.strides, strict=True)):
            size = operand.dtype.itemsize
            unit = even if loops.pattern.accesses[i].column == "unit" else 1
            numbers |= {f"s{i}_{k}": s // size // unit for k, s in enumerate(strides[:-1])}
            numbers[f"s{i}_c"] = strides[-1] // size
            for axis, (n, stride) in enumerate(named[i]):
                numbers |= {f"n{i}_{axis}": n, f"t{i}_{axis}": stride // size}
        asides: dict[int, tuple[list[str], int]] = {}
        for n in form.aside:
            dims = dims_aside(kernel, loops.pattern, form, n)
            shape = tuple(sizes[d] for d in dims)
            steps = zip(dims, _strides(shape), strict=True)
            numbers |= {f"a{n}_{d}": stride for d, stride in steps}
            store = kernel.stores[n]
            asides[n] = dims, self.room(shape, kernel.values[store.value].dtype)
        text = emit(kernel, loops.pattern, form)
        function = loaded(text)
        pointers = {pointer(kernel, i): o.dtype for i, o in enumerate(kernel.operands)}
        pointed = list(places)
        for n, (_, place) in asides.items():
            pointers[f"aside{n}"] = kernel.values[kernel.stores[n].value].dtype
            pointed.append(place)
        if "alarm" in function.arg_names:
            pointers["alarm"] = np.dtype(np.int64)
            pointed.append(self._alarm(kernel, named))
        most = max(_reach(loops, kernel), math.prod(loops.outer) * loops.columns)
        constants = {
            "ROWS": tile.rows,
            "BLOCK": tile.columns,
            "EVEN": even,
            "INDEX": index_type(most),
        }
        given: dict[str, Any] = {**pointers, **constants}
        given |= {name: numbers[name] for name in function.arg_names if name in numbers}
        grid = (max(1, tile.programs), 1, 1)
        names = frozenset(pointer(kernel, i) for i in loose)
        call = Call(function, grid, given, tile.warps, names, contracts=False)
        self.texts.append(text)
        self.launches.append(Launched(call, tuple(pointed)))
        for n, (dims, place) in asides.items():
            pair = [place, places[kernel.stores[n].operand]]
            self.kernel(*self._join(kernel, loops, n, dims, sizes), pair, [(), ()], set())

    def _alarm(self, kernel: Kernel, named: Sequence[Sequence[Sequence[int]]]) -> int:
        """Return the place of the alarm, zeroed by a launch before."""
        sites = dict.fromkeys(v.extra for v in kernel.values if v.op == "place")
        self.sites = [(s.operand, s.axis, named[s.operand][s.axis][0]) for s in sites]
        self.alarm = len(self.scratch)
        place = self.room((len(sites),), np.int64)
        self.fill(stand_in(self.scratch[-1]), place, 0)
        return place

    def fill(self, y: Array, place: int, number: float) -> None:
        """Launch what writes one number to all of an array."""
        space = tuple(n for n in y.shape if n != 1)
        value = Value("const", (), y.dtype, Level.SCALAR, number)
        to = Operand(y.dtype, (True,) * len(space))
        kernel = Kernel(len(space), len(space), (to,), 0, (value,), (Store(0, 0),))
        loops = lay_out(kernel, [y.reshape(space)], space)
        assert isinstance(loops, Loops), "there is no input to be copied"
        self.kernel(kernel, loops, [place], [()], {0} if y.ctypes.data % 16 else set())

    def _join(
        self,
        kernel: Kernel,
        loops: Loops,
        number: int,
        dims: Sequence[str],
        sizes: Mapping[str, int],
    ) -> tuple[Kernel, Loops]:
        """Return what brings a result from aside to its operand, adding up what has one place."""
        store = kernel.stores[number]
        access, strides = loops.pattern.accesses[store.operand], loops.strides[store.operand]
        source, target = kernel.values[store.value].dtype, kernel.operands[store.operand].dtype
        last = dims[-1] if dims and dims[-1] in ("col", "block") else None
        outer = tuple(sizes[d] for d in dims if d != last)
        columns = sizes[last] if last else 1
        lying = [n * source.itemsize for n in _strides([*outer, columns])]
        to = [strides[int(d[1:])] if d[0] == "i" else 0 for d in dims if d != last]
        to.append(strides[-1] if last == "col" else 0)
        moves = tuple(stride != 0 for stride in to[:-1])
        walk = {"col": access.column, "block": "zero"}.get(last or "", "unit")
        accesses = Access("unit", (True,) * len(outer)), Access(walk, moves)
        operands = (
            Operand(source, (True,) * len(lying)),
            Operand(target, (*moves, last != "block")),
        )
        load = Value("load", (), source, Level.ELEMENT, 0)
        joined = Store(1, 0, "sum" if is_sum(store) else "set")
        add = Kernel(len(lying), 1, operands, 1, (load,), (joined,))
        return add, Loops(Pattern(accesses), outer, columns, (tuple(lying), tuple(to)))


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def _even(kernel: Kernel, loops: Loops) -> int:
    """Return the power of two that columns, and the strides of rows, are all multiples of."""
    found = loops.columns
    for operand, access, strides in zip(
        kernel.operands, loops.pattern.accesses, loops.strides, strict=True
    ):
        if access.column == "unit":
            found = functools.reduce(
                math.gcd, (s // operand.dtype.itemsize for s in strides[:-1]), found
            )
    return math.gcd(found, MOST_EVEN) if found else 1


def _reach(loops: Loops, kernel: Kernel) -> int:
    """Return how far from its first element an operand goes, at most."""
    sizes = (*loops.outer, loops.columns)
    return max(
        (
            sum(abs(s) * n for s, n in zip(strides, sizes, strict=True)) // operand.dtype.itemsize
            for operand, strides in zip(kernel.operands, loops.strides, strict=True)
        ),
        default=0,
    )


@functools.lru_cache(maxsize=2048)
def loaded(text: str) -> Any:
    """Return the Triton function ``fused`` of a module; debuggers find its lines."""
    name = f"<gradwright {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    space: dict[str, Any] = {"__name__": "gradwright_kernels.generated"}
    exec(compile(text, name, "exec"), space)
    return space["fused"]
