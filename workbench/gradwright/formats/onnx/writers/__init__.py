"""Writers of ops that are more, or less, than one ONNX operator; one file per family."""

from __future__ import annotations

from . import (
    attention,
    complexes,
    control,
    convolutions,
    derived,
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
    windows,
)

__all__ = [
    "attention",
    "complexes",
    "control",
    "convolutions",
    "derived",
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
    "windows",
]
