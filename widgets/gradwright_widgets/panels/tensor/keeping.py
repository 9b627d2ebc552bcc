"""The tensors that a page without a kernel can show, beside the one that it was saved with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from gradwright.errors import GradwrightError

from ...host.desk import GraphDesk
from ...host.wire import Message
from .picture import Picture
from .sheet import as_array
from .slicing import default_index
from .words import code_of

EACH = 250_000
"""Bytes of a value that is kept; a larger one is kept as the picture of its first slice."""
ALL = 2_000_000
"""Bytes of all that is kept, half as much again as base64 in the page."""


def kept_messages(desk: GraphDesk) -> list[Message]:
    """Return the pictures of parameters and constants, then of what the stepper has run."""
    found: list[Message] = []
    room = ALL
    for node, name, array, origin in _known(desk):
        picture = Picture(array, default_index(array.shape), [], part="real", scope="tensor")
        shown, buffers = picture.message(complete=array.nbytes <= EACH)
        room -= sum(memoryview(buffer).nbytes for buffer in buffers)
        if room < 0:
            break
        facts = {
            "kind": "tensor.picture",
            "serial": 0,
            "name": name,
            "origin": origin,
            "kept": node,
        }
        code = code_of(name, origin, picture.sheet.index)
        found.append(({**facts, "outputs": [], **shown, "code": code}, buffers))
    return found


def _known(desk: GraphDesk) -> Iterator[tuple[str, str, np.ndarray[Any, Any], str]]:
    """Yield node, tensor, value and where that comes from."""
    values, later = desk.values, []
    for node in desk.graph.nodes:
        for tensor in node.public[:1]:
            if tensor.name in values:
                with contextlib.suppress(GradwrightError):  # text has no picture
                    yield node.name, tensor.name, as_array(values[tensor.name]), "values"
            else:
                later.append((node.name, tensor.name))
    for node_name, name in later:
        value = desk.ask("value", name=name)
        if value is not None:
            with contextlib.suppress(GradwrightError):
                yield node_name, name, as_array(value), "stepper"
