"""Ops whose kernels are written as terms: generated over views of a step's arrays, one by one.

@written("argmax")                           what runs in every step is worked out once:
def argmax(work, op, xs, ys): ...            views of ghosts, terms over them, rooms between
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from gradwright.errors import LoweringError
from gradwright.fuse.builder import FLOAT32, INT64, Builder, Scalar, Table, Term
from gradwright.fuse.ir import Kernel
from gradwright.program.declined import DeclinedError
from gradwright.program.lowering import Launch, Make, lowering
from gradwright.spec import TensorSpec, is_half, spec_of

from ..device.array import DeviceArray
from ..launch import WHOLE, Strided, alarm, constant, is_dense, workspace
from .elements import DTYPES
from .group import launched

Array = np.ndarray[Any, Any]
WIDER = {
    **dict.fromkeys(("int8", "uint8", "int16", "uint16"), np.dtype("int32")),
    "uint32": INT64,
}
"""What ints are computed in that kernels only read and write."""


class Terms(Builder):
    """A kernel over an index space; arrays broadcast to it as in numpy."""

    def __init__(self, space: Sequence[int], n_columns: int = 0) -> None:
        super().__init__(len(space), n_columns)
        self.space = tuple(space)
        self.views: list[Array] = []
        self.stores: list[tuple[Term, Array, str]] = []

    def read(self, x: Array) -> Term:
        """Return the elements of an array; halves and narrow ints are widened."""
        x = x[(*(None,) * (self.rank - x.ndim), ...)]
        self.views.append(x)
        found = self.load(len(self.views) - 1, self._axes(x), x.dtype)
        return found.to(WIDER.get(x.dtype.name, found.dtype))

    @staticmethod
    def wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype in which numbers of this one are computed."""
        return FLOAT32 if is_half(dtype) else WIDER.get(dtype.name, dtype)

    def integer(self, number: int) -> Term:
        """Return a whole number."""
        return self.const(number, INT64)

    def table(self, x: Array, *axes: int) -> Table:
        """Return an array of which indices name places; the others run along axes of the space.

        ``axes`` has the axis of the space for each of x, or −1 and below for the first index, the
        second…
        """
        self.views.append(x)
        return Table(self, len(self.views) - 1, axes, x.dtype)

    def along(self, axis: int, x: Array, at: Term) -> Term:
        """Return what lies at places of one axis of an array whose others are those of the space.

        Of a single place there is nothing to choose.
        """
        if x.shape[axis] < 2:
            return self.read(x)
        kept = (i for i, n in enumerate(x.shape) if n != 1)
        return self.table(x, *(-1 if i == axis else i for i in kept)).at(at)

    def write(self, y: Array, term: Term, mode: str = "set") -> None:
        """Have an array be a term, or with ``mode="sum"`` its sum over axes that it lacks."""
        self.stores.append((term, y, mode))

    def _axes(self, x: Array) -> tuple[int, ...]:
        return tuple(i for i, n in enumerate(x.shape) if n != 1)

    def finished(self) -> tuple[Kernel, list[Array | Scalar], list[Array]]:
        """Return the kernel, what it reads, and what it writes."""
        stores = [(term, self._axes(y), mode, y.dtype) for term, y, mode in self.stores]
        kernel, sources = self.kernel(stores)
        xs = [s if isinstance(s, Scalar) else self.views[s] for s in sources]
        return kernel, xs, [y for _, y, _ in self.stores]


