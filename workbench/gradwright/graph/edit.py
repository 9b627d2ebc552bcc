"""Edits of a graph: atomic rewiring, removal, cloning, and what re-running a cell replaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from ..errors import CycleError, GradwrightError, GraphError
from ..op import Op, find_op, infer_specs
from .build import check_update, located
from .tensor import Node, Source, Tensor, Variable
from .walk import ancestors, descendants

if TYPE_CHECKING:
    from .graph import Graph
    from .updates import Declared


class Edit:
    """An atomic change: everything in the block happens, re-inferred downstream, or nothing does.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (3,))
    >>> y = gw.exp(x, name="y")
    >>> with g.edit() as e:
    ...     _ = e.insert_after(x, lambda t: t * 2.0)
    >>> g.output({"x": [0.0, 0.0, 0.5]}, "y")
    {'y': array([1.      , 1.      , 2.718282], dtype=float32)}
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._inputs: dict[Node, tuple[Tensor | None, ...]] = {}
        self._before: tuple[dict[str, Node], dict[Tensor, Declared]] | None = None
        self._removed: dict[Node, None] = {}
        self._ops: dict[Node, Op] = {}
        self.checks: list[Callable[[], None]] = []
        """What may still refuse the edit, once all specs are known."""

    def __enter__(self) -> Self:
        self.graph.changed()
        self._before = dict(self.graph._nodes), dict(self.graph.updates.declared)
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is not None:
            self._rollback()
            return
        try:
            self._finish()
        except BaseException:  # an op of the user may raise anything
            self._rollback()
            raise

    def replace_use(self, old: Tensor, new: Tensor, *, of: Iterable[Node] | None = None) -> None:
        """Let the users of ``old`` (all, or those listed) read ``new`` instead."""
        g = self.graph
        g.check_member(old), g.check_member(new)
        for node in list(dict.fromkeys(old.uses if of is None else of)):
            self._rewire(node, {old: new})
        if of is None:
            g.updates.redirect(old, new)

    def insert_after(self, tensor: Tensor, build: Callable[[Tensor], Tensor]) -> Tensor:
        """Put ``build(tensor)`` between a tensor and its present users; returns the new tensor.

        Updates of variables to ``tensor`` are users, too.
        """
        users = list(tensor.uses)
        new = build(tensor)
        self.replace_use(tensor, new, of=users)
        self.graph.updates.redirect(tensor, new)
        return new

    def wrap(self, tensor: Tensor, name: str) -> Tensor:
        """Have a tensor be the identity of what it was; returns what it was, called ``name`` now.

        Whoever holds the tensor, asks for it by name or reads it has what the identity is given.
        """
        node = self.graph.check_member(tensor).node
        if isinstance(node.op, Source) or len(node.outputs) != 1:
            raise GraphError(f"{tensor.name!r} cannot be wrapped", need="the one output of an op")
        inner = self.graph._new_node(node.op, node.inputs, name, auto=True)
        inner.site, inner.outputs = node.site, (Tensor(inner, 0, tensor.spec),)
        self.graph._insert(inner)
        self.change(node, find_op("identity")(), inner.outputs)
        return inner.outputs[0]

    def unwrap(self, tensor: Tensor, inner: Tensor) -> None:
        """Have a tensor be what ``wrap`` returned, which leaves the graph; its readers read it."""
        self.replace_use(inner, tensor, of=[n for n in inner.uses if n is not tensor.node])
        self.change(tensor.node, inner.op, inner.node.inputs)
        self.remove(inner)

    def change(self, node: Node, op: Op, inputs: tuple[Tensor | None, ...] | None = None) -> None:
        """Have a node be another op, of other inputs or of those it has."""
        inputs = node.inputs if inputs is None else inputs
        self._ops.setdefault(node, node.op)
        self._inputs.setdefault(node, node.inputs)
        node.op = op
        set_inputs(node, inputs)

    def remove(self, *tensors: Tensor) -> None:
        """Remove nodes that nothing uses any more."""
        for t in tensors:
            node = self.graph.check_member(t).node
            used = [u for o in node.outputs for u in o.uses if u not in self._removed]
            facts = [f"by {u!r}" for u in used[:5]]
            facts += [
                f"by the update of {v.name!r}"
                for v, declared in self.graph.updates.declared.items()
                if declared.value.node is node and v.node not in (node, *self._removed)
            ]
            if facts:
                raise GraphError(f"{node.name!r} is still used", facts=facts)
            self._removed[node] = None
            unlink(node)
            del self.graph._nodes[node.name]

    def refit(self, node: Node) -> None:
        """See a node before it is inferred anew."""

    def _rewire(self, node: Node, mapping: Mapping[Tensor, Tensor]) -> None:
        self._inputs.setdefault(node, node.inputs)
        set_inputs(node, tuple(mapping.get(t, t) if t is not None else None for t in node.inputs))

    def _finish(self) -> None:
        touched = [n for n in self._inputs if n not in self._removed]
        order = descendants(touched)
        if order is None:
            raise CycleError("the edit would make a node depend on itself")
        self.graph.updates.drop(self._removed)
        reinfer(self.graph, order, self.refit, self.checks)
        for node in self._removed:
            if node.name not in self.graph._nodes:
                self.graph.values.discard(node.name)

    def _rollback(self) -> None:
        assert self._before is not None
        nodes, declared = self._before
        for node, op in self._ops.items():
            node.op = op
        for node, inputs in self._inputs.items():
            set_inputs(node, inputs)
        for node in self._removed:
            if nodes.get(node.name) is node:  # not one that the edit itself had added
                set_inputs(node, node.inputs)
        for name, node in list(self.graph._nodes.items()):
            if nodes.get(name) is not node:
                unlink(node)
                self.graph.values.discard(name)
        self.graph._nodes, self.graph.updates.declared = nodes, declared


