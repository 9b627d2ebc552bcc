"""Formats of images: an op for channels last is one for channels first, between permutations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..op import Op
from ..ops.convolutions.cnn import Conv2d
from ..ops.convolutions.formats import Formatted, back
from ..ops.core.movement import Transpose
from ..program.program import Instr
from .editor import Editor
from .table import rule


def _formatted(op: type[Op]) -> bool:
    return issubclass(op, Formatted)


@rule(
    "channels_first",
    _formatted,
    "conv(x), channels last",
    "transpose(conv(transpose(x))), channels first",
    example=lambda k: Conv2d(data_format="NHWC", weights_format="HWIO")(k, k),
)
def _channels_first(at: Editor, instr: Instr) -> Sequence[int] | None:
    """Kernels know channels that come first; permutations of neighbours cancel."""
    op: Any = instr.op
    if op.is_first:
        return None
    ins = [_moved(at, x, op.order(i)) for i, x in enumerate(instr.ins)]
    undo = back(op.order(None))
    return [_moved(at, y, undo) for y in at.make_all(op.first(), *ins)]


def _moved(at: Editor, value: Any, order: Sequence[int] | None) -> Any:
    return value if value is None or order is None else at.make(Transpose(axes=order), value)
