"""How an op call finds its graph, and what names, literals and errors look like there."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import (
    ContractError,
    DTypeError,
    GradwrightError,
    GraphError,
    LoweringError,
    ShapeError,
    raised_at,
    user_site,
)
from ..op import Op
from ..spec import Dim, TensorSpec, dtype_name, kind, promote
from ..spec import dtype as as_dtype
from ..spec.buffer import Buffer
from ..spec.rounding import rounded
from .coerce import check_range, coerce
from .tensor import Constant, Node, Tensor

if TYPE_CHECKING:
    from .graph import Graph


Array = np.ndarray[Any, Any]


class _Active(threading.local):
    def __init__(self) -> None:
        self.stack: list[Graph] = []


active = _Active()
"""Graphs entered by ``with`` in this thread, innermost last."""


def active_graph() -> Graph | None:
    """Return the innermost graph of ``with g:`` or ``with g.scope(...)`` in this thread."""
    return active.stack[-1] if active.stack else None


def check_update(variable: Tensor, value: Tensor) -> None:
    """Refuse an update that would change a variable's shape or dtype."""
    if variable.kind != "variable":
        raise GraphError(f"{variable!r} is a {variable.kind}; only variables are updated")
    if value.graph is not variable.graph:
        raise GraphError("an update mixes two graphs", facts=[repr(variable), repr(value)])
    fits = len(value.shape) == len(variable.shape) and all(
        a == b or isinstance(a, Dim) for a, b in zip(value.shape, variable.shape, strict=True)
    )
    if not fits or value.dtype != variable.dtype:
        raise ShapeError(
            f"the update of {variable.name!r} has another spec",
            need=str(variable.spec),
            facts=[f"got {value.spec} from {value.name!r}"],
        )


_WIDTH = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3, "s": -1, "o": -1}


