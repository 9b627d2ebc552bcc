"""Readers of the operators of ONNX Runtime, which its optimizer and exporters leave in models.

Their domain is ``com.microsoft``; a few stand in ONNX's own, where no schema of ONNX names them.
"""

from . import (
    activations,
    arrays,
    attention,
    grouped,
    integers,
    norms,
    packed,
    products,
    recurrent,
)