class Work:
    """The launches of a step; arrays are ghosts, whose memory nobody touches."""

    def __init__(self, name: str, xs: Sequence[Array | None], ys: Sequence[Array]) -> None:
        self._name = name
        self._arrays: list[Array | None] = [*xs, *ys]
        self._rooms: list[Any] = []
        self._runs: list[tuple[Launch, list[tuple[int, int, Array]], int]] = []

    def room(self, shape: Sequence[int], dtype: Any) -> Array:
        """Return memory between launches."""
        return self._held(TensorSpec(tuple(shape), dtype), workspace)

    def alarm(self, shape: Sequence[int] = ()) -> Array:
        """Return bools that say what is wrong; the op itself tells when the run is done."""
        return self._held(TensorSpec(tuple(shape), "bool"), alarm)

    def _held(self, spec: TensorSpec, make: Callable[[TensorSpec], Any]) -> Array:
        shape: Any = spec.shape
        self._rooms.append(make(spec))
        made = np.empty(shape, spec.dtype)
        self._arrays.append(made)
        return made

    def constant(self, array: Array) -> Array:
        """Return numbers that are known when the plan is made, in memory of the device."""
        dense = np.ascontiguousarray(array)
        self._rooms.append(constant(dense))
        self._arrays.append(dense)
        return dense

    def decline(self, need: str) -> NoReturn:
        """Say that there is no kernel for such inputs.

        Raises DeclinedError: always.
        """
        raise DeclinedError(f"{self._name} needs {need}")

    @staticmethod
    def wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype in which numbers of this one add up."""
        return FLOAT32 if is_half(dtype) else dtype

    @contextlib.contextmanager
    def over(self, space: Sequence[int], n_columns: int = 0) -> Iterator[Terms]:
        """Give a kernel to be written; it is launched after those before."""
        terms = Terms(space, n_columns)
        yield terms
        self.launch(terms)

    def launch(self, terms: Terms) -> None:
        """Launch a kernel that is written."""
        if not any(y.size for _, y, _ in terms.stores):
            return
        kernel, read, ys = terms.finished()
        one = (1,) * terms.rank
        xs = [
            self.constant(np.full(one, x.number, x.dtype)) if isinstance(x, Scalar) else x
            for x in read
        ]
        self.call(launched(kernel, terms.space, xs, ys, (self._name,)), xs, ys)

    def copy(self, y: Array, x: Array) -> None:
        """Launch a copy to a view, as it broadcasts, cast to its dtype."""
        x = np.broadcast_to(x, y.shape)
        with self.over(y.shape) as k:
            k.write(y, k.read(x))

    def cast(self, x: Array, dtype: Any) -> Array:
        """Return an array in another dtype, itself where it has it."""
        if x.dtype == dtype:
            return x
        made = self.room(x.shape, dtype)
        self.copy(made, x)
        return made

    def dense(self, x: Array) -> Array:
        """Return an array, or a copy of it where it does not lie dense, from an aligned address."""
        if is_dense(x):
            return x
        made = self.room(x.shape, x.dtype)
        self.copy(made, x)
        return made

    def add(self, y: Array, x: Array) -> None:
        """Launch what adds to a view."""
        with self.over(y.shape) as k:
            k.write(y, k.read(y) + k.read(x).to(self.wide(y.dtype)))

    def total(self, y: Array, x: Array) -> None:
        """Launch the sum of a view over the axes of which another one has a single place."""
        with self.over(x.shape) as k:
            k.write(y, k.read(x), "sum")

    def call(self, launch: Launch, xs: Sequence[Array], ys: Sequence[Array]) -> None:
        """Launch a kernel that is written by hand."""
        self._runs.append((launch, [(*self._owner(v), v) for v in (*xs, *ys)], len(xs)))

    def fill(self, y: Array, number: Any) -> None:
        """Launch what writes one number to all of a view."""
        with self.over(y.shape) as k:
            k.write(y, k.const(number, k.wide(y.dtype)))

    def places(self, n: int) -> Array:
        """Return 0, 1, … n − 1, in memory of their own."""
        y = self.room((n,), np.int64)
        with self.over((n,), 1) as k:
            k.write(y, k.column())
        return y

    def _owner(self, view: Array) -> tuple[int, int]:
        """Return which array a view is of, and how many bytes from its first element it begins."""
        if not view.size:
            return len(self._arrays) - 1, 0
        at = view.ctypes.data
        for n, array in enumerate(self._arrays):
            if array is None or not array.size:
                continue
            low, high = np.lib.array_utils.byte_bounds(array)
            if low <= at < high:
                return n, at - array.ctypes.data
        raise LoweringError(f"{self._name}: a view of no array of the step")

    def done(self) -> Launch:
        """Return what launches all of it."""
        rooms, runs = self._rooms, self._runs

        def run(xs: Sequence[Any], ys: Sequence[Any]) -> None:
            held = [*xs, *ys, *rooms]
            for launch, views, n in runs:
                arrays = [
                    DeviceArray(held[k].address + shift, spec_of(v), v.strides, name=held[k].name)
                    for k, shift, v in views
                ]
                launch(arrays[:n], arrays[n:])

        return run


Write = Callable[[Work, Any, Sequence[Any], Sequence[Array]], None]
"""Writes the kernels of an op; DeclinedError: it has none for such inputs."""


WRITTEN: dict[Write, list[str]] = {}
"""The ops whose kernels are written so, by what writes them."""


def written(*names: str, is_whole: bool = False) -> Callable[[Write], Write]:
    """Register the kernels of ops on numbers of dtypes that kernels know.

    ``is_whole`` keeps the ops out of fused groups, which would have worse kernels.
    """
    if is_whole:
        WHOLE.update(names)

    def decorate(write: Write) -> Write:
        WRITTEN.setdefault(write, []).extend(names)
        for name in names:
            lowering(name, device="cuda")(lowered(write))
        return write

    return decorate


def lowered(write: Write) -> Make:
    """Return the lowering that kernels make which are written as terms."""

    def make(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Strided | None:
        read = [s for i, s in enumerate(ins) if s is not None and i not in op.shape_only]
        if any(s.dtype.name not in DTYPES for s in (*read, *outs)):
            return None

        def bind(xs: Sequence[Any], ys: Sequence[Any]) -> Launch:
            work = Work(op.name, xs, ys)
            write(work, op, xs, ys)
            return work.done()

        return Strided(bind)

    return make
