"""Writers of ops that are more, or less, than one ONNX operator; one file per family."""

from __future__ import annotations

from . import control, elementwise, indexing, layers, reductions, shapes

__all__ = ["control", "elementwise", "indexing", "layers", "reductions", "shapes"]
