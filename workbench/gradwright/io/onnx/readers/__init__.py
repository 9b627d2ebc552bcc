"""Readers of ONNX operators that are more than another name of an op, one file per family."""

from __future__ import annotations

from . import elementwise, indexing, neural, reductions, shapes

__all__ = ["elementwise", "indexing", "neural", "reductions", "shapes"]
