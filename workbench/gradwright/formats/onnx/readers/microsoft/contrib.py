"""What readers of ONNX Runtime's operators share."""

from __future__ import annotations

import functools
from typing import Any

from .....errors import ArchiveError
from ...node import ONNX, OnnxNode, op

DOMAIN = "com.microsoft"
reads = functools.partial(ONNX.reads, domain=DOMAIN)


def refuse(node: OnnxNode, *attributes: str) -> None:
    """Refuse settings that are read only as their default, which is 0 or nothing."""
    for key in attributes:
        value = node.get(key)
        if value not in (None, 0, -1, "", "NONE"):
            raise ArchiveError(
                f"{node.op_type} with {key}={value!r} is not read", need=f"{key} left out"
            )


ACTIVATIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("Relu", "Sigmoid", "Tanh", "Softplus", "Softsign"), ()),
    "LeakyRelu": ("alpha",), "Elu": ("alpha",), "HardSigmoid": ("alpha", "beta"),
    "Clip": ("min", "max"),
}  # fmt: skip
"""Activation that may be fused into a node -> its attributes, in the order of their numbers."""


def activated(node: OnnxNode, y: Any, *numbers: Any) -> Any:
    """Apply the activation that was fused into a node."""
    name = node.get("activation", "")
    if not name:
        return y
    if name not in ACTIVATIONS:
        raise ArchiveError(
            f"{node.op_type} with activation={name!r} is not known", need=", ".join(ACTIVATIONS)
        )
    given = zip(ACTIVATIONS[name], numbers, strict=False)
    attributes = {key: value for key, value in given if value is not None}
    alone = OnnxNode(name, 6, attributes)
    reader = ONNX.find(alone)
    assert reader is not None
    return reader(alone, y)


def flat_last(x: Any, width: Any) -> Any:
    """Return ``[B, T, n·D]`` for ``[B, T, n, D]``."""
    return op("reshape", shape=(*x.shape[:2], width))(x)
