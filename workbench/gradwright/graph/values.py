"""Values: the arrays behind variables and constants, with versions.

A commit swaps in new arrays, or writes over one that nobody else holds, be it a view of it. So
whatever was handed out, a snapshot or a check running in another thread keeps reading what it got,
at no cost.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import operator
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import GraphError, ShapeError
from ..spec import TensorSpec
from ..spec.buffer import Buffer
from .coerce import coerce
from .store import Packed, Store

if TYPE_CHECKING:
    from .graph import Graph
    from .tensor import Node

Array = np.ndarray[Any, Any]


def read_only(array: Array) -> Array:
    """Return a view nobody can write through."""
    view = array.view()
    view.flags.writeable = False
    return view


class Values(Mapping[str, Array]):
    """Arrays of a graph's variables and constants by name; reading gives read-only views.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2,))
    >>> before = g.values["w"]
    >>> g.values["w"] = [1.0, 2.0]
    >>> with g.values.edit("w") as array:
    ...     array[0] = 5.0
    >>> before.tolist(), g.values["w"].tolist(), g.values.version("w")
    ([0.0, 0.0], [5.0, 2.0], 2)
    """

    def __init__(self, graph: Graph | None = None) -> None:
        self._graph = graph
        self._arrays = Store()
        self._versions: dict[str, int] = {}
        self.latest: Reader | None = None
        """The reader that knows of every change, and whose writes may not be counted yet; nobody
        else has got an array since."""
        self.lock = threading.RLock()
        self._readers: weakref.WeakSet[Reader] = weakref.WeakSet()
        self._taken: weakref.WeakValueDictionary[int, Values] = weakref.WeakValueDictionary()
        """Snapshots of all values of the graph that somebody holds, by id."""

    def __getitem__(self, name: str) -> Array:
        try:
            return read_only(self.array(name))
        except KeyError:
            import difflib

            close = difflib.get_close_matches(str(name), list(self), 3, 0.5)
            raise GraphError(
                f"no variable or constant is called {name!r}",
                hint=" or ".join(map(repr, close)) or "list(g.values) gives all names",
            ) from None

    def __setitem__(self, name: str, value: Any) -> None:
        self._check_variable(name)
        array = coerce(value, self._arrays.spec(name), f"variable {name!r}")
        self.commit({name: array.copy()})

    def _check_variable(self, name: str) -> None:
        if name not in self:
            raise GraphError(
                f"no variable or constant is called {name!r}",
                hint="g.variable(name, shape) makes one",
            )
        if self._graph is not None and self._graph[name].kind == "constant":
            raise GraphError(f"{name!r} is a constant", hint="g.to_variable(name) first")

    def __contains__(self, name: object) -> bool:
        return name in self._arrays or name in self._arrays.packed

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays.names())

    def __len__(self) -> int:
        return len(self._arrays.names())

    def __repr__(self) -> str:
        of = f" of graph {self._graph.name!r}" if self._graph is not None else ""
        return f"<Values{of}: {len(self)} arrays, {self._arrays.nbytes:,} bytes>"

    def version(self, name: str) -> int:
        """Return how often the value has been replaced, counting other variables of that name."""
        with self.lock:
            self._settle()
            return self._versions[name]

    @contextlib.contextmanager
    def edit(self, name: str) -> Iterator[Array]:
        """Give a writable copy that becomes the value when the block ends without an error."""
        array = self[name].copy()
        yield array
        self[name] = array

    def snapshot(self, names: Iterable[str] | None = None) -> Values:
        """Return an independent copy of all values, or of some.

        It shares memory until one side changes: what it has is not written in place meanwhile.
        """
        copy = Values(self._graph)
        with self.lock:
            self._lend()
            copy._taken = self._taken
            self._taken[id(copy)] = copy
            copy._arrays = self._arrays.copy(names)
            copy._versions = {name: self._versions[name] for name in copy._arrays.names()}
        return copy

    def restore(self, snapshot: Mapping[str, Array]) -> None:
        """Set all variables that ``snapshot`` holds, all or none; constants stay what they are."""
        new = {}
        for name, array in snapshot.items():
            held = self[name]
            if self._graph is None or self._graph[name].kind != "constant":
                spec = TensorSpec(held.shape, held.dtype)
                value = coerce(array, spec, f"variable {name!r}")
                new[name] = value if isinstance(snapshot, Values) else value.copy()
        self.commit(new)

    # -- for the engine: no checks, no copies ----------------------------------------------------

    def array(self, name: str) -> Array:
        """Return the stored array itself, for the engine: it is not written while it is held."""
        with self.lock:  # a commit may be writing it
            self._lend()
            return self._arrays[name]

    def stored(self, node: Node) -> Array:
        """Return the array of a variable, or of a constant: its graph's in any snapshot."""
        if node.kind == "constant":
            return node.graph.values.array(node.name)
        if node.name not in self:
            made = f"made at {node.where or 'no line'}, after they were taken"
            raise GraphError(f"the values have no variable {node.name!r}", facts=[made])
        if not self.fits(node):
            was, now = self._arrays.spec(node.name), node.outputs[0].spec
            raise GraphError(
                f"variable {node.name!r} is {now}, and was {was} when the values were taken",
                hint="values = g.values.snapshot() again",
            )
        return self.array(node.name)

    def fits(self, node: Node) -> bool:
        """Tell whether there is a value of a variable as it is now; snapshots may be older."""
        if node.name not in self:
            return False
        held, spec = self._arrays.spec(node.name), node.outputs[0].spec
        return (held.shape, held.dtype) == (spec.shape, spec.dtype)

    def buffer(self, name: str) -> Buffer | None:
        """Return the buffer that a value lies in; None where it is an array."""
        held = self._arrays.packed.get(name)
        return None if held is None else held.buffer

    def pack(self, name: str, buffer: Buffer) -> None:
        """Let a buffer be the value, for reading; what is committed over it is an array again."""
        self._check_variable(name)
        with self.lock:
            if buffer.spec != (spec := self._arrays.spec(name)):
                raise ShapeError(
                    f"{name!r} cannot lie in a buffer of {buffer.spec}", need=f"{spec}"
                )
            self._hold(name, buffer)

    def begin(self, name: str, value: Array | Buffer) -> None:
        """Let an array that is given away, or a buffer, be the first value of a variable."""
        if isinstance(value, np.ndarray):
            self.commit({name: value})
            return
        with self.lock:
            self._hold(name, value)

    def _hold(self, name: str, buffer: Buffer) -> None:
        """Let a value lie in a buffer; under the lock."""
        self._lend()
        held, drop = {name: Packed(buffer)}, functools.partial(self._arrays.pop, name, None)
        raised = {name: self._versions.get(name, -1) + 1}
        takes = functools.partial(self._arrays.packed.update, held)
        atomically([takes, drop, functools.partial(self._versions.update, raised)])

    def overwritten(self, names: Iterable[str]) -> None:
        """Count a change of values whose buffers were written over by whom they belong to."""
        changed = list(names)
        with self.lock:
            self._lend()
            self._arrays.forget(changed)
            self._versions.update([(name, self._versions[name] + 1) for name in changed])

    def move(self, buffers: Mapping[str, Buffer]) -> None:
        """Let values lie in buffers that hold what they are: for who reads nothing changes."""
        with self.lock:
            self._lend()
            held = {name: Packed(buffer) for name, buffer in buffers.items()}
            drops = [functools.partial(self._arrays.pop, name, None) for name in held]
            atomically([functools.partial(self._arrays.packed.update, held), *drops])

    def commit(self, new: Mapping[str, Array]) -> None:
        """Swap in the arrays, all at once; the caller gives them away."""
        with self.lock:
            atomically(self.swapping(new))

    def swapping(
        self, new: Mapping[str, Array], counts: Iterable[tuple[str, int]] = ()
    ) -> list[Callable[[], Any]]:
        """Return calls that swap in arrays, and count what was written; under the lock."""
        self._lend()
        calls: list[Callable[[], Any]] = []
        if counts:
            calls.append(functools.partial(self._versions.update, counts))
        if new:
            raised = {name: self._versions.get(name, -1) + 1 for name in new}
            packed = self._arrays.packed
            calls += [functools.partial(packed.pop, name) for name in new if name in packed]
            calls.append(functools.partial(self._arrays.update, new))
            calls.append(functools.partial(self._versions.update, raised))
        return calls

    def reader(self, names: Sequence[str], written: Sequence[str] = ()) -> Reader:
        """Return what reads some of the values again and again, and may write over ``written``."""
        made = Reader(self, names, written)
        self._readers.add(made)
        return made

    def _settle(self) -> None:
        """Count what the latest reader has written in place; under the lock."""
        latest, held = self.latest, self._versions
        if latest is not None and (n := latest.writes.item()):
            raised = {name: held[name] + n for name in latest.written}
            clear = functools.partial(latest.writes.fill, 0)
            atomically([functools.partial(held.update, raised), clear])

    def _lend(self) -> None:
        """Have the latest reader look again, as somebody else gets an array; under the lock."""
        self._settle()
        self.latest = None

    def discard(self, name: str) -> None:
        """Forget a value whose node was removed."""
        with self.lock:
            self._lend()
            self._arrays.packed.pop(name, None)
            self._arrays.pop(name, None)  # the count goes on if a cell makes the variable anew

    def rename(self, old: str, new: str) -> None:
        """Move a value to another name, in all snapshots and for all readers, too."""
        for values in (self, *self._taken.values()):
            if old in values:
                values._rename(old, new)

    def _rename(self, old: str, new: str) -> None:
        with self.lock:
            self._lend()
            stores: tuple[dict[str, Any], ...] = self._arrays, self._arrays.packed
            for held in stores:
                if old in held:
                    held[new] = held.pop(old)
            self._versions[new] = max(self._versions.get(new, -1), self._versions[old]) + 1
            for reader in list(self._readers):
                reader.rename(old, new)


