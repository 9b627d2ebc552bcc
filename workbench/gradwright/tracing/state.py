"""The trace that is being recorded: its graph, and what comes into it from outside."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..errors import GradwrightError
from ..graph import Graph, Tensor
from ..ops.core.choice import Maximum, Where
from ..ops.core.like import SizeOf
from ..spec import Dim, TensorSpec
from ..spec import dtype as as_dtype
from ..spec.rounding import rounded
from .lazy import LazyArray
from .operators import as_number
from .refusals import refusal
from .registry import call
from .sole import SOLE

Array = np.ndarray[Any, Any]


class Capture:
    """An array from outside that a trace met: a placeholder that is fed at each run."""

    def __init__(self, array: Array, lazy: LazyArray) -> None:
        self.array, self.lazy, self.tensor = array, lazy, lazy.tensor


class Recording:
    """What is being traced: a graph, its inputs, and the arrays it met on the way."""

    def __init__(self, name: str, what: str, outside: Mapping[int, str] | None = None) -> None:
        self.graph, self.what = Graph(name), what
        self.open = True
        self.compute: Callable[[LazyArray], Array] | None = None
        """What gives the elements of an array after the end, where that is offered."""
        self.dynamic = False
        """Whether some sizes are known only when run, so that shapes are asked of the tensors."""
        self.sizes: dict[str, int] = {}
        """An example of each size, for what depends on the order in memory."""
        self.outside = outside or {}
        """Addresses of arrays that live longer than the trace -> what they are called."""
        self.captures: dict[int, Capture] = {}
        self.temporary: list[tuple[Array, Array]] = []
        """Arrays that the traced code made itself, with what they held: constants of the graph."""
        self.locked: list[Array] = []

    def require_open(self, what: str) -> None:
        """Refuse to record after the end, which would change nothing that ever runs."""
        if not self.open:
            raise refusal(
                f"{what} after the end of {self.what}",
                need="a lazy array of a trace that is being recorded",
                hint="return it from the traced function, or np.array(lazy) after a `with` block",
            )

    # -- what comes in ---------------------------------------------------------------------------

    def fresh(self, tensor: Tensor, like: Array | None = None) -> LazyArray:
        """Return a tensor of the graph as a new array that nobody else has."""
        return LazyArray.of(self, tensor, like)

    def input(self, name: str, spec: TensorSpec) -> LazyArray:
        """Add an input, under the name if that is free."""
        free, n = name, 1
        while free in self.graph:
            n += 1
            free = f"{name}_{n}"
        if not spec.is_concrete:
            self.dynamic = True
        made = self.fresh(self.graph.placeholder(free, spec.shape, spec.dtype))
        made.scalar = False
        return made

    def constant(self, array: Array) -> Tensor:
        """Return a literal as a tensor."""
        if array.ndim == 0 and array.dtype.kind in "biufc":
            return self.graph.scalar(array[()], array.dtype)
        return self.graph.constant(array)

    def number(self, value: Any, dtype: np.dtype[Any]) -> Tensor:
        """Return a Python number in the dtype that numpy gives it beside arrays."""
        return self.constant(rounded(value, dtype))

    def lift(self, value: Any) -> LazyArray:
        """Return any value that numpy's functions take as an array of this trace."""
        if isinstance(value, LazyArray):
            return self.own(value)
        if isinstance(value, Tensor):
            if value.graph is not self.graph:
                raise refusal(
                    f"tensor {value.name!r} is of another graph than {self.what}",
                    hint="build it inside the trace, or pass its value as an array",
                )
            return self.fresh(value)
        if isinstance(value, Dim):
            return as_number(self.fresh(self.size(value)))
        if isinstance(value, np.ndarray):
            return self.array(value)
        if isinstance(value, (list, tuple)) and _holds_lazy(value):
            stacked: LazyArray = call(np.stack, [self.lift(v) for v in value])
            return stacked
        array = np.asarray(value)
        self.supported(array.dtype, value)
        made = self.fresh(self.constant(array))
        made.scalar = not array.ndim
        return as_number(made) if type(value) in (int, float, complex) else made

    def own(self, value: LazyArray) -> LazyArray:
        """Return a lazy array if it is of this trace; of one that has ended, its value."""
        if value.owner is not self:
            if self.open and value.ended:
                return self.lift(value.elements(self.what))
            if not value.owner.open:
                raise refusal(
                    f"a lazy array of {value.owner.what}, which has ended, is used in {self.what}",
                    hint="np.asarray(lazy) after a `with` block, or return it from the function",
                )
            raise refusal(
                f"lazy arrays of {value.owner.what} and of {self.what} are mixed",
                hint="make both in one trace",
            )
        return value

    def supported(self, dtype: np.dtype[Any], value: Any) -> None:
        """Refuse what no tensor holds: objects, dates, long doubles, matrices, masked arrays."""
        if isinstance(value, np.ndarray) and type(value) not in (np.ndarray, np.memmap):
            raise refusal(
                f"a {type(value).__name__} has rules of its own, which a trace does not know",
                hint="np.asarray(x) before the call",
            )
        try:
            as_dtype(dtype)
        except GradwrightError:
            raise refusal(
                f"{type(value).__name__} of dtype {dtype} cannot be part of a trace",
                need="numbers and booleans that gradwright has: float64, int32, ...",
                hint="convert it first, or compute it outside and pass it as an argument",
            ) from None

    def array(self, array: Array) -> LazyArray:
        """Return an array from outside: an input if others hold it, a constant if it is new here.

        What the function's arguments, closure and globals hold is read anew at each call.
        """
        key = id(array)
        if key in self.captures:
            return self.captures[key].lazy
        self.supported(array.dtype, array)
        if key in self.outside:
            made = self.input(self.outside[key], TensorSpec(array.shape, array.dtype))
            self.captures[key] = Capture(array, made)
            self.lock(array)
            return made
        for known, content in self.temporary:
            if known is array and _same(content, array):
                return self.fresh(self.constant(content))
        content = np.array(array)
        self.temporary.append((array, content))
        return self.fresh(self.constant(content))

    def holds(self, array: Array) -> bool:
        """Tell whether an array is read anew at each call."""
        return id(array) in self.captures or id(array) in self.outside

    def written(self, array: Array, holders: int) -> LazyArray:
        """Return the lazy array that takes the place of a plain one in ``total += lazy``.

        That is right where nothing else holds the plain array, which keeps its old elements.
        """
        if id(array) in self.outside or holders > SOLE:
            raise refusal(
                "a plain array is written by a lazy one, and would keep its old elements",
                need="a lazy array there",
                hint="np.zeros_like(x) or np.zeros(n, like=x) makes one; an array from outside is "
                "written where it is an argument",
            )
        lazy = self.array(array)
        lazy.scalar = False
        return lazy

    def lock(self, array: Array) -> None:
        """Refuse plain writes while tracing: they would happen once, and never again."""
        if array.flags.writeable:
            array.flags.writeable = False
            self.locked.append(array)

    def close(self) -> None:
        """End the recording, and let arrays be written again."""
        self.open = False
        for node in self.graph.all_nodes:
            node.cell = (
                None  # a notebook cell that runs again calls the graph, and does not edit it
            )
        for array in reversed(self.locked):
            array.flags.writeable = True
        self.locked.clear()

    def survivors(self) -> list[tuple[Array, Array]]:
        """Return the constants that somebody outside still holds, with what they held."""
        held, self.temporary = self.temporary, []
        found = []
        while held:
            array, content = held.pop()
            owner = array if array.base is None else array.base
            own = 2 if owner is not array else 3  # of the view, or this frame's two, and the call's
            if sys.getrefcount(array) > 2 or (
                owner is not array and sys.getrefcount(owner) > own + 1
            ):
                found.append((array, content))
        return found

    # -- sizes ------------------------------------------------------------------------------------

    def size(self, dim: Dim | int) -> Tensor:
        """Return a size that is known only when run as an int64 tensor."""
        if isinstance(dim, int):
            return self.number(dim, np.dtype(np.int64))
        total: Any = None
        for monomial, coefficient in dim.terms:
            term: Any = self.number(coefficient, np.dtype(np.int64))
            for atom, power in monomial:
                if isinstance(atom, str):
                    value: Any = next(
                        SizeOf(axis=axis)(t)
                        for node in self.graph.nodes
                        for t in node.outputs
                        for axis, d in enumerate(t.shape)
                        if d == Dim.symbol(atom)
                    )
                else:
                    value = self._function(*atom)
                for _ in range(power):
                    term = term * value
            total = term if total is None else total + term
        return total  # type: ignore[no-any-return]

    def _function(self, name: str, *args: Dim | int) -> Any:
        """Return the value of a function of sizes."""
        found, *rest = (self.size(a) for a in args)
        if name == "max":
            return Maximum()(found, 0)
        for size in rest:
            found = found // size if name == "//" else Where()(found == 1, size, found)
        return found


def _holds_lazy(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_holds_lazy, value))
    return isinstance(value, (LazyArray, Tensor, Dim))


def _same(a: Array, b: Array) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
