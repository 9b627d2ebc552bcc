"""What lies in branches, loops and functions of a model, as models of their own.

A body sees names of what encloses it. Lifted out, it has their values as stored tensors, and what
it is given in one turn as inputs, so it runs and is compared like any other model.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .....ops.control.call import Call
from .....spec import BOXED, spec_of
from ...model import graphs_of, names_read, normal_domain
from ...output import to_tensor, value_info

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

    from .frames import Frame, Unit

Array = np.ndarray[Any, Any]


@dataclass
class Turn:
    """One run of a body: which part of a node it is, and what it is given."""

    part: int | str | None
    """The turn of a loop, the branch of an If; None of a function."""
    body: GraphProto | FunctionProto
    feeds: Mapping[str, Array]
    attributes: Mapping[str, AttributeProto] = field(default_factory=dict)
    """Those that a function is called with."""
    ran: Frame | None = None
    """The body with the values of this turn, once it has run: of these a loop makes the next."""

    def results(self, names: Sequence[str]) -> list[Array] | None:
        """Return what it gives; None where it has not run, or one is not known."""
        found = [self.ran.value(name) for name in names] if self.ran is not None else [None]
        return None if any(x is None for x in found) else found  # type: ignore[return-value]


Turns = Iterator[Turn]


def turns_of(frame: Frame, proto: NodeProto) -> Turns:
    """Yield the runs of what a node encloses; whoever takes one runs it before the next.

    Nothing where the node encloses nothing, or its inputs are not known.
    """
    makers = {"If": _branch, "Loop": _loop, "Scan": _scan}
    function = frame.functions.function(proto)
    xs = [frame.value(name) if name else None for name in proto.input]
    if any(x is None for name, x in zip(proto.input, xs, strict=True) if name):
        return iter(())
    if function is not None:
        feeds = {n: x for n, x in zip(function.input, xs, strict=False) if x is not None}
        attributes = {a.name: a for a in (*function.attribute_proto, *proto.attribute)}
        return iter([Turn(None, function, feeds, attributes)])
    if normal_domain(proto.domain) or proto.op_type not in makers:
        return iter(())
    return makers[proto.op_type](proto, xs)


def called(unit: Unit) -> Turns:
    """Yield what a call of ours was written as, where that is several nodes in its place."""
    from onnx import GraphProto, ValueInfoProto

    if isinstance(unit.main.op, Call) and len(unit.protos) > 1:
        outputs = [ValueInfoProto(name=name) for name, _ in unit.outputs]
        yield Turn(None, GraphProto(node=unit.protos, output=outputs), {})


def _attribute(proto: NodeProto, name: str) -> Any:
    return next((a for a in proto.attribute if a.name == name), None)


def _branch(proto: NodeProto, xs: Sequence[Any]) -> Turns:
    part = "then" if bool(np.reshape(xs[0], ())) else "else"
    yield Turn(part, _attribute(proto, f"{part}_branch").g, {})


def _loop(proto: NodeProto, xs: Sequence[Any]) -> Turns:
    body = _attribute(proto, "body").g
    trip, go = [*xs, None, None][:2]
    carried = list(xs[2:])
    going = True if go is None else bool(np.reshape(go, ()))
    number, flag, *names = (info.name for info in body.input)
    ends = [info.name for info in body.output]
    for i in itertools.count():
        if not going or (trip is not None and i >= int(np.reshape(trip, ()))):
            return
        feeds = {number: _shaped(body.input[0], np.int64(i)), flag: _shaped(body.input[1], True)}
        turn = Turn(i, body, {**feeds, **dict(zip(names, carried, strict=True))})
        yield turn
        found = turn.results(ends[: 1 + len(names)])
        if found is None:
            return
        going, carried = bool(np.reshape(found[0], ())), found[1:]


def _shaped(info: Any, value: Any) -> Array:
    """Return a number of the shape that a body states for it: none, or one element."""
    return np.reshape(np.asarray(value), [1] * len(info.type.tensor_type.shape.dim))


def _scan(proto: NodeProto, xs: Sequence[Any]) -> Turns:
    body, n_scanned = _attribute(proto, "body").g, _attribute(proto, "num_scan_inputs").i
    n = len(xs) - n_scanned
    if len(body.input) != len(xs):  # that of opset 8 has lengths before
        return
    names, ends = ([i.name for i in infos] for infos in (body.input, body.output))
    axes, backwards = (_attribute(proto, f"scan_input_{key}") for key in ("axes", "directions"))
    axis = [0] * n_scanned if axes is None else list(axes.ints)
    back = [0] * n_scanned if backwards is None else list(backwards.ints)
    carried = list(xs[:n])
    length = xs[n].shape[axis[0]]
    for i in range(length):
        items = [
            np.take(x, length - 1 - i if b else i, axis=a)
            for x, a, b in zip(xs[n:], axis, back, strict=True)
        ]
        turn = Turn(i, body, dict(zip(names, [*carried, *items], strict=True)))
        yield turn
        found = turn.results(ends[:n])
        if found is None:
            return
        carried = found


# -- models of their own ---------------------------------------------------------------------------


def lifted(frame: Frame, turn: Turn) -> tuple[ModelProto, dict[str, Array]]:
    """Return the body of a turn as a model, and what is fed to it.

    What it sees of its surroundings is stored in it, but for sequences, which cannot be.
    """
    from onnx import FunctionProto

    if isinstance(turn.body, FunctionProto):
        graph = _of_function(turn)
        return _model(frame, graph, turn.body.opset_import), dict(turn.feeds)
    graph, feeds = _of_body(frame, turn.body, turn.feeds)
    return _model(frame, graph, ()), feeds


def alone(frame: Frame, protos: Sequence[NodeProto], outputs: Sequence[str]) -> ModelProto:
    """Return some nodes of a model as a model that has all their inputs stored."""
    from onnx import GraphProto, ValueInfoProto

    infos = [ValueInfoProto(name=name) for name in outputs]
    graph, _ = _of_body(frame, GraphProto(node=protos, output=infos), {})
    return _model(frame, graph, ())


def _model(frame: Frame, graph: GraphProto, imports: Any) -> ModelProto:
    from onnx import ModelProto

    model = ModelProto(ir_version=frame.model.ir_version, graph=graph)
    model.opset_import.extend(imports or frame.model.opset_import)
    model.functions.extend(frame.model.functions)
    return model


def _of_body(
    frame: Frame, body: GraphProto, given: Mapping[str, Array]
) -> tuple[GraphProto, dict[str, Array]]:
    from onnx import GraphProto, ValueInfoProto

    feeds = dict(given)
    graph = GraphProto(name="body", node=body.node, initializer=body.initializer)
    graph.sparse_initializer.extend(body.sparse_initializer)
    graph.output.extend(ValueInfoProto(name=info.name) for info in body.output)
    held = {name for node in body.node for name in node.output}
    held |= {t.name for t in body.initializer} | {t.values.name for t in body.sparse_initializer}
    read = {name for node in body.node for name in names_read(node)}
    read |= {info.name for info in body.output}
    for name in sorted(read - held - feeds.keys() - {""}):
        value = frame.value(name)
        if value is not None and value.dtype == BOXED:
            feeds[name] = value
        elif value is not None:
            graph.initializer.append(to_tensor(value, name))
    graph.input.extend(value_info(name, spec_of(x)) for name, x in feeds.items())
    return graph, feeds


def _of_function(turn: Turn) -> GraphProto:
    from onnx import GraphProto, ValueInfoProto

    graph = GraphProto(name="body", node=turn.body.node)
    graph.output.extend(ValueInfoProto(name=name) for name in turn.body.output)
    graph.input.extend(value_info(name, spec_of(x)) for name, x in turn.feeds.items())
    left_out = set(turn.body.input) - turn.feeds.keys()
    stack = list(graph.node)
    while stack:
        node = stack.pop()
        for i, name in enumerate(node.input):
            node.input[i] = "" if name in left_out else name
        for attribute in list(node.attribute):
            given = turn.attributes.get(attribute.ref_attr_name)
            if attribute.ref_attr_name and given is None:
                node.attribute.remove(attribute)
            elif attribute.ref_attr_name:
                name = attribute.name
                attribute.CopyFrom(given)
                attribute.name = name
        stack += [inner for held in graphs_of(node) for inner in held.node]
    return graph
