"""Gradients that a model asks for by the names of its own values."""

from __future__ import annotations

from typing import Any

from ....errors import ArchiveError
from ....gradient import gradients
from ..node import OnnxNode, op, reads
from .control import scope_of


@reads("Gradient", domain="ai.onnx.preview.training")
def gradient(node: OnnxNode, *xs: Any) -> Any:
    """Return the gradient of ``y`` at the values that were given, for each of ``xs``."""
    scope, names = scope_of(node), (*node["xs"], *node.get("zs", ()))
    if any(scope.tensor(name) is not x for name, x in zip(names, xs, strict=True)):
        raise ArchiveError(
            f"Gradient of {node['y'][:60]!r} at other values than those it was computed from",
            need=f"the inputs {', '.join(names)[:200]}",
        )
    y = scope.tensor(node["y"])
    if y is None:
        raise ArchiveError("Gradient of nothing", need="the name of a value as y")
    wrt = list(xs[: len(node["xs"])])
    return [op("identity")(g) for g in gradients(y, wrt, stop=list(xs), unreachable="zero")]