def set_inputs(node: Node, inputs: tuple[Tensor | None, ...]) -> None:
    """Rewire a node."""
    unlink(node)
    node.inputs = inputs
    for t in inputs:
        if t is not None:
            t.uses.append(node)


def unlink(node: Node) -> None:
    """Take a node off the users of its inputs."""
    for t in node.inputs:
        if t is not None:
            t.uses = [u for u in t.uses if u is not node]


def reinfer(
    graph: Graph,
    order: Sequence[Node],
    refit: Callable[[Node], None] | None = None,
    checks: Iterable[Callable[[], None]] = (),
) -> None:
    """Infer the specs of nodes anew, all or none; updates must still fit.

    ``refit`` may change the inputs of a node when those are known, and ``checks`` refuse it all.
    """
    before = {n: (n.op, [t.spec for t in n.outputs]) for n in order}
    try:
        for node in order:
            if isinstance(node.op, Source):
                continue
            if refit is not None:
                refit(node)
            given = [None if t is None else t.spec for t in node.inputs]
            try:
                node.op = node.op.fitted(given)
                specs = infer_specs(node.op, given)
            except GradwrightError as error:
                raise located(error, node) from None
            for t, spec in zip(node.outputs, specs, strict=True):
                t.spec = spec
        for variable, declared in graph.updates.declared.items():
            check_update(variable, declared.value)
        for check in checks:
            check()
    except BaseException:  # an op of the user may raise anything
        for node, (op, old) in before.items():
            node.op = op
            for t, spec in zip(node.outputs, old, strict=True):
                t.spec = spec
        raise


def drop_derived(graph: Graph) -> None:
    """Remove the derived layer, except state and what the user's nodes and updates are built on.

    Variables of the derived layer are the state of an optimizer: nothing could derive them again.
    """
    derived = graph.derived
    if not derived:
        return
    roots = [t for n in graph.nodes for t in n.inputs if t is not None and t.node.derived]
    roots += [d.value for d in graph.updates.declared.values() if d.value.node.derived]
    kept = set(ancestors(roots))
    discard(n for n in derived if n not in kept and not isinstance(n.op, Variable))


def discard(nodes: Iterable[Node]) -> None:
    """Remove nodes, their values and updates; the caller knows that nothing else uses them."""
    dropped = dict.fromkeys(nodes)
    for t in {t for node in dropped for t in node.inputs if t is not None}:
        t.uses = [u for u in t.uses if u not in dropped]  # once for all: a scalar has many users
    for node in dropped:
        del node.graph._nodes[node.name]
        node.graph.values.discard(node.name)
    if dropped:
        next(iter(dropped)).graph.updates.drop(dropped)


def copied(node: Node, mapping: Mapping[Tensor, Tensor]) -> Node:
    """Add a copy of a node that reads other tensors of equal specs; nothing is inferred anew."""
    graph = node.graph
    inputs = tuple(None if t is None else mapping.get(t, t) for t in node.inputs)
    copy = graph._new_node(node.op, inputs, node.name, auto=False)
    copy.site, copy.origin = node.site, node.origin or node
    copy.outputs = tuple([Tensor(copy, i, t.spec) for i, t in enumerate(node.outputs)])
    graph._insert(copy)
    return copy


def clone(
    outputs: Sequence[Tensor] | Tensor,
    replace: Mapping[Tensor, Tensor] | None = None,
    *,
    scope: str = "clone",
    share: bool = True,
) -> Any:
    """Copy what ``outputs`` depend on, with some tensors replaced, inside the same graph.

    ``share=True`` lets the copy use the same variables; ``share=False`` copies them frozen, as a
    reference policy needs. Placeholders are always shared. Steps set the state of layers, such as
    running means, in a copy as in any other network that a loss is made of.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, z = g.placeholder("x", ()), g.placeholder("z", ())
    >>> y = gw.exp(x) + 1.0
    >>> y2 = gw.clone(y, {x: z})
    >>> g.output({"z": 0.0}, y2)
    {'clone/add': array(2., dtype=float32)}
    """
    if not isinstance(outputs, (Tensor, list, tuple)):
        got = type(outputs).__name__
        raise GraphError(f"clone got {got}", need="tensors", hint='gw.clone(g["loss"])')
    wanted = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    if not wanted:
        raise GraphError("nothing to clone", need="at least one output")
    graph = wanted[0].graph
    mapping: dict[Tensor, Tensor] = dict(replace or {})
    for t in (*wanted, *mapping, *mapping.values()):
        graph.check_member(t)
    graph._enter_cell()
    with graph._at_top(), graph.scope(graph._free_scope(scope)):
        for node in ancestors(wanted, stop=mapping):
            if isinstance(node.op, Variable) and not share:
                t = node.outputs[0]
                mapping[t] = graph.variable(
                    node.name,
                    [int(d) for d in t.shape],
                    init=graph.values.array(node.name),
                    dtype=t.dtype,
                    trainable=False,
                )
                mapping[t].node.frozen = node.trainable or node.frozen
            elif not isinstance(node.op, Source) and any(t not in mapping for t in node.outputs):
                inputs = [None if t is None else mapping.get(t, t) for t in node.inputs]
                copied = graph.add(node.op, inputs, node.name)
                made = (copied if isinstance(copied, tuple) else (copied,))[0].node
                for old, new in zip(node.outputs, made.outputs, strict=True):
                    mapping.setdefault(old, new)
    made_all = [mapping.get(t, t) for t in wanted]
    return made_all[0] if isinstance(outputs, Tensor) else made_all
