"""A traced function: its graph, what is fed and fetched, and what is written back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import GradientError, TraceError, raised_at
from ..gradient import gradients
from ..graph import Graph, Tensor, ancestors
from ..session import Session
from ..spec import AnyDim, Dim, TensorSpec, is_floating
from .arguments import current
from .guards import Guards, same_items
from .lazy import LazyArray, settled
from .nested import replaced
from .operators import as_number
from .refusals import refusal
from .signature import Leaf, Signature
from .state import Recording

if TYPE_CHECKING:
    from ..plan import Plan

Array = np.ndarray[Any, Any]
Pattern = Sequence[tuple[AnyDim, ...]]
"""The shape of each traced argument, with symbols for sizes that differ between calls."""


class Traced:
    """One trace of a function: what ``fn.lower(...)`` returns.

    >>> import gradwright as gw, numpy as np
    >>> traced = gw.compile(lambda x: np.exp(x).sum()).lower(np.ones(3))
    >>> [n.op.name for n in traced.graph.nodes], [str(t.spec) for t in traced.outputs]
    (['placeholder', 'exp', 'sum'], ['f64[]'])
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        signature: Signature,
        leaves: list[Leaf],
        pattern: Pattern,
        options: dict[str, Any],
    ) -> None:
        self.pattern = pattern
        others = [leaf.value for leaf in leaves]
        objects = _objects(args, kwargs)
        self.guards = Guards(fn, objects)
        name = getattr(fn, "__name__", type(fn).__name__)
        self._trace = Recording(_plain(name), f"{name}()", self.guards.arrays)
        self.graph: Graph = self._trace.graph
        made = [self._input(leaf, dims) for leaf, dims in zip(leaves, pattern, strict=True)]
        self.inputs = [x.tensor for x in made]
        first = {id(v): x for v, x in zip(reversed(others), reversed(made), strict=True)}
        shared = [
            first[id(leaf.value)] if leaf.kind == "array" else x
            for leaf, x in zip(leaves, made, strict=True)
        ]
        result = self._record(fn, args, kwargs, signature, shared)
        self._finish(result, leaves, shared)
        self.session = Session(self.graph, **options)
        fed = [t for _, t in self._read] + [t for t, _ in self._outside]
        self._run = self.session.prepare(list(self.outputs), fed) if self.outputs else None

    def _input(self, leaf: Leaf, dims: tuple[AnyDim, ...]) -> LazyArray:
        """Return a traced argument: it lies in memory as the one of this call does."""
        array = np.asarray(leaf.value)
        self._trace.supported(array.dtype, leaf.value)
        for d, n in zip(dims, array.shape, strict=True):
            if isinstance(d, Dim):
                self._trace.sizes[str(d)] = n
        x = self._trace.input(_plain(leaf.path), TensorSpec(dims, array.dtype))
        x.name = leaf.path
        if leaf.kind == "array":
            x.shadow = _laid_out(x.shadow, array)
        else:
            x.scalar = True
        return as_number(x) if leaf.kind == "number" else x

    def _record(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        signature: Signature,
        made: list[LazyArray],
    ) -> Any:
        self._kept: list[Any] = []
        positional, named = signature.lifted(args, kwargs, iter(made), self._kept)
        token = current.set(self._trace)
        try:
            with self.graph, np.errstate(all="ignore"):
                try:
                    return fn(*positional, **named)
                except ValueError as error:
                    unread = isinstance(error.__cause__, TraceError)
                    if unread or ("read-only" in str(error) and self._trace.locked):
                        raise _plain_write(error) from None
                    raise
        finally:
            current.reset(token)
            self._trace.close()

    def _finish(self, result: Any, leaves: list[Leaf], made: list[LazyArray]) -> None:
        """Fix what is fetched, written back and returned."""
        if source := self.guards.drawn():
            raise refusal(
                f"{self._trace.what} draws from {source}: each call would get the same numbers",
                hint="gw.random.normal(...) in the function, or pass the numbers as an argument",
            )
        if name := self.guards.changed():
            raise refusal(
                f"{self._trace.what} changes {name!r}, which is outside: it would happen once",
                hint="return the new value; arrays may be written in place",
            )
        for name, container, before in self._kept:
            if not same_items(container, before):
                raise refusal(
                    f"{self._trace.what} changes the {type(container).__name__} {name!r}: the "
                    "caller's would stay what it is",
                    hint=f"return the new {name}; arrays in it may be written in place",
                )
        outputs: list[Tensor] = []
        self._returned = [(x, i) for i, x in enumerate(made) if leaves[i].kind == "array"]

        def fetch(value: Any) -> Any:
            if isinstance(value, Dim):
                value = as_number(self._trace.fresh(self._trace.size(value)))
            if isinstance(value, Tensor):
                value = self._trace.fresh(value)
            value = settled(value)
            if isinstance(value, np.ndarray):
                return _Constant(value, id(value) in self.guards.arrays, self._trace)
            for x, i in self._returned:
                if value is x:
                    return _Argument(i)
            for capture in self._trace.captures.values():
                if value is capture.lazy:
                    return _Constant(capture.array, True, self._trace)
            self._trace.own(value)
            outputs.append(value.tensor)
            return _Fetched(len(outputs) - 1, value.scalar, value.weak)

        kinds = (LazyArray, Tensor, Dim, np.ndarray)
        self._result = replaced(result, fetch, lambda v: isinstance(v, kinds))
        _check_result(self._result, self._trace.what)
        self.n_results = len(outputs)
        self.writes: list[tuple[int, int]] = []
        """Numbers of arguments that are written, and of the outputs that are their new values."""
        for x, i in self._returned:
            if x.storage.version and not any(place == i for place, _ in self.writes):
                self.writes.append((i, len(outputs)))
                outputs.append(x.storage.tensor)
        self.outputs = tuple(outputs)
        self.captures = [(c.tensor, c.array) for c in self._trace.captures.values()]
        self.constants = self._trace.survivors()
        self._feeds(self.outputs)

    def _feeds(self, fetches: Sequence[Tensor]) -> None:
        """Find which arguments and outside arrays are read at all."""
        used = set(ancestors(fetches))
        self._read = [(i, t) for i, t in enumerate(self.inputs) if t.node in used]
        self._outside = [(t, a) for t, a in self.captures if t.node in used]

    # -- running ---------------------------------------------------------------------------------

    def stale(self) -> str:
        """Return the name of what the function sees outside that has changed, or ""."""
        for array, content in self.constants:
            if array.shape != content.shape or array.tobytes() != content.tobytes():
                return "an array that an object holds"
        return self.guards.changed()

    def __call__(self, leaves: Sequence[Leaf]) -> Any:
        """Run on other arguments of this signature."""
        if self.writes:
            self._check_overlaps(leaves)
        if self._run is None:
            return self.finish((), leaves)
        fed = [leaves[i].value for i, _ in self._read]
        return self.finish(self._run(*fed, *(a for _, a in self._outside)), leaves)

    def finish(self, found: Sequence[Any], leaves: Sequence[Leaf]) -> Any:
        """Write back what was written in place, and return results in the function's structure."""
        for place, number in self.writes:
            np.copyto(leaves[place].value, found[number])
        result = self._result
        if type(result) is _Fetched:
            return result.of(found)
        return replaced(
            result,
            lambda r: r.of(found) if isinstance(r, _Fetched) else r.of_call(leaves),
            lambda r: isinstance(r, (_Fetched, _Argument, _Constant)),
        )

    def _check_overlaps(self, leaves: Sequence[Leaf]) -> None:
        """Refuse arguments that share memory where one is written: numpy would show it in both."""
        arrays = {id(leaf.value): leaf.value for leaf in leaves if leaf.kind == "array"}
        arrays |= {id(a): a for _, a in self.captures}
        for place, _ in self.writes:
            target = leaves[place].value
            for other in arrays.values():
                if other is not target and np.may_share_memory(other, target):
                    raise TraceError(
                        f"{self._trace.what} writes into an array that another argument overlaps",
                        hint="pass copies",
                    )

    @property
    def plan(self) -> Plan:
        """The plan that runs for these shapes."""
        shapes = {t: t.shape for _, t in self._read} | {t: a.shape for t, a in self._outside}
        return self.session.plan(list(self.outputs), shapes)

    # -- gradients -------------------------------------------------------------------------------

    def with_gradients(self, leaves: Sequence[Leaf], wanted: Sequence[int]) -> tuple[Any, Any]:
        """Return the results of a run, and the gradients with respect to some leaves."""
        grads = self.gradient_tensors(wanted)
        fetches = (*self.outputs, *grads)
        used = set(ancestors(fetches))
        feeds: dict[Tensor, Any] = {
            t: leaf.value for t, leaf in zip(self.inputs, leaves, strict=True) if t.node in used
        }
        feeds.update({t: a for t, a in self.captures if t.node in used})
        found = self.session.run(fetches, feeds)
        n = len(self.outputs)
        return self.finish(found[:n], leaves), [g if g.ndim else g[()] for g in found[n:]]

    def gradient_tensors(self, wanted: Sequence[int]) -> list[Tensor]:
        """Return the gradients of the result with respect to some leaves."""
        loss = self._result[0] if isinstance(self._result, tuple) else self._result
        if not isinstance(loss, _Fetched):
            raise GradientError(f"{self._trace.what} returns no lazy scalar to differentiate")
        y = self.outputs[loss.place]
        if y.rank or not is_floating(y.dtype):
            raise GradientError(
                f"{self._trace.what} returns {y.spec}", need="one float: f64[]", hint="y.sum()"
            )
        xs = [self.inputs[i] for i in wanted]
        for x in xs:
            if not is_floating(x.dtype):
                raise GradientError(f"argument {x.name!r} is {x.spec}", need="floats")
        return gradients(y, xs, unreachable="zero")


