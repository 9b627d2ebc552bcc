"""The stored value of a node in a few numbers and a small picture, for the sheet of a drawing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwright import Graph
from gradwright.formats.stored import Files, Stored

from ...drawing.values import bars, number, picked, shaded, statistics, thumbnail
from .asked import Asked
from .model import ranges
from .outlines import outlined
from .tensor import HELD, check_shown, measured

Array = np.ndarray[Any, Any]

ROW = 1 << 20
"""Bytes of a row above which its elements are read one by one."""


def values(asked: Asked) -> dict[str, Any]:
    """Return the message of an inspector about a node; without tensors where the file has none."""
    node = asked.text("node")
    held = ranges(asked)
    name = next((n for n in stored_names(outlined(asked).graph, node) if n in held), "")
    found, buffers = list[dict[str, Any]](), list[memoryview]()
    if name:
        with Files(asked.file, asked.open) as files:
            stored = Stored(held[name], files)
            check_shown(stored)
            facts, picture = _about(asked, name, stored)
        found.append({"label": "", "source": "file", **facts})
        buffers.append(memoryview(picture))
    content = {"kind": "inspector.values", "name": node, "tensors": found, "gradient": None}
    return {"messages": [{"content": content, "buffers": buffers}]}


def stored_names(graph: Graph, node: str) -> list[str]:
    """Return what the file may call the value of a node: as others named it, or like the node."""
    return [*(name for name, tensor in graph.known_as.items() if tensor.name == node), node]


def _about(asked: Asked, name: str, stored: Stored) -> tuple[dict[str, Any], bytes]:
    if stored.dtype.kind == "T" or stored.size * stored.dtype.itemsize <= HELD:
        array = stored.take((slice(None),) * len(stored.shape))
        picture, *size = thumbnail(array)
        return {"thumb": size, **statistics(array), "bars": bars(array)}, picture
    summary, counts = measured(asked, name, stored)
    ends = {"low": summary.low, "high": summary.high, "mean": summary.mean, "std": summary.std}
    found = {key: number(value) for key, value in ends.items() if math.isfinite(value)}
    picture, *size = shaded(_picked(stored))
    return {
        "low": None,
        "high": None,
        **found,
        "nan": summary.bad["NaN"],
        "inf": summary.bad["+Inf"] + summary.bad["-Inf"],
        "zeros": number(100.0 * summary.zeros / max(1, summary.read)),
        "every": summary.every,
        "bars": counts.tolist(),
        "thumb": size,
    }, picture


def _picked(stored: Stored) -> Array:
    """Return the elements of a thumbnail, each read from where it lies."""
    rows, columns = picked(stored.shape)
    width = stored.shape[-1]
    if width * stored.dtype.itemsize <= ROW:
        return np.stack([stored.flat(r * width, (r + 1) * width)[columns] for r in rows.tolist()])
    return np.stack([
        np.concatenate([stored.flat(r * width + c, r * width + c + 1) for c in columns.tolist()])
        for r in rows.tolist()
    ])  # fmt: skip
