"""What a stepper's panel shows, as numbers and text: levels, nodes, tensors, whole runs."""

from __future__ import annotations

import ast
import json
from typing import Any

import numpy as np

from gradwright import Node, Stepper, Tensor
from gradwright.debug.frame import Frame
from gradwright.errors import GraphError
from gradwright.spec import spec_of

from ._base import Message, int32

Array = np.ndarray[Any, Any]
Row = list[Any]
"""Index of a node in its level, least and greatest finite element, counts of NaN and Inf, shape."""

THUMB = (24, 32)
"""Most rows and columns of a thumbnail."""
MOST_BYTES = 2_000_000
"""Of a recording; what goes beyond it is left out, and the recording says so."""
_MOST_TEXT = 100_000  # characters of a pasted literal


def plain(array: Array) -> Array:
    """Return real numbers that numpy reduces: moduli of complex ones, float32 for small floats."""
    if array.dtype.kind == "c":
        return np.abs(array)
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def ranges(array: Array) -> list[Any]:
    """Return the least and greatest finite element, and how many are NaN and Inf.

    >>> ranges(np.array([1.0, -2.0, np.nan]))
    [-2.0, 1.0, 1, 0]
    """
    values = plain(array)
    if not values.size:
        return [None, None, 0, 0]
    with np.errstate(invalid="ignore"):
        low, high = values.min(), values.max()  # NaN if there is one: two passes for most tensors
    if np.isfinite(low) and np.isfinite(high):
        return [number(low), number(high), 0, 0]
    finite = values[np.isfinite(values)]
    ends = [number(finite.min()), number(finite.max())] if finite.size else [None, None]
    return [*ends, int(np.isnan(values).sum()), int(np.isinf(values).sum())]


def number(value: Any) -> float | int:
    """Return a number for JSON with six significant digits."""
    return int(value) if isinstance(value, (np.integer, int)) else float(f"{float(value):.6g}")


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


def thumbnail(array: Array) -> tuple[bytes, int, int]:
    """Return a picture of at most 24 x 32 elements, picked evenly, and its height and width.

    One byte each: 127 is 0, 0 and 254 are ∓ the greatest modulus, 255 is NaN or Inf.
    """
    values = plain(array)
    grid = values.reshape(-1, values.shape[-1]) if values.ndim > 1 else values.reshape(1, -1)
    if not grid.size:
        return b"", 0, 0
    picks = [
        np.linspace(0, n - 1, min(n, most)).astype(int)
        for n, most in zip(grid.shape, THUMB, strict=True)
    ]
    grid = grid[np.ix_(*picks)].astype(np.float64)
    finite = np.isfinite(grid)
    grid[~finite] = 0.0
    grid /= np.abs(grid).max() or 1.0
    levels = np.where(finite, np.rint(127 + 127 * grid), 255)
    return levels.astype(np.uint8).tobytes(), *grid.shape


def tensor_facts(label: str, array: Array) -> dict[str, Any]:
    """Return what is shown beside a tensor's name."""
    values = plain(array)
    facts: dict[str, Any] = {"name": label, "spec": spec_text(array), "range": ranges(array)}
    if values.size and values.dtype.kind in "fiu":
        with np.errstate(all="ignore"):
            finite = values[np.isfinite(values)] if facts["range"][2:] != [0, 0] else values
            if finite.size:
                facts["mean"] = number(finite.mean(dtype=np.float64))
                facts["std"] = number(finite.std(dtype=np.float64))
    if array.ndim == 0:
        facts["text"] = f"{array.item():.6g}" if array.dtype.kind == "f" else str(array.item())
    elif array.size <= 6:
        facts["text"] = np.array2string(array, precision=4, separator=", ").replace("\n", "")
    return facts


def spec_text(array: Array) -> str:
    """Return ``f32[64, 10]`` for an array."""
    return str(spec_of(array))


def level_message(number: int, frame: Frame) -> Message:
    """Return the names, ops and specs of a level: sent once, when it is entered."""
    ops: dict[str, int] = {}
    specs: dict[str, int] = {}
    op_of, spec_of = [], []
    for node in frame.steps:
        op_of.append(ops.setdefault(node.op.name, len(ops)))
        text = str(node.outputs[0].spec) if node.outputs else ""
        spec_of.append(specs.setdefault(text, len(specs)))
    split = next((i for i, node in enumerate(frame.steps) if node.derived), len(op_of))
    content = {
        "kind": "stepper.level",
        "level": number,
        "names": [node.name for node in frame.steps],
        "ops": list(ops),
        "specs": list(specs),
        "split": split,
    }
    return content, [int32(op_of), int32(spec_of)]


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
        "inside": node.op.is_composite() or node.op.name == "cond",
    }