class _Fetched:
    """A result that is computed."""

    __slots__ = ("number", "place", "scalar")

    def __init__(self, place: int, scalar: bool, number: bool) -> None:
        self.place, self.scalar, self.number = place, scalar, number

    def of(self, found: Sequence[Any]) -> Any:
        """Return it, as an array or as the scalar that numpy would return."""
        value = found[self.place]
        if self.number:
            return value.item()
        if self.scalar:
            return value[()]
        return value if value.flags.writeable else value.copy()


class _Argument:
    """A result that is an argument itself."""

    __slots__ = ("place",)

    def __init__(self, place: int) -> None:
        self.place = place

    def of_call(self, leaves: Sequence[Leaf]) -> Any:
        """Return the argument of this call."""
        return leaves[self.place].value


class _Constant:
    """A result that is a plain array: one from outside, or made anew by each call."""

    __slots__ = ("array", "outside")

    def __init__(self, array: Array, outside: bool, trace: Recording) -> None:
        self.array = array if outside else array.copy()
        self.outside = outside

    def of_call(self, leaves: Sequence[Leaf]) -> Any:
        """Return the array, or a copy of what the function made."""
        return self.array if self.outside else self.array.copy()


def _plain_write(error: ValueError) -> TraceError:
    """Return what says that a plain array cannot hold lazy elements, and at which line."""
    made = refusal(
        "a plain array is written in place while it is traced",
        hint="np.zeros_like(x) or np.zeros(n, like=x) makes a lazy one; "
        'or @gw.compile(fallback="eager")',
    )
    made.where = raised_at(error) or made.where
    return made


