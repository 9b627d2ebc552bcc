"""The base of what is trained: arrays that stay as they are, of which checksums are kept alone."""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import TrainingError
from ...formats.report import some
from ...graph import Constant, Graph, Values, Variable
from ...spec import TensorSpec
from ..step.adapted import owned
from ..training import Training
from .folder import Checkpoint
from .settings import MOST

Array = np.ndarray[Any, Any]
LEAST = 4096
"""Bytes of constants that are left out; smaller ones are numbers of the graph, and no weights."""
WHOLE, PIECE, PIECES = 1 << 20, 1 << 16, 16
"""Arrays of up to so many bytes are read as a whole, larger ones in so many pieces of this size: a
model of gigabytes is mapped, and would be read from the disk for each checkpoint."""


def left_out(graph: Graph) -> list[str]:
    """Return the names of what neither steps nor updates change, but for what belongs to adapters.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w, v = g.variable("w", (2,)), g.variable("v", (2,), trainable=False)
    >>> left_out(g)
    ['v']
    """
    own = {t.node for t in owned(graph)}
    updated = {t.node for t in graph.updates.declared}
    return [
        node.name
        for node in graph.nodes
        if node not in own and node not in updated and not node.trainable and _is_base(graph, node)
    ]


def _is_base(graph: Graph, node: Any) -> bool:
    if isinstance(node.op, Constant):
        return int(graph.values.stored(node).nbytes) >= LEAST
    return isinstance(node.op, Variable) and not graph.updates.holds_state(node.outputs[0])


def checksum(array: Array) -> int:
    """Return a number that tells an array from another: of its spec and bytes, of a large one some.

    >>> checksum(np.ones(3)) == checksum(np.ones(3)), checksum(np.ones(3)) == checksum(np.zeros(3))
    (True, False)
    """
    told = zlib.crc32(str(TensorSpec(array.shape, array.dtype)).encode())
    if array.dtype.kind == "T":
        return zlib.crc32("\0".join(map(str, array.reshape(-1).tolist())).encode(), told)
    flat = array.reshape(-1)
    if array.nbytes <= WHOLE:
        return zlib.crc32(flat.view(np.uint8).data, told)
    step = PIECE // array.itemsize
    for i in range(PIECES):
        start = i * (flat.size - step) // (PIECES - 1)
        told = zlib.crc32(flat[start : start + step].view(np.uint8).data, told)
    return told


class Checksums:
    """Checksums of the base of a training, each taken once for as long as its array is the same."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[weakref.ref[Array], int]] = {}

    def of(self, trainer: Training) -> dict[str, int]:
        """Return name -> checksum of all that is left out."""
        return {name: self._one(trainer.values, name) for name in left_out(trainer.graph)}

    def _one(self, values: Values, name: str) -> int:
        array = values.array(name)
        held = self._known.get(name)
        if held is None or held[0]() is not array:
            held = self._known[name] = weakref.ref(array), checksum(array)
        return held[1]


def check_base(trainer: Training, one: Checkpoint) -> None:
    """Raise TrainingError where a checkpoint is for another model than a trainer has."""
    if not one.base:
        return
    present: Mapping[str, int] = Checksums().of(trainer)
    other = [n for n, told in one.base.items() if n in present and present[n] != told]
    lacking = [n for n in one.base if n not in present]
    if not other and not lacking:
        return
    lists = {"other values": other, "not there, or trained": lacking}
    raise TrainingError(
        f"{one.path.name} holds what was trained alone, and this is another model",
        facts=[f"{what}: {some(names, MOST)}" for what, names in lists.items() if names],
        need="the model whose adapters it holds, with the same weights",
    )
