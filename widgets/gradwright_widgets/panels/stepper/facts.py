"""What a stepper's panel shows, as numbers and text: levels, nodes, tensors, endings."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwright import Node, Stepper
from gradwright.debug import Stop
from gradwright.debug.inside import has_inside
from gradwright.debug.stepping.frame import Frame
from gradwright.errors import GradwrightError

from ...drawing.buffers import int32
from ...drawing.values import number, plain, ranges, thumbnail
from ...host.wire import Message
from ..tensor.sheet import spec_text

Array = np.ndarray[Any, Any]
Row = list[Any]
"""Index of a node in its level, least and greatest finite element, counts of NaN and Inf, shape."""


def row_of(index: int, array: Array) -> Row:
    """Return what a row of the list says about a value."""
    return [index, *ranges(array), list(array.shape)]


def rows_between(frame: Frame, first: int, end: int) -> list[Row]:
    """Return the rows of the nodes of a level that have run."""
    found = []
    for index in range(max(0, first), min(end, frame.position)):
        outputs = frame.steps[index].public
        if outputs:
            found.append(row_of(index, frame.value(outputs[0])))
    return found


def tensor_facts(label: str, array: Array) -> dict[str, Any]:
    """Return what is shown beside a tensor's name."""
    values = plain(array)
    facts: dict[str, Any] = {"name": label, "spec": spec_text(array), "range": ranges(array)}
    if values.size and values.dtype.kind in "fiu":
        with np.errstate(all="ignore"):
            finite = values[np.isfinite(values)] if facts["range"][2:] != [0, 0] else values
            if finite.size:
                known = {"mean": finite.mean(dtype=np.float64), "std": finite.std(dtype=np.float64)}
                facts.update((k, number(v)) for k, v in known.items() if np.isfinite(v))
    if array.ndim == 0:
        facts["text"] = f"{array.item():.6g}" if array.dtype.kind == "f" else str(array.item())
    elif array.size <= 6:
        facts["text"] = np.array2string(array, precision=4, separator=", ").replace("\n", "")
    return facts


def level_message(number: int, frame: Frame, end: int | None = None) -> Message:
    """Return the names, ops and specs of a level: sent once, when it is entered."""
    nodes = frame.steps[:end]
    ops: dict[str, int] = {}
    specs: dict[str, int] = {}
    op_of, spec_of = [], []
    for node in nodes:
        op_of.append(ops.setdefault(node.op.name, len(ops)))
        text = str(node.outputs[0].spec) if node.outputs else ""
        spec_of.append(specs.setdefault(text, len(specs)))
    split = next((i for i, node in enumerate(nodes) if node.derived), len(nodes))
    content = {
        "kind": "stepper.level",
        "level": number,
        "names": [node.name for node in nodes],
        "ops": list(ops),
        "specs": list(specs),
        "split": split,
    }
    return content, [int32(op_of), int32(spec_of)]


def crumb(frame: Frame) -> str:
    """Return what encloses a level, with the turn or the branch: ``decoder/scan:3``."""
    node, part = frame.at[-1]
    return node if part is None else f"{node}:{part}"


def node_facts(node: Node, index: int, path: str) -> dict[str, Any]:
    """Return what is said about a node, beside its values."""
    call = repr(node.op)
    return {
        "index": index,
        "name": node.name,
        "path": path,
        "op": call if len(call) <= 200 else call[:199] + "…",
        "where": node.where,
        "of": "" if node.origin is None else node.origin.name,
        "inside": has_inside(node.op),
    }


def focus_facts(frame: Frame, node: Node) -> dict[str, Any]:
    """Return a node with the values at its inputs and outputs, as far as they are known."""
    tensors = []
    sides = (("in", [t for t in node.inputs if t is not None]), ("out", list(node.public)))
    for side, found in sides:
        for t in found[:12]:
            if frame.is_known(t):
                array = frame.value(t)
                data, height, width = thumbnail(array)
                facts = tensor_facts(t.name, array)
                facts.update(thumb=data, thumb_shape=[height, width])
            else:
                facts = {"name": t.name, "spec": str(t.spec)}
            facts["side"] = side
            if frame.at:
                facts.update(path=frame.prefix + t.name, fixed=t.node not in frame.index)
            tensors.append(facts)
    return {**node_facts(node, frame.index.get(node, -1), frame.path(node)), "tensors": tensors}


def failure_text(stop: Stop) -> str:
    """Return which op failed, the user's line, and the error with all its lines."""
    node, error = stop.node, stop.error
    assert node is not None and error is not None
    where = f", {node.where}" if node.where else ""
    text = str(error) or "no message"
    kind = "" if isinstance(error, GradwrightError) else f"{type(error).__name__}: "
    return f"{node.op.name} {stop.path!r} failed{where}\n{kind}{text}"


def ending_text(stop: Stop) -> str:
    """Return in words why a run stopped before its end."""
    if stop.breakpoint is None:
        return "Stopped."
    side = "after" if stop.breakpoint.is_conditional else "before"
    return f"Stopped {side} {stop.path!r}: breakpoint {stop.breakpoint}."


def span_text(found: list[Any]) -> str:
    """Return ``ranges`` as text.

    >>> span_text([-1.0, 2.5, 1, 0])
    '-1 … 2.5, 1 NaN'
    """
    low, high, n_nan, n_inf = found
    parts = [] if low is None else [f"{low:g}" if low == high else f"{low:g} … {high:g}"]
    parts += [f"{n:,} {label}" for n, label in ((n_nan, "NaN"), (n_inf, "Inf")) if n]
    return ", ".join(parts) or "empty"


def watch_facts(stepper: Stepper, text: str) -> dict[str, Any]:
    """Return an expression with its value here, or why it has none."""
    try:
        value = stepper.evaluate(text)
    except GradwrightError as error:
        return {"text": text, "error": str(error)}
    if value is None:
        return {"text": text, "waits": True}
    if isinstance(value, np.ndarray):
        small = np.array2string(value, precision=4, separator=", ").replace("\n", "")
        large = f"{spec_text(value)}  {span_text(ranges(value))}"
        return {"text": text, "value": small if value.size <= 6 else large}
    return {"text": text, "value": f"{value:.6g}" if isinstance(value, float) else str(value)}
