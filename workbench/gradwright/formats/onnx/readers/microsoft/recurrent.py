"""Recurrent layers with coded weights."""

from __future__ import annotations

import dataclasses
from typing import Any

from ...node import OnnxNode, cast, op
from ..recurrent import recurrent
from .contrib import reads


@reads("DynamicQuantizeLSTM")
def dynamic_quantize_lstm(node: OnnxNode, *xs: Any) -> Any:
    """Run an LSTM on the numbers that its weights stand for.

    ONNX Runtime codes what is multiplied with them, too, at each step, by a range that depends on
    how many rows a thread is given; here it keeps its precision.
    """
    x, w, r, bias, lengths, hidden, cell, peephole, *codes = xs
    w, r = _real(w, *codes[:2]), _real(r, *codes[2:])
    lstm = dataclasses.replace(node, op_type="LSTM")
    return recurrent(lstm, x, w.mT, r.mT, bias, lengths, hidden, cell, peephole)


def _real(codes: Any, scale: Any, zero_point: Any) -> Any:
    """Return weights ``[directions, inputs, 4·H]``, whose scale is one by direction or by gate."""
    shape = (scale.shape[0], 1, scale.shape[1] if scale.rank > 1 else 1)
    turn = op("reshape", shape=shape)
    moved = cast(codes, scale.dtype) - turn(cast(zero_point, scale.dtype))
    return moved * turn(scale)
