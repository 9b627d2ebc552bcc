"""Writers of ops that are more, or less, than one ONNX operator; one file per family."""

from . import control, elementwise, indexing, layers, reductions, shapes