def focus_facts(frame: Frame, node: Node, path: str) -> dict[str, Any]:
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
            if frame.label:
                facts.update(path=f"{frame.label}/{t.name}", fixed=t.node not in frame.index)
            tensors.append(facts)
    return {**node_facts(node, frame.index.get(node, -1), path), "tensors": tensors}


def recording(stepper: Stepper) -> list[Message]:
    """Run everything once more, and return it for a page without a kernel."""
    run = stepper.copy()
    stop = run.run()
    frame = run.frame
    level = level_message(0, frame)
    spent = len(json.dumps(level[0])) + 11 * len(frame.steps)  # the buffers of the level in base64
    tensors: list[dict[str, Any]] = []
    number_of: dict[Tensor, int] = {}
    nodes, rows, thumbs = [], [], bytearray()

    def keep(t: Tensor) -> int:
        nonlocal spent
        if t not in number_of:
            facts: dict[str, Any] = {"name": t.name, "spec": str(t.spec)}
            if frame.is_known(t):
                array = frame.value(t)
                facts = tensor_facts(t.name, array)
                data, height, width = thumbnail(array)
                facts.update(thumb=[len(thumbs), height, width])
                thumbs.extend(data)
                spent += len(data) * 4 // 3
            spent += len(json.dumps(facts))
            number_of[t] = len(tensors)
            tensors.append(facts)
        return number_of[t]

    for index, node in enumerate(frame.steps):
        if spent > MOST_BYTES:
            break
        facts = node_facts(node, index, node.name)
        ins = [keep(t) for t in node.inputs[:12] if t is not None]
        nodes.append({**facts, "in": ins, "out": [keep(t) for t in node.public[:12]]})
        rows += rows_between(frame, index, index + 1)
        spent += len(json.dumps(nodes[-1])) + 60
    left = len(frame.steps) - len(nodes)
    content = {
        "kind": "stepper.recording",
        "position": min(stepper.levels[0].position, len(nodes)),
        "nodes": nodes,
        "tensors": tensors,
        "rows": rows,
        "failed": -1 if stop.error is None else run.position,
        "error": "" if stop.error is None else error_text(stop.error),
        "note": f"The recording ends here: {left:,} more nodes would exceed its 2 MB." * bool(left),
    }
    return [level, (content, [memoryview(bytes(thumbs))])]


def error_text(error: BaseException) -> str:
    """Return an error as its reader wants it: our own with all their lines, others with a type."""
    text = str(error) or "no message"
    return text if isinstance(error, GraphError) else f"{type(error).__name__}: {text}"


# -- what is typed into the editor ---------------------------------------------------------------


def parse_value(text: str) -> Any:
    """Return a number or nested list that was typed; ``nan``, ``inf`` and ``array(...)`` are known.

    >>> parse_value("[1, -inf]"), parse_value("np.array([[2.5]], dtype=np.float32)")
    ([1, -inf], [[2.5]])
    """
    try:
        if len(text) > _MOST_TEXT:
            raise ValueError(f"more than {_MOST_TEXT:,} characters")
        tree = _Numbers().visit(ast.parse(text.strip(), mode="eval"))
        return ast.literal_eval(tree)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise GraphError(
            f"cannot read {text[:60]!r} as numbers: {str(error)[:120]}",
            need="a number, or a list such as [[1, 2], [3, nan]]",
        ) from None


class _Numbers(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(float(node.id)) if node.id in ("nan", "inf") else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        return self.visit(node.args[0]) if name == "array" and node.args else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return ast.Constant(float(node.attr)) if node.attr in ("nan", "inf") else node


def parse_index(text: str) -> tuple[Any, ...]:
    """Return an index that was typed as in numpy.

    >>> parse_index("0, 1:3, ...")
    (0, slice(1, 3, None), Ellipsis)
    """

    def part(word: str) -> Any:
        word = word.strip()
        if word == "...":
            return ...
        ends = [int(end) if end.strip() else None for end in word.split(":")]
        return ends[0] if len(ends) == 1 and ends[0] is not None else slice(*ends)

    inner = text.strip().removeprefix("[").removesuffix("]").rstrip(",")
    try:
        return tuple(part(word) for word in inner.split(",")) if inner.strip() else ()
    except (ValueError, TypeError):
        raise GraphError(
            f"cannot read the index {text[:60]!r}", need="such as 0, 3 or :, -1"
        ) from None
