"""Readers of ONNX operators that are more than another name of an op, one file per family."""

from __future__ import annotations

from . import (
    control,
    elementwise,
    images,
    indexing,
    losses,
    neural,
    recurrent,
    reductions,
    shapes,
    texts,
    training,
    trees,
)

__all__ = [
    "control",
    "elementwise",
    "images",
    "indexing",
    "losses",
    "neural",
    "recurrent",
    "reductions",
    "shapes",
    "texts",
    "training",
    "trees",
]
