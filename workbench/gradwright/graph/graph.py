"""Graph: owns nodes, names, scopes and values; building it runs nothing.

A graph is pure. Values live in ``graph.values``; a run may replace variables by stating updates,
which all read the values of the run's start and commit together.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import GradwrightError, GraphBusyError, GraphError, ShapeError, user_site
from ..op import Op, find_op, infer_specs
from ..spec import AnyDim, Dim, TensorSpec, is_floating, kind, known_spec
from ..spec import dtype as as_dtype
from ..spec.buffer import Buffer
from ..spec.containers import ContainerSpec
from ..spec.one_of import OneOf, sizes_in
from ..words import GRAPH
from ..words.advised import Advised, advised
from .build import active, check_name, dtype_beside, initial, literal, located, number
from .cells import Cell, cell_block, current_cell, remove_stale, settling, supersede
from .conversion import convert, to_constant, to_variable
from .doors import Doors
from .edit import Edit, drop_derived
from .running import Running
from .summary import summarize
from .table import RNG, NodeTable, member
from .tensor import Constant, Node, Placeholder, Rng, Tensor, Variable
from .updates import Updates
from .values import Values


class Graph(Doors, NodeTable, Advised, words=GRAPH):
    """A define-and-run computation: placeholders, variables, constants and the ops on them.

    >>> import gradwright as gw
    >>> g = gw.Graph("line")
    >>> x = g.placeholder("x", ("B", 2))
    >>> with g.scope("hidden"):
    ...     w = g.variable("w", (2, 3), init=gw.init.ones)
    ...     y = x @ w
    >>> y.name, str(y.spec)
    ('hidden/matmul', 'f32[B, 3]')
    >>> g.output({"x": [[1.0, 2.0]]}, y)["hidden/matmul"].tolist()
    [[3.0, 3.0, 3.0]]
    """

    def __init__(
        self, name: str = "graph", *, parent: Graph | None = None, scratch: bool = False
    ) -> None:
        super().__init__()
        self.name, self.parent = name, parent
        self.values = Values(self)
        self.updates = Updates(self)
        """What training steps set beside parameters, such as running means."""
        self.captures: dict[Tensor, Tensor] = {}
        """For a sub-graph: tensors of the outer graphs it uses -> its placeholders for them."""
        self.step: Tensor | None = None
        """For the body of a loop: its number of the step, with which random ops draw anew."""
        self.closed = ""
        """For the body of a loop, a branch or a function, once it is built: what it is called."""
        self.revision = 0
        """Grows with every edit that is not merely an addition; plans depend on it."""
        self.gradients: dict[Any, Any] = {}
        """Memo of the derived layer, emptied when the graph is edited."""
        self.notes: dict[str, Any] = {}
        """What rooms above know of this graph; an archive does not keep it."""
        self.latest: Node
        """The node added last."""
        self._serial = itertools.count()
        self._streams = itertools.count()
        self._scalars: dict[Any, Tensor] = {}
        self._origin: Node | None = None
        self._key: Tensor | None = None
        self._scratch = scratch
        self._cell: Cell | None = None
        self._running: dict[int, int] = {}
        self._run_mark = Running(self._running)

    # -- sources ---------------------------------------------------------------------------------

    def placeholder(
        self,
        name: str,
        shape: Sequence[AnyDim | str | None] | ContainerSpec | OneOf,
        dtype: Any = "float32",
    ) -> Tensor:
        """Declare a value fed at each run; ``None`` is a size known then, ``"B"`` a named one.

        A :class:`~gradwright.SequenceSpec` in place of the shape declares a list of tensors, an
        :class:`~gradwright.OptionalSpec` one that may be None.
        """
        check_name(name)
        if isinstance(shape, ContainerSpec | OneOf):
            return self._source(Placeholder(), name, shape)
        dims: list[AnyDim] = []
        for axis, d in enumerate(shape):
            if d is None:
                dims.append(self._own_symbol(name, axis))
            elif isinstance(d, str):
                if not d.isidentifier():
                    raise ShapeError(f"{d!r} is not a dimension name", need="a Python identifier")
                dims.append(Dim.symbol(d))
            elif isinstance(d, Dim):
                dims.append(d)
            elif isinstance(d, (int, np.integer)) and d >= 0:
                dims.append(int(d))
            else:
                said, need = f"placeholder {name!r}: {d!r} is not a size", "int >= 0, name or None"
                free = tuple(None if s == -1 else s for s in shape)  # as numpy and SameDiff say it
                raise ShapeError(said, need=need, hint=f"g.placeholder({name!r}, {free})")
        return self._source(Placeholder(), name, TensorSpec(dims, as_dtype(dtype)))

    def _own_symbol(self, name: str, axis: int) -> Dim:
        """Return ``x_0`` for axis 0 of ``x``, or a fresh symbol if another placeholder has that."""
        full = self._full_name(name)
        symbol = re.sub(r"\W", "_", f"{name}_{axis}")
        for t in self.placeholders:
            used = (d for d in sizes_in(t.spec) if isinstance(d, Dim))
            if t.name != full and any(symbol in d.symbols for d in used):
                return Dim.fresh(symbol)
        return Dim.symbol(symbol)

    @advised
    def variable(
        self,
        name: str,
        shape: Sequence[int] | None = None,
        init: Any = None,
        dtype: Any = None,
        *,
        trainable: bool = True,
    ) -> Tensor:
        """Declare a stored tensor; ``init`` is an initializer, an array, a buffer or a number (0).

        The dtype is float32 unless ``dtype`` says else, and ``init`` is brought to it; without a
        shape both shape and dtype are those of the array. Integer and bool variables are never
        trainable.
        """
        if shape is None:
            if init is None or callable(init) or isinstance(init, Buffer):
                raise ShapeError(f"variable {name!r} has no shape", hint="variable(name, shape)")
            array = np.asarray(init)
            given = (
                array.dtype if isinstance(init, (np.ndarray, np.generic)) else as_dtype("float32")
            )
            spec = TensorSpec(array.shape, as_dtype(given if dtype is None else dtype))
        else:
            if not all(isinstance(d, (int, np.integer)) and d >= 0 for d in shape):
                raise ShapeError(f"variable {name!r} needs sizes, got {tuple(shape)!r}")
            spec = TensorSpec([int(d) for d in shape], as_dtype(dtype or "float32"))
        self._enter_cell()
        full = self._full_name(name)
        old = self._stale.get(full)
        keep = old is not None and isinstance(old.op, Variable) and old.outputs[0].spec == spec
        start = None if keep else initial(name, spec, init)
        tensor = self._source(Variable(), name, spec)
        tensor.node.trainable = trainable and is_floating(spec.dtype)
        if start is not None:
            self.values.begin(tensor.name, start)
        return tensor

    def constant(self, value: Any, name: str | None = None, dtype: Any = None) -> Tensor:
        """Store a literal; Python floats become float32, ints int64, unless ``dtype`` says else."""
        array = literal(value, dtype)
        tensor = self._source(Constant(), name or "constant", known_spec(array), auto=name is None)
        self.values.commit({tensor.name: array})
        return tensor

    def scalar(self, value: Any, dtype: Any) -> Tensor:
        """Return a constant for a number, one per value, dtype and layer."""
        array = number(value, dtype)
        key = (array.tobytes(), array.dtype, bool(self._deriving))
        held = self._scalars.get(key)
        if held is None or self._nodes.get(held.name) is not held.node:
            with self._at_top():
                held = self._scalars[key] = self.constant(array)
            held.node.cell = None  # cells share it
        return held

    @property
    def rng(self) -> Tensor:
        """The random key of the run, ``uint64[2]``: seed and step; random ops read it."""
        if RNG in self._nodes:
            return self[RNG]
        if self.parent is not None:
            if self._key is None:
                self._key = self.capture(self.parent.rng)
                if self.step is not None:  # a graph inside this one may be the one being built
                    self._key = self.add(find_op("fold_in")(), [self._key, self.step])
            return self._key
        with self._at_top():
            key = self._source(Rng(), RNG, TensorSpec((2,), "uint64"))
        key.node.cell = None  # cells share it
        return key

    def next_stream(self) -> int:
        """Return a number no other random op of this graph has, fixed at creation."""
        root = self
        while root.parent is not None:
            root = root.parent
        return next(root._streams)

    # -- names -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def scope(self, name: str) -> Iterator[Graph]:
        """Put nodes built in the block under ``name/``; scopes nest and can be reopened."""
        check_name(name)
        self._scopes.append(name)
        try:
            with self:
                yield self
        finally:
            self._scopes.pop()

    @contextlib.contextmanager
    def deriving(self, prefix: str) -> Iterator[Callable[[str, Node | None], None]]:
        """Build nodes of the derived layer (gradients, updates) under ``prefix``.

        Yields a function that sets the prefix and the forward node for what follows.
        """
        held = self._deriving, self._origin

        def at(prefix: str, origin: Node | None) -> None:
            self._deriving, self._origin = prefix, origin

        at(prefix, None)
        try:
            with self._at_top(), self:
                yield at
        finally:
            self._deriving, self._origin = held

    def __enter__(self) -> Graph:
        active.stack.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        active.stack.pop()

    # -- adding nodes ----------------------------------------------------------------------------

    def _source(self, op: Op, name: str, spec: TensorSpec, *, auto: bool = False) -> Tensor:
        node = self._new_node(op, (), name, auto=auto)
        node.outputs = (Tensor(node, 0, spec),)
        self._insert(node)
        return node.outputs[0]

    def _new_node(
        self, op: Op, inputs: tuple[Tensor | None, ...], name: str, *, auto: bool
    ) -> Node:
        if self.closed:
            raise GraphError(
                f"a tensor of the {self.closed} is used after that was built",
                hint="return it from the function, and use what comes back",
            )
        self._enter_cell()
        if auto:
            full = self._free_name(name)
        else:
            full = self._full_name(name)
            self._check_free(op, full)
        origin = self._origin  # a gradient points to the line of what it is the gradient of
        site = origin.site if origin is not None else None if self._scratch else user_site()
        node = Node(self, full, op, inputs, next(self._serial), site)
        node.derived, node.origin = bool(self._deriving), self._origin
        node.cell, node.named = None if node.derived else self._cell, not auto
        return node

    def _insert(self, node: Node) -> None:
        old = self._stale.pop(node.name, None)
        self._nodes[node.name] = self.latest = node
        for t in node.inputs:
            if t is not None:
                t.uses.append(node)
        if old is not None:
            supersede(old, node)

    def add(self, op: Op, inputs: Sequence[Any], name: str | None = None) -> Any:
        """Add a node and return its public outputs: a Tensor, or a tuple when there are several."""
        tensors = self._as_tensors(op, inputs)
        node = self._new_node(op, tensors, name or op.title, auto=name is None)
        try:
            specs = infer_specs(op, [None if t is None else t.spec for t in tensors])
        except GradwrightError as error:
            raise located(error, node) from None
        node.outputs = tuple([Tensor(node, i, s) for i, s in enumerate(specs)])
        self._insert(node)
        public = node.outputs[: op.n_public] if op.n_public is not None else node.outputs
        return public[0] if len(public) == 1 and not op.many else public

    def _as_tensors(self, op: Op, inputs: Sequence[Any]) -> tuple[Tensor | None, ...]:
        out: list[Tensor | None] = []
        for i, x in enumerate(inputs):
            if isinstance(x, Tensor):
                out.append(x if x.node.graph is self else self.capture(x))
            elif x is None:
                if i < len(op.inputs) and op.inputs[i].default is op.inputs[i].empty:
                    raise GraphError(
                        f"{op.name} got None for {op.inputs[i].name!r}", need="a tensor"
                    )
                out.append(None)
            else:
                alone = i in op.places or i in op.needs_values
                out.append(self._literal_for(x, () if alone else inputs))
        return tuple(out)

    def _literal_for(self, value: Any, others: Sequence[Any]) -> Tensor:
        """Turn a number, size or array into a tensor; numbers take their neighbours' dtype."""
        size = isinstance(value, Dim)
        if not (size or isinstance(value, (bool, int, float, complex, np.generic))):
            return self.constant(value)
        held = [t.dtype for t in others if isinstance(t, Tensor)]
        own = as_dtype("int64") if size else literal(value, None).dtype
        beside = dtype_beside(own, held)
        if size:
            wide = beside if kind(beside) in "fc" else own
            return self.add(find_op("full")(shape=(), fill_value=value, dtype=wide), [])  # type: ignore[no-any-return]
        return self.scalar(value, beside)

    def capture(self, tensor: Tensor) -> Tensor:
        """Return this sub-graph's placeholder for a tensor of an outer graph."""
        outer = self.parent
        while outer is not None and outer is not tensor.graph:
            outer = outer.parent
        if outer is None:
            raise GraphError(
                "tensors of two graphs cannot be mixed",
                facts=[
                    f"{tensor!r} is of graph {tensor.graph.name!r}",
                    f"this is graph {self.name!r}",
                ],
                hint="build both in one graph, or feed the value of one into the other",
            )
        if tensor not in self.captures:
            assert self.parent is not None
            inner = tensor if tensor.graph is self.parent else self.parent.capture(tensor)
            with self._at_top():
                name = self._free_name("captured/" + inner.name.replace(":", "_"))
                self.captures[tensor] = self._source(Placeholder(), name, inner.spec)
        return self.captures[tensor]

    # -- kinds and names -------------------------------------------------------------------------

    def to_constant(self, *tensors: Tensor | str, feeds: Mapping[Any, Any] | None = None) -> None:
        """Freeze the values of variables, placeholders and computed tensors; names are kept.

        What is computed is so in eval mode, from ``feeds``, and reads nothing from then on.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> x, w = g.placeholder("x", (2,)), g.variable("w", (2,), init=3.0)
        >>> y = (w * w) + x
        >>> g.to_constant("mul")
        >>> g.values["w"] = [0.0, 0.0]
        >>> g["mul"].kind, g.output({"x": [0.0, 1.0]}, y)["add"].tolist()
        ('constant', [9.0, 10.0])
        """
        to_constant(self, tensors, feeds or {})

    def to_variable(self, *tensors: Tensor | str) -> None:
        """Turn floating constants into trainable variables, keeping names and values."""
        to_variable(self, tensors)

    def convert(self, dtypes: Mapping[Tensor | str, Any]) -> None:
        """Give variables, constants and placeholders other dtypes, in place; all or none.

        Values are rounded, what is computed follows, and numbers beside it take its dtype, as when
        it was built. Optimizer state that is of another dtype then begins anew: parameters of
        float32 and of 16 bits have it in float32. Raises DTypeError for text and for what would be
        lost, GraphError and ShapeError where an op, or an update of a variable, does not take the
        new dtype.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = g.placeholder("x", (2,)) * g.variable("w", (2,)) + 0.5
        >>> g.convert({"x": "bfloat16", "w": "bfloat16"})
        >>> str(y.spec), g.values["w"].dtype.name
        ('bf16[2]', 'bfloat16')
        """
        convert(self, dtypes)

    def rename(self, tensor: Tensor | str, name: str) -> None:
        """Rename a node; ``name`` is the full new name, scopes included."""
        node = member(self, tensor).node
        if node.name == name:
            return
        self._check_free(node.op, name)
        self._check_idle()
        stale, old = self._stale.pop(name, None), node.name
        if stale is None and next(reversed(self._nodes)) == old:  # the last one keeps its place
            self._nodes[name] = self._nodes.pop(old)
        else:
            nodes = self._nodes.items()
            self._nodes = {name if n is node else k: n for k, n in nodes if n is not stale}
        node.name, node.named = name, True
        self.marked += 1
        if old in self.values:
            self.values.rename(old, name)
        if stale is not None:  # its cell runs again
            supersede(stale, node)

    # -- updates ---------------------------------------------------------------------------------

    def update(self, variable: Tensor, value: Tensor | None, *, when: str = "before") -> None:
        """Have every training step set ``variable`` to ``value``, computed from what was before it.

        That is for what a step sees, such as a count or a running mean. With ``when="after"`` the
        value is computed from what the step leaves in parameters and state: for averages of
        weights, target networks, and bounds on weights, which may set what is trained, too; where
        the value reads trainable parameters, after steps that move some of these. A step that does
        not feed what a value needs leaves its update out, and one that is refused or skipped sets
        nothing. With accumulation, ``"before"`` is before every batch, and ``"after"`` after every
        update of the parameters.

        A variable has one update: another takes its place, and a warning says of what; with None
        it has none, and stays what it is. State of layers such as ``gw.nn.batch_norm`` needs none
        declared: a step sets that of the layers which its loss is made of.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> w = g.variable("w", (), init=1.0)
        >>> target = g.variable("target", (), init=1.0, trainable=False)
        >>> g.update(target, 0.5 * target + 0.5 * w, when="after")
        >>> record = gw.Trainer(g, w * 4.0, gw.optim.SGD(1.0)).step({})
        >>> g.values["w"].item(), g.values["target"].item()
        (-3.0, -1.0)
        """
        self.updates.declare(variable, value, when)

    # -- edits -----------------------------------------------------------------------------------

    def changed(self) -> None:
        """Note an edit: plans are stale, and the derived layer goes unless the user built on it."""
        self._check_idle()
        self.revision += 1
        self.gradients.clear()
        drop_derived(self)

    def _check_idle(self) -> None:
        others = [t for t in list(self._running) if t != threading.get_ident()]
        if self._running:
            raise GraphBusyError(
                f"graph {self.name!r} is running" + (" in another thread" if others else ""),
                hint="edit it between steps, or pause the trainer first",
            )

    def running(self) -> contextlib.AbstractContextManager[None]:
        """Mark the graph as running in this thread, so that edits are refused meanwhile."""
        return self._run_mark

    def edit(self) -> Edit:
        """Open an atomic edit: ``with g.edit() as e: e.replace_use(old, new)``."""
        return Edit(self)

    def cell(self, name: str) -> Any:
        """Treat the block as notebook cell ``name``: running it again replaces its nodes."""
        return cell_block(self, name)

    def _enter_cell(self) -> None:
        cell = None if self._scratch else current_cell()
        if cell == self._cell:
            return
        with settling:
            if self._stale:
                remove_stale(self, self._stale)
            self._cell = cell
            if cell is not None:
                nodes = self.all_nodes
                again = [n for n in nodes if n.cell and n.cell.id == cell.id and n.cell != cell]
                self._stale = {n.name: n for n in again}
                if again:
                    self._counters.clear()

    def settle(self) -> None:
        """Remove what a re-run cell did not build again, once that cell has ended."""
        if self._stale:
            with settling:
                if self._stale and current_cell() != self._cell:
                    remove_stale(self, self._stale)

    def summary(self) -> str:
        """Return a table of the graph: nodes by scope, specs, parameters, updates."""
        return summarize(self)

    def __repr__(self) -> str:
        return f"<Graph {self.name!r}: {len(self.nodes)} nodes, {len(self.trainable)} trainable>"
