"""Writers of ops that are more, or less, than one ONNX operator; one file per family."""

from __future__ import annotations

from . import (
    attention,
    control,
    draws,
    elementwise,
    indexing,
    layers,
    losses,
    reductions,
    sequences,
    shapes,
    signals,
    texts,
)

__all__ = [
    "attention",
    "control",
    "draws",
    "elementwise",
    "indexing",
    "layers",
    "losses",
    "reductions",
    "sequences",
    "shapes",
    "signals",
    "texts",
]
