"""A launch, a program and a cost as a page gets them: words in JSON, elements in buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...host.wire import Message, finite

Array = np.ndarray[Any, Any]
MOST_ELEMENTS = 1 << 16
"""Elements of an array that are drawn: the first ones."""
MOST_LINES, MOST_TEXT, SIDE = 600, 200_000, 96
"""Lines of a program, characters of machine code, and rows and columns of a value that are sent."""


def steps_message(rows: Sequence[Any]) -> Message:
    """Return the steps of a plan."""
    found = [
        {"number": r.number, "what": r.what, "ops": list(r.ops), "nodes": list(r.nodes),
         "why": r.why}
        for r in rows
    ]  # fmt: skip
    return {"kind": "kernels.steps", "rows": found}, []


def launch_message(launch: Any, step: int, number: int, count: int) -> Message:
    """Return what all programs of a launch do, and for each element who reads and writes it."""
    source = launch.source()
    operands, buffers = [], []
    for k, operand in enumerate(launch.operands):
        shape = [int(n) for n in operand.array.shape]
        columns = shape[-1] if shape else 1
        size = int(np.prod(shape, dtype=np.int64))
        shown = min(size, max(1, MOST_ELEMENTS // max(1, columns)) * columns)
        operands.append(
            {"parameter": operand.parameter, "name": operand.name, "shape": shape,
             "dtype": str(operand.array.dtype), "size": size, "shown": shown}
        )  # fmt: skip
        for owners in launch.owners(k):
            buffers.append(owners.reshape(-1)[:shown].astype(np.int32).tobytes())
    content = {
        "kind": "kernels.launch", "step": step, "launch": number, "launches": count,
        "name": launch.name, "grid": list(launch.call.grid), "total": launch.n_programs,
        "programs": list(launch.programs), "nodes": list(launch.nodes), "bytes": launch.nbytes(),
        "source": _source(source), "operands": operands, "error": launch.error,
        "touches": [_touch(t) for t in launch.touches()],
        "findings": [_finding(f) for f in launch.findings],
    }  # fmt: skip
    return content, buffers


def program_message(launch: Any, program: int, walk: Any) -> Message:
    """Return what a program does line by line; each access has two buffers: elements and lanes."""
    indices = [_indices(operand) for operand in launch.operands]
    files = {(s.file, line): k for k, s in enumerate(walk.sources) for line in _range(s)}
    lines, buffers, sent = [], [], 0
    for line in walk.lines[:MOST_LINES]:
        first, last = line.accesses
        accesses = []
        for access in walk.accesses[first:last]:
            index = indices[access.argument] if access.argument >= 0 else np.zeros(0, np.int64)
            inside = access.elements[(access.elements >= 0) & (access.elements < index.size)]
            buffers += [index[inside].astype(np.int32).tobytes(), access.lanes.tobytes()]
            accesses.append(
                {"argument": access.argument, "how": access.how, "masked": access.masked,
                 "shape": list(access.lanes.shape), "buffer": sent}
            )  # fmt: skip
            sent += 2
        lines.append(
            {"source": files.get(line.place, -1), "line": line.place[1], "depth": line.depth,
             "changed": [_variable(v, launch.operands) for v in line.changed],
             "accesses": accesses}
        )  # fmt: skip
    content = {
        "kind": "kernels.program", "program": program, "lines": lines,
        "sources": [_source(s) for s in walk.sources],
        "cut": walk.is_cut or len(walk.lines) > MOST_LINES,
    }  # fmt: skip
    return content, buffers


def value_message(line: int, variable: Any) -> Message:
    """Return the elements of a variable, the first of large ones."""
    value = np.asarray(variable.value)
    whole = value.reshape(1, -1) if value.ndim < 2 else value.reshape(-1, value.shape[-1])
    shown = whole[:SIDE, : SIDE * 8 if len(whole) == 1 else SIDE]
    content = {
        "kind": "kernels.value", "line": line, "name": variable.name, "type": variable.kind,
        "shape": list(value.shape), "rows": len(shown), "columns": shown.shape[1],
        "cut": shown.size < whole.size,
    }  # fmt: skip
    return content, [np.ascontiguousarray(shown, np.float32).tobytes()]


def cost_message(found: Any) -> Message:
    """Return what a launch takes on a GPU."""
    used = found.resources
    content = {
        "kind": "kernels.cost", "capability": found.capability, "chip": found.chip,
        "registers": used.registers, "spilled": used.spilled_bytes, "shared": used.shared_bytes,
        "threads": used.threads, "blocks": found.blocks, "occupancy": found.occupancy,
        "limit": found.limit, "bytes": found.nbytes, "flops": found.flops,
        "memory": found.memory_seconds, "compute": found.compute_seconds, "bound": found.bound,
        "ptx": found.ptx[:MOST_TEXT], "sass": found.sass()[:MOST_TEXT],
    }  # fmt: skip
    return content, []


def _source(source: Any) -> dict[str, Any]:
    file = source.file.replace("\\", "/").rpartition("/")[2]
    return {"name": source.name, "file": file, "first": source.first, "lines": list(source.lines)}


def _range(source: Any) -> range:
    return range(source.first, source.first + len(source.lines))


def _touch(touch: Any) -> dict[str, Any]:
    return {
        "line": touch.place[1], "argument": touch.argument, "how": touch.how,
        "accesses": touch.accesses, "masked": touch.masked, "bytes": touch.nbytes,
        "distinct": touch.distinct, "sectors": touch.sectors,
    }  # fmt: skip


def _finding(finding: Any) -> dict[str, Any]:
    return {
        "line": finding.place[1], "program": finding.program, "text": finding.text,
        "parameter": finding.parameter, "name": finding.name,
    }  # fmt: skip


def _indices(operand: Any) -> Array:
    """Return for each place of an array's memory the number of the element there, or -1."""
    places = operand.elements.reshape(-1)
    found = np.full(int(places.max(initial=-1)) + 1, -1)
    found[places] = np.arange(places.size)
    return found


def _variable(variable: Any, operands: Sequence[Any]) -> dict[str, Any]:
    text, low, high = "", None, None
    value = np.asarray(variable.value)
    if variable.argument is not None:
        size = operands[variable.argument].array.dtype.itemsize
        places = value.reshape(-1) // size
        spread = f"{places.min()} … {places.max()}" if places.size > 1 else f"{places[0]}"
        text = f"{operands[variable.argument].parameter} + {spread}"
    elif value.size == 1:
        text = variable.text or _number(value.reshape(-1)[0])
    elif value.dtype == bool:
        text = f"{int(value.sum())} of {value.size} hold"
    elif value.size:
        numbers = value.astype(np.float64)
        with np.errstate(invalid="ignore"):
            some = numbers[np.isfinite(numbers)]
        low, high = (float(some.min()), float(some.max())) if some.size else (None, None)
        first = ", ".join(_number(n) for n in value.reshape(-1)[:3])
        text = f"{first}, …" if value.size > 3 else first
    return {
        "name": variable.name, "type": variable.kind, "text": text,
        "low": finite(low), "high": finite(high), "size": int(value.size),
    }  # fmt: skip


def _number(value: Any) -> str:
    """Return a number in few digits.

    >>> _number(np.float32(0.123456)), _number(np.int32(7)), _number(True)
    ('0.1235', '7', 'True')
    """
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
