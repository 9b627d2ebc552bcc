"""Conversions in place: what a node is, and the dtype it has, with names and values kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DTypeError, GraphError
from ..op import Op
from ..spec import TensorSpec, dtype_name, is_floating, kind, known_spec
from ..spec import dtype as as_dtype
from ..spec.rounding import rounded
from .build import renumbered
from .coerce import check_range
from .edit import Edit, set_inputs
from .table import member
from .tensor import Constant, Node, Placeholder, Source, Tensor, Variable

if TYPE_CHECKING:
    from .graph import Graph

Array = np.ndarray[Any, Any]


def to_variable(graph: Graph, tensors: Iterable[Tensor | str]) -> None:
    """Make trainable variables of floating constants."""
    chosen = [member(graph, t) for t in tensors]
    for t in chosen:
        if not isinstance(t.op, Constant):
            raise GraphError(f"{t!r} is a {t.kind}", need="a constant")
        if not is_floating(t.dtype):
            raise GraphError(f"{t!r} is not floating", need="a floating constant")
    graph.changed()
    for t in chosen:
        t.node.op, t.node.trainable = Variable(), True
        _forget_literal(graph, t)


def to_constant(graph: Graph, tensors: Iterable[Tensor | str], feeds: Mapping[Any, Any]) -> None:
    """Freeze the values of variables, placeholders and computed tensors."""
    chosen = [member(graph, t) for t in tensors]
    computed = [t for t in chosen if not isinstance(t.op, Variable)]
    for t in computed:
        if isinstance(t.op, Source) and not isinstance(t.op, Placeholder):
            raise GraphError(f"{t!r} is a {t.kind}", need="a variable, or what is computed")
        if t.node.derived or len(t.node.public) > 1:
            what = "of the derived layer" if t.node.derived else "one of several outputs"
            hint = "g.constant(value), and g.edit() to put it where the tensor is read"
            raise GraphError(f"{t!r} is {what}", need="the only output of a node", hint=hint)
        if t.spec.by_reference and kind(t.dtype) != "s":
            raise GraphError(f"{t!r} holds items", need="numbers or text")
    found = graph.output(feeds, *computed) if computed else {}
    graph.changed()
    with _Conversion(graph, chosen) as edit:
        for t in chosen:
            if isinstance(t.op, Variable):
                edit.become(t.node, Constant(), t.spec, None)
                graph.updates.declared.pop(t, None)
            else:
                array = np.array(found[t.name])
                edit.become(t.node, Constant(), known_spec(array), array)


def convert(graph: Graph, dtypes: Mapping[Tensor | str, Any]) -> None:
    """Give variables, constants and placeholders other dtypes."""
    if not isinstance(dtypes, Mapping):
        raise GraphError(f"{dtypes!r} gives no dtypes", need="a dict: {tensor or name: dtype}")
    targets = {member(graph, t): as_dtype(d) for t, d in dtypes.items()}
    arrays = {t: _converted(graph, t, target) for t, target in targets.items()}
    graph.changed()
    with _Conversion(graph, list(targets)) as edit:
        for t, array in arrays.items():
            if isinstance(t.op, Constant):
                assert array is not None
                edit.become(t.node, t.op, known_spec(array), array)
            else:
                edit.become(t.node, t.op, t.spec.with_dtype(targets[t]), array)


class _Conversion(Edit):
    """An edit that also changes sources; numbers beside them take the dtype that comes of it."""

    def __init__(self, graph: Graph, tensors: Sequence[Tensor]) -> None:
        super().__init__(graph)
        self._sources = {t.node: (t.op, t.node.outputs, t.spec, t.node.trainable) for t in tensors}
        self._arrays: dict[str, Array] = {}
        self._dtypes = {t: t.dtype for n in graph.all_nodes for t in n.outputs}

    def become(self, node: Node, op: Op, spec: TensorSpec, array: Array | None) -> None:
        """Make a node a source, which has a value if it is no placeholder."""
        self._inputs.setdefault(node, node.inputs)
        set_inputs(node, ())
        node.op, node.outputs = op, node.outputs[:1]
        node.trainable = node.trainable and isinstance(op, Variable)
        node.outputs[0].spec = spec
        if array is not None:
            self._arrays[node.name] = array

    def refit(self, node: Node) -> None:
        """Let numbers among the inputs of a node take their neighbours' dtype, as when built."""
        before = [None if t is None else self._dtypes[t] for t in node.inputs]
        inputs = tuple(renumbered(self.graph, node.inputs, before))
        if any(t is not new for t, new in zip(node.inputs, inputs, strict=True)):
            self._inputs.setdefault(node, node.inputs)
            set_inputs(node, inputs)

    def _finish(self) -> None:
        super()._finish()
        for node in self._sources:
            _forget_literal(self.graph, node.outputs[0])
        self.graph.values.commit(self._arrays)

    def _rollback(self) -> None:
        super()._rollback()
        for node, (op, outputs, spec, trainable) in self._sources.items():
            node.op, node.outputs, node.trainable = op, outputs, trainable
            outputs[0].spec = spec


def _forget_literal(graph: Graph, tensor: Tensor) -> None:
    """Let the tensor stand for no number any more, which others would share."""
    graph._scalars = {k: s for k, s in graph._scalars.items() if s is not tensor}


def _converted(graph: Graph, t: Tensor, target: np.dtype[Any]) -> Array | None:
    """Return the value of a source in another dtype, or None if it has none."""
    if not isinstance(t.op, Variable | Constant | Placeholder):
        raise GraphError(
            f"{t!r} is computed: its dtype follows from its inputs",
            need="a variable, a constant or a placeholder",
            hint="gw.cast",
        )
    before, after = kind(t.dtype), kind(target)
    if not {before, after} <= set("biufc"):
        raise DTypeError(f"{t!r} cannot become {dtype_name(target)}", need="numbers on both sides")
    if before == "c" and after != "c":
        raise DTypeError(f"{t!r} would lose its imaginary part", hint="gw.real, gw.abs or gw.angle")
    if t.trainable and not is_floating(target):
        raise DTypeError(
            f"{t!r} is trained, and {dtype_name(target)} has no gradient",
            need="a floating dtype",
            hint=f"g.freeze({t.name!r}) first",
        )
    if isinstance(t.op, Placeholder):
        return None
    array = graph.values.array(t.name)
    if before in "fiu" and after in "iu":
        if before == "f" and not np.isfinite(array.astype(np.float64)).all():
            raise DTypeError(f"{t!r} has values that are not finite", need=dtype_name(target))
        check_range(array, target, f"{t.name!r}: values do")
    found = rounded(array, target).copy()
    if after in "fc" and np.any(np.isfinite(array) & ~np.isfinite(found)):
        raise DTypeError(
            f"{t!r} has values beyond the range of {dtype_name(target)}",
            hint="bfloat16 has the range of float32",
        )
    return found
