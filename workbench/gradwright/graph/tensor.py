"""Tensor and Node: the symbolic results of ops, and the applications that make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import GraphError, Site, describe_site
from ..op import OPS, Op, find_op
from ..op.calling import called, function
from ..spec import AnyDim, Shape, TensorSpec
from ..words import TENSOR, VARIABLE
from ..words.advised import no_attribute
from .doors import TensorDoors
from .methods import TensorMethods

if TYPE_CHECKING:
    from .cells import Cell
    from .graph import Graph


class Source(Op):
    """A node without inputs whose value comes from outside: its spec is stated, not inferred."""

    kind = ""

    def infer(self) -> TensorSpec:
        """Sources have no rule; the graph states their spec."""
        raise GraphError(f"a {self.name} is made by the graph", hint=f"g.{self.name}(...)")


class Placeholder(Source):
    """A value fed at each run."""

    kind = "placeholder"


class Variable(Source):
    """A stored value that updates may change; trainable unless frozen."""

    kind = "variable"


class Constant(Source):
    """A stored value that never changes."""

    kind = "constant"


class Rng(Source):
    """The run's random key: seed and step, fed by the session (uint64[2])."""

    kind = "placeholder"


class Node:
    """One application of an op: its inputs, its outputs, and the user's line that made it."""

    __slots__ = (
        "cell",
        "derived",
        "frozen",
        "graph",
        "inputs",
        "name",
        "named",
        "op",
        "origin",
        "outputs",
        "serial",
        "site",
        "trainable",
    )

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: Op,
        inputs: tuple[Tensor | None, ...],
        serial: int,
        site: Site | None,
    ) -> None:
        self.graph, self.name, self.op, self.inputs = graph, name, op, inputs
        self.serial, self.site = serial, site
        self.outputs: tuple[Tensor, ...] = ()
        self.derived, self.trainable = False, False
        self.frozen = False  # a parameter that is not trained for now; others never are
        self.origin: Node | None = None  # the forward node that a gradient node belongs to
        self.cell: Cell | None = None
        self.named = True  # by the user, rather than after its op

    @property
    def scope(self) -> str:
        """Name of the scope that holds the node, "" at the top."""
        return self.name.rpartition("/")[0]

    @property
    def kind(self) -> str:
        """``placeholder``, ``variable``, ``constant`` or ``array``."""
        return self.op.kind if isinstance(self.op, Source) else "array"

    @property
    def public(self) -> tuple[Tensor, ...]:
        """The visible outputs, without residuals."""
        return self.outputs[: self.op.n_public]

    @property
    def where(self) -> str:
        """The user's line, such as ``cell 3, line 7``."""
        return describe_site(self.site)

    def __repr__(self) -> str:
        ins = ", ".join("-" if t is None else t.name for t in self.inputs)
        outs = ", ".join(str(t.spec) for t in self.outputs)
        return f"<Node {self.name!r}: {self.op!r} ({ins}) -> {outs}>"