def _check_result(result: Any, what: str) -> None:
    if isinstance(result, dict):
        for value in result.values():
            _check_result(value, what)
    elif isinstance(result, (list, tuple)):
        for value in result:
            _check_result(value, what)
    elif hasattr(result, "__dict__") and any(
        isinstance(v, LazyArray) for v in vars(result).values()
    ):
        raise refusal(
            f"{what} returns a {type(result).__name__} that holds lazy arrays",
            need="arrays in lists, tuples and dicts",
        )


def _plain(name: str) -> str:
    """Return a name that a graph takes."""
    text = "".join(c if c.isalnum() or c in "_." else "_" for c in name).strip("_.")
    return text or "traced"


def _laid_out(stand_in: Array, array: Array) -> Array:
    """Return a shadow with the strides of an argument."""
    if not array.flags.c_contiguous and array.shape == stand_in.shape:
        stand_in = np.lib.stride_tricks.as_strided(stand_in, array.shape, array.strides)
    if not array.flags.writeable:
        stand_in.flags.writeable = False
    return stand_in


def _objects(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that are objects, whose attributes the function may read."""
    named = {f"argument {i}": v for i, v in enumerate(args)} | kwargs
    plain = (np.ndarray, np.generic, list, tuple, dict)
    return {k: v for k, v in named.items() if not isinstance(v, plain)}
