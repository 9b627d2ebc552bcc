"""ONNX as a dialect: its nodes without protobuf, and what readers of them share."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from ...errors import ArchiveError
from ...op import Op, find_op
from ...spec import Dim, TensorSpec
from ...spec import dtype as as_dtype
from ...spec.one_of import one_of
from ..foreign import Dialect, Foreign
from .dtypes import from_element_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...graph import Graph, Tensor
    from .importer import Scope

Array = np.ndarray[Any, Any]

ONNX = Dialect()
"""What is known of ONNX; the face enters readers and writers, the table what ops declare."""
UNFIT = (
    *(TypeError, ValueError, LookupError, AttributeError, ArithmeticError, MemoryError),
    *(NotImplementedError, AssertionError, RecursionError),
)
"""What a reader may run into where a node has too few inputs, or attributes that mean nothing."""
reads, maps, writes = ONNX.reads, ONNX.maps, ONNX.writes
PAIRED: dict[str, Callable[..., Any]] = {}
"""Op -> what writes it where a tensor is complex."""
READ: WeakKeyDictionary[Graph, tuple[list[str], set[str]]] = WeakKeyDictionary()
"""Graph of a model -> names of its outputs, and of what else nothing used when it was read."""
CALLED: WeakKeyDictionary[Graph, dict[str, tuple[str, str]]] = WeakKeyDictionary()
"""Graph that was read -> the domain and name of the function that each of its scopes was."""
Unread = Callable[[Any, int], Container[int]]
UNREAD: dict[str, Unread] = {}
"""Op -> which of how many inputs its writer makes again, and does not read."""


@dataclass(frozen=True)
class OnnxNode(Foreign):
    """One use of an ONNX operator; its sub-graphs are protobufs that ``scope`` builds."""

    scope: Scope | None = None

    def dtype_of(self, value: Any) -> np.dtype[Any]:
        """Return the dtype of an element type."""
        return from_element_type(value)

    def graph(self, key: str) -> Callable[..., list[Tensor]]:
        """Return a function that builds a sub-graph of the node, ``(*inputs) -> its outputs``.

        It is built where it is called: at once, or by ``gw.cond``, ``gw.scan`` as their body.
        """
        proto, scope = self[key], self.scope
        if scope is None or not hasattr(proto, "node"):
            raise ArchiveError(f"{key!r} of {self.op_type} is no sub-graph that can be built here")

        def build(*xs: Any) -> list[Tensor]:
            if len(xs) > len(proto.input):
                raise ArchiveError(
                    f"{len(xs)} inputs for the sub-graph {key!r}", need=f"{len(proto.input)}"
                )
            return scope.subgraph(proto, list(xs))

        return build


MAX_RANK = 64
"""Axes that numpy's arrays have at most."""


def check_rank(rank: int) -> None:
    """Raise ArchiveError for a rank that no array has."""
    if not 0 <= rank <= MAX_RANK:
        raise ArchiveError(f"a tensor of rank {rank}", need=f"{MAX_RANK} axes at most")


def open_dims(rank: int, dtype: Any) -> TensorSpec:
    """Return a spec of a rank, its sizes known only when run."""
    check_rank(rank)
    return TensorSpec([Dim.fresh("onnx") for _ in range(rank)], dtype)


MOST = 8
"""Axes that a tensor is taken to have at most where nothing tells."""


def open_ranks(values: TensorSpec, rank: Callable[[int], int], dtype: Any) -> TensorSpec:
    """Return a spec of the rank that the number of ``values`` makes: of any where that is open."""
    if values.is_concrete:
        return open_dims(rank(values.size), dtype)
    ranks = {r for n in range(MOST + 1) if 0 <= (r := rank(n)) <= MOST}
    return one_of([open_dims(r, dtype) for r in sorted(ranks)])


def like_first(node: OnnxNode, x: TensorSpec, *others: TensorSpec | None) -> list[TensorSpec]:
    """Return outputs of the rank and dtype of the first input."""
    return [open_dims(x.rank, x.dtype) for _ in node.wanted]


def known_value(spec: TensorSpec | None, takes_dims: bool = False) -> Array | None:
    """Return what is known of the value of an input: ints, or also dims if they are taken."""
    if spec is None or spec.value is None:
        return None
    array = np.asarray(spec.value)
    if any(isinstance(d, Dim) for d in array.flat):
        return array if takes_dims else None
    return array.astype(spec.dtype)


def op(name: str, **attrs: Any) -> Op:
    """Return an op by its registered name, wherever it is defined."""
    return find_op(name)(**attrs)


def cast(x: Tensor, dtype: Any) -> Tensor:
    """Return ``x`` in a dtype, unchanged if it has it."""
    wanted = as_dtype(dtype)
    return x if x.dtype == wanted else op("cast", dtype=wanted)(x)


def ints(value: Any) -> tuple[Any, ...] | None:
    """Return an array or attribute of integers (or dims) as a tuple, None as None."""
    return None if value is None else tuple(np.asarray(value).reshape(-1).tolist())


def one(value: Any) -> Any:
    """Return the number in an array of one element."""
    array = np.asarray(value)
    if array.size != 1:
        raise ArchiveError(f"an input has {array.size} elements", need="one")
    return array.reshape(-1)[0] if array.dtype == object else array.item()


def unused(graph: Graph) -> list[Tensor]:
    """Return the results of a graph that nothing uses."""
    nodes = [n for n in graph.nodes if n.kind == "array" and not n.derived]
    return [t for n in nodes for t in n.public if not t.uses]