class Tensor(TensorMethods, TensorDoors):
    """A symbolic value: one output of a node, with a spec known before anything runs.

    Operators and methods build more nodes; ``if tensor:`` is an error, since there is no value yet.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (None, 3))
    >>> y = np.float32(2) * x[:, 0] + 1
    >>> y.shape, y.kind
    ((x_0,), 'array')
    """

    __slots__ = ("index", "node", "spec", "uses")

    def __init__(self, node: Node, index: int, spec: TensorSpec) -> None:
        self.node, self.index, self.spec = node, index, spec
        self.uses: list[Node] = []

    @property
    def name(self) -> str:
        """The node's name; further outputs add ``:1``, ``:2``."""
        return self.node.name if self.index == 0 else f"{self.node.name}:{self.index}"

    @property
    def graph(self) -> Graph:
        """The graph that holds the tensor."""
        return self.node.graph

    @property
    def op(self) -> Op:
        """The op that makes the tensor."""
        return self.node.op

    @property
    def kind(self) -> str:
        """``placeholder``, ``variable``, ``constant`` or ``array`` (made by an op)."""
        return self.node.kind

    @property
    def shape(self) -> Shape:
        """Dimensions: ints, or symbols such as ``B``."""
        return self.spec.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self.spec.dtype

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return self.spec.rank

    ndim = rank

    @property
    def trainable(self) -> bool:
        """Whether trainers update this variable; False for everything that is not a variable."""
        return self.node.trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self.graph.set_trainable(self, value)

    def rename(self, name: str) -> Tensor:
        """Give the tensor's node another name (relative to no scope) and return the tensor."""
        self.graph.rename(self, name)
        return self

    def __repr__(self) -> str:
        return f"<Tensor {self.name!r}: {self.spec}>"

    __hash__ = object.__hash__  # by identity, although == builds a node

    def __bool__(self) -> bool:
        raise GraphError(
            f"tensor {self.name!r} has no value yet, so Python cannot branch on it",
            hint="gw.where(...) or gw.cond(...); compare identity with `is`",
        )

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"tensor {self.name!r} is a scalar and has no len()")
        first = self.shape[0]
        if not isinstance(first, int):
            raise TypeError(f"tensor {self.name!r} has {first} rows, a size not known yet")
        return first

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __float__(self) -> float:
        raise TypeError(f"tensor {self.name!r} has no value yet; fetch it with Session.run")

    __int__ = __index__ = __float__

    def __getattr__(self, name: str) -> Any:
        said = f"a Tensor has no attribute {name!r}"
        stored = self.kind in ("variable", "constant")
        owners = (VARIABLE, TENSOR) if stored else (TENSOR,)
        raise no_attribute(said, name, *owners, find=called, NAME=self.name)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Tensor:
        """Build graph where numpy meets a tensor: ``np.exp(x)`` is ``gw.exp(x)``."""
        name = _op_of(ufunc)
        if method != "__call__" or options or not name:
            raise self._unreadable(ufunc.__name__)
        return _apply(name, *inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        raise self._unreadable(function.__name__)

    def _unreadable(self, function: str) -> TypeError:
        close = called(function)
        hint = f"use {close}, or " if close.endswith(f".{function}") else ""
        return TypeError(
            f"numpy's {function} cannot take tensor {self.name!r}, which has no value yet; "
            f"{hint}fetch it with Session.run"
        )

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray[Any, Any]:
        raise TypeError(
            f"numpy cannot read tensor {self.name!r}: it has no value yet; use the function of the "
            f"same name in gradwright, or fetch it with Session.run"
        )

    def __getitem__(self, index: Any) -> Tensor:
        return _indexer(self, index)

    @property
    def T(self) -> Tensor:
        """The tensor with all axes reversed."""
        return _apply("transpose", self)

    @property
    def mT(self) -> Tensor:
        """The tensor with its last two axes swapped."""
        axes = (*range(self.rank - 2), self.rank - 1, self.rank - 2)
        return _apply("transpose", self, axes=axes)

    def astype(self, dtype: Any) -> Tensor:
        """Convert the elements: ``gw.cast``."""
        return _apply("cast", self, dtype=dtype)

    def reshape(self, *shape: AnyDim | Tensor | tuple[AnyDim, ...]) -> Tensor:
        """Reshape to dims (one may be -1) or to a shape given as an integer tensor."""
        return _reshape(self, shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: int) -> Tensor:
        """Permute the axes; without arguments reverse them."""
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
        return function(find_op("transpose"))(self, axes=tuple(order) or None)  # type: ignore[no-any-return]

    def __add__(self, other: Any) -> Tensor:
        return _apply("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _apply("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return _apply("sub", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _apply("sub", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return _apply("mul", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _apply("mul", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return _apply("div", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return _apply("div", other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return _apply("floor_div", self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return _apply("floor_div", other, self)

    def __mod__(self, other: Any) -> Tensor:
        return _apply("mod", self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return _apply("mod", other, self)

    def __pow__(self, other: Any) -> Tensor:
        return _apply("pow", self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return _apply("pow", other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return _apply("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return _apply("matmul", other, self)

    def __neg__(self) -> Tensor:
        return _apply("neg", self)

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return _apply("abs", self)

    def __invert__(self) -> Tensor:
        return _apply("logical_not", self)

    def __and__(self, other: Any) -> Tensor:
        return _apply("logical_and", self, other)

    def __or__(self, other: Any) -> Tensor:
        return _apply("logical_or", self, other)

    def __xor__(self, other: Any) -> Tensor:
        return _apply("logical_xor", self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __lt__(self, other: Any) -> Tensor:
        return _apply("less", self, other)

    def __le__(self, other: Any) -> Tensor:
        return _apply("less_equal", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return _apply("greater", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return _apply("greater_equal", self, other)

    def __eq__(self, other: Any) -> Tensor:  # type: ignore[override]
        return _apply("equal", self, other)

    def __ne__(self, other: Any) -> Tensor:  # type: ignore[override]
        return _apply("not_equal", self, other)


_OPERATORS = {
    np.bitwise_and: "logical_and",
    np.bitwise_or: "logical_or",
    np.bitwise_xor: "logical_xor",
    np.invert: "logical_not",
    np.matmul: "matmul",
    np.positive: "identity",
}
"""What Python's operators call in numpy, beside the ufuncs that ops declare."""


def _op_of(ufunc: np.ufunc) -> str:
    """Return the name of the op that computes a ufunc, "" if there is none."""
    found = (cls.name for cls in list(OPS.values()) if cls.ufunc is ufunc)
    return _OPERATORS.get(ufunc) or next(found, "")


def _apply(name: str, *inputs: Any, **attrs: Any) -> Tensor:
    texts = name == "add" and any(isinstance(x, Tensor) and x.dtype.kind == "T" for x in inputs)
    name = "string_concat" if texts else name  # ``+`` of texts joins them, as Python's does
    return find_op(name)(**attrs)(*inputs)  # type: ignore[no-any-return]


_indexer: Callable[[Tensor, Any], Tensor]
_reshape: Callable[[Tensor, Any], Tensor]


def set_indexing(
    indexer: Callable[[Tensor, Any], Tensor], reshape: Callable[[Tensor, Any], Tensor]
) -> None:
    """Tell tensors how ``x[...]`` and ``x.reshape`` become ops; the movement ops do so once."""
    global _indexer, _reshape
    _indexer, _reshape = indexer, reshape
