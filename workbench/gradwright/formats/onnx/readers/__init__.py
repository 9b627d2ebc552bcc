"""Readers of ONNX operators that are more than another name of an op, one file per family."""

from . import (
    attention,
    classical,
    control,
    draws,
    elementwise,
    images,
    indexing,
    losses,
    neural,
    quantised,
    recurrent,
    reductions,
    regions,
    resizing,
    sequences,
    shapes,
    signals,
    texts,
    trees,
)