def dtype_beside(own: np.dtype[Any], held: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
    """Return the dtype of a number beside tensors: theirs, unless it is of a wider kind."""
    joint = functools.reduce(promote, held) if held else own
    return joint if _WIDTH[kind(own)] <= _WIDTH[kind(joint)] else own


def renumbered(
    graph: Graph, inputs: Sequence[Tensor | None], before: Sequence[np.dtype[Any] | None]
) -> list[Tensor | None]:
    """Return the inputs of a node whose dtypes have changed, numbers in the one that they take now.

    A number is a 0-d constant without a name of its own that had its neighbours' dtype ``before``.
    """
    found = list(inputs)
    places = [i for i, t in enumerate(inputs) if t is not None and _is_number(t)]
    others = [i for i, t in enumerate(inputs) if t is not None and i not in places]
    for i in places if others else ():
        t = inputs[i]
        assert t is not None
        value = t.graph.values.array(t.name).item()
        own = literal(value, None).dtype
        then = dtype_beside(own, [d for j in others if (d := before[j]) is not None])
        now = dtype_beside(own, [x.dtype for j in others if (x := inputs[j]) is not None])
        if before[i] == then and t.dtype != now:
            found[i] = graph.scalar(value, now)
    return found


def _is_number(t: Tensor) -> bool:
    plain = isinstance(t.op, Constant) and not t.rank and not t.spec.by_reference
    return plain and re.fullmatch(r"(.*/)?constant(_\d+)?", t.name) is not None


def initial(name: str, spec: TensorSpec, init: Any) -> Array | Buffer:
    """Return the first value of a variable, an array that nobody else has, or a buffer."""
    shape: tuple[int, ...] = spec.shape  # type: ignore[assignment]
    if init is None:
        return np.zeros(shape, spec.dtype)
    if callable(init):
        return coerce(init(shape, spec.dtype), spec, f"variable {name!r}").copy()
    if isinstance(init, str):
        named = re.fullmatch(r"(glorot|he|lecun)_(normal|uniform)|zeros|ones|orthogonal", init)
        raise DTypeError(
            f"variable {name!r} cannot start as {init!r}",
            need="an initializer, an array or a number",
            hint=f"init=gw.init.{init if named else 'he_normal'}()",  # Keras takes names
        )
    if isinstance(init, Buffer):
        if init.spec != spec:
            raise ShapeError(f"variable {name!r} is {spec}", facts=[f"its buffer: {init.spec}"])
        return init
    array = np.asarray(init)
    if array.ndim == 0:
        array = np.broadcast_to(array, shape)
    return coerce(array, spec, f"variable {name!r}").copy()


def literal(value: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """Return a copy of a literal: Python floats as float32, ints as int64, arrays as they are."""
    array = np.asarray(value)
    if array.dtype.kind in "UTO" and dtype in (None, "str", str):
        return coerce(value, TensorSpec(array.shape, "str"), "a constant").copy()
    if dtype is None and not isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if array.dtype == np.float64:
            dtype = "float32"
        elif array.dtype == np.complex128:
            dtype = "complex64"
    elif dtype is None:
        array = np.asarray(value)
    if dtype is not None:
        target = as_dtype(dtype)
        if array.dtype.kind in "iuf":
            check_range(array, target, "the values of a constant do")
        array = np.array(rounded(array, target) if array.dtype.kind in "iuf" else value, target)
    as_dtype(array.dtype)
    return array.copy() if array is value else array


def number(value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return a number as a 0-d array of its neighbours' dtype, if it fits."""
    try:
        if isinstance(value, int):
            check_range(np.asarray(value), dtype, f"the number {value} does")
        return rounded(value, dtype)
    except OverflowError:
        raise DTypeError(
            f"the number {value} does not fit into {dtype_name(dtype)}",
            hint="gw.cast(tensor, ...) to a wider dtype first",
        ) from None


def check_name(name: str) -> None:
    """Refuse names that could not be looked up or printed."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise GraphError(f"{name!r} is not a name", need="printable text")
    if ":" in name or "" in name.split("/"):
        raise GraphError(f"{name!r} is not a name", need="text without ':' and empty parts")


def located(error: GradwrightError, node: Node) -> GradwrightError:
    """Complete an error of ``infer`` with the node and what came in.

    A node that the user did not write leaves the place to the one it is part of.
    """
    if error.where:
        return (error if node.site is None else error.of(node)).inside(node.name)
    if node.site is None:
        error.facts.append(f"inside, at {node!r}" if node.outputs else f"inside, at {node.op!r}")
        return error
    names = [p.name for p in node.op.inputs]
    for i, t in enumerate(node.inputs):
        label = names[i] if i < len(names) else f"input {i}"
        if t is not None:
            error.facts.append(f"{label} : {t.spec} from {t.name!r} ({t.node.where or 'no line'})")
    own = node.op.attributes()
    if own:
        error.facts.append("with " + ", ".join(f"{k}={v!r}" for k, v in own.items()))
    return error.of(node).met_at(node.op.name, node.name, node.where)


def failed(
    error: Exception, node: Node, op: Op, specs: Iterable[TensorSpec | None], path: str
) -> LoweringError:
    """Return what says at which node an op failed, on what, and where in the user's own code."""
    facts = [f"inputs: {', '.join(map(str, specs))}"]
    line = raised_at(error) if "/" in op.name else ""  # an op of the user
    made = LoweringError(
        f"{type(error).__name__}: {error}",
        facts=[*facts, f"raised at {line}"] if line else facts,
    )
    return made.met_at(op.name, path, node.where or "no line")


def miscounted(got: int, needed: int) -> ContractError:
    """Return what says that an op made more or fewer outputs than it has."""
    return ContractError(f"forward gave {got} outputs", need=f"{needed}, as infer says")


def misshapen(y: np.ndarray[Any, Any], spec: TensorSpec) -> ContractError:
    """Return what says that an op made another output than it stated."""
    return ContractError(f"forward gave {y.dtype}{list(y.shape)}", need=f"{spec}, as infer says")


def check_shapes(ys: Sequence[Array], specs: Sequence[TensorSpec]) -> None:
    """Refuse what a forward gave where ``infer`` said something else; sizes left open are free."""
    if len(ys) != len(specs):
        raise miscounted(len(ys), len(specs))
    for y, stated in zip(ys, specs, strict=True):
        spec = stated.of_rank(y.ndim)
        if y.shape != spec.shape and (
            y.ndim != spec.rank
            or any(isinstance(d, int) and d != n for d, n in zip(spec.shape, y.shape, strict=True))
        ):
            raise misshapen(y, spec)


def build(op: Op, inputs: Sequence[Any], name: str | None) -> Any:
    """Find the graph that an op call belongs to, and add the node there.

    What is no tensor but stands for one, as an array that is traced does, has its own ``__op__``.
    """
    for x in inputs:
        if hasattr(type(x), "__op__"):
            return x.__op__(op, inputs, name)
    try:
        return owner_of(op.name, inputs).add(op, inputs, name)
    except GradwrightError as error:
        if error.node is None:  # refused before there was a node
            error.node = _refused(op, inputs, name)
        raise


def _refused(op: Op, inputs: Sequence[Any], name: str | None) -> Node | None:
    """Return the node that a call would have become; None where no graph is meant."""
    tensors = [x if isinstance(x, Tensor) else None for x in inputs]
    graph = next((t.graph for t in tensors if t is not None), active_graph())
    if graph is None:
        return None
    called = name if isinstance(name, str) and name and name.isprintable() else op.title
    return Node(graph, called, op, tuple(tensors), -1, user_site())


def owner_of(what: str, inputs: Sequence[Any]) -> Graph:
    """Return the innermost graph among those of the inputs and the one entered by ``with``."""
    owner: Graph | None = None
    top = active_graph()
    for x in inputs:
        if isinstance(x, Tensor):
            g = x.node.graph
            if owner is None or _is_inside(g, owner):
                owner = g
            elif not _is_inside(owner, g):
                owner.capture(x)  # raises: the graphs are unrelated
    if owner is None or (top is not None and top is not owner and _is_inside(top, owner)):
        owner = top
    if owner is None:
        from ..words.typed import typed

        call = typed()
        raise GraphError(
            f"{what} has no tensor among its inputs, so no graph to go to",
            hint=f"with g: {'...' if call is None else call.text}",
        )
    return owner


def _is_inside(inner: Graph, outer: Graph) -> bool:
    while True:
        if inner is outer:
            return True
        if inner.parent is None:
            return False
        inner = inner.parent