class Reader:
    """Some of the values: their arrays, how often each has changed, and who else holds them.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w, b = g.variable("w", (2,)), g.variable("b", ())
    >>> reader = g.values.reader(["w", "b"])
    >>> seen = g.values["b"]
    >>> held = reader.arrays()
    >>> reader.are_free(held), reader.counts()
    ([True, False], (0, 0))
    """

    def __init__(self, values: Values, names: Sequence[str], written: Sequence[str]) -> None:
        self.values, self.names, self.written = values, tuple(names), tuple(written)
        self._get = _getter(names)
        self.writes = np.zeros(1, np.int64)
        """How often ``written`` have been overwritten and not been counted; machine code adds."""
        self.is_sole = False
        """Whether nobody has held an array since ``see``; whoever looks at ``all_free`` sets it."""
        self._all_free = [_HELD_TWICE] * len(self.names)

    def arrays(self) -> tuple[Array, ...]:
        """Return the arrays; take the lock to get all from between two commits."""
        if self.values.latest is not self:
            self.values._lend()
        return self._get(self.values._arrays)

    def rename(self, old: str, new: str) -> None:
        """Read a value by another name; under the lock."""
        self.names, self.written = (
            tuple([new if name == old else name for name in names])
            for names in (self.names, self.written)
        )
        self._get = _getter(self.names)

    @property
    def is_latest(self) -> bool:
        """Whether only what was written here has changed since ``see``; under the lock."""
        return self.values.latest is self

    def see(self) -> tuple[int, ...]:
        """Return how often each has changed, and know of it; under the lock."""
        found = self.counts()
        self.values.latest, self.is_sole = self, False
        return found

    def counts(self) -> tuple[int, ...]:
        """Return how often each has been replaced or written; under the lock."""
        self.values._settle()
        return self._get(self.values._versions)

    def are_free(self, held: tuple[Array, ...]) -> list[bool]:
        """Tell which arrays nobody holds but the values and the tuple ``held``; under the lock."""
        return [count == _HELD_TWICE for count in _references(held)]

    def all_free(self, held: tuple[Array, ...]) -> bool:
        """Tell whether nobody else holds any of the arrays; under the lock."""
        return [*_references(held)] == self._all_free


def _getter(names: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    if len(names) > 1:
        return operator.itemgetter(*names)
    return lambda mapping: tuple(mapping[name] for name in names)


def _references(arrays: tuple[Array, ...]) -> Iterable[int]:
    return map(sys.getrefcount, arrays)


def _held_twice() -> int:
    store = {"": np.empty(0)}
    held = (store[""],)
    return next(iter(_references(held)))


_HELD_TWICE = _held_twice()


def atomically(calls: Iterable[Callable[[], Any]]) -> None:
    """Make calls that are not of Python's own code; no Ctrl-C comes between two of them.

    Python sees to signals between its own instructions, and there is none until all is done.
    """
    collections.deque(map(operator.call, calls), 0)
