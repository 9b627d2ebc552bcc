"""Convolutions of constant weights: what scales and shifts channels becomes part of them.

So a batch norm of known statistics costs nothing: its scale goes into the weight, the rest into the
bias. Where a weight is a variable, or large, kernels do it to each result while it is in the cache.
"""

from __future__ import annotations

import math
from typing import Any

from ..ops.convolutions.cnn import Conv2d
from ..ops.convolutions.formats import is_first
from ..ops.core.elementwise import Add, Mul, Neg
from ..ops.core.reshape import Reshape
from ..program.program import Instr
from .cleanup import FOLD_BYTES
from .editor import Editor
from .table import rule

CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")


def _fixed(k: Any, *shape: int) -> Any:
    """Return the constant of an example: 1, 2, 3 and so on."""
    numbers = [float(n + 1) for n in range(math.prod(shape))]
    return Reshape(shape=shape)(k.graph.constant(numbers, dtype=k.dtype))


@rule(
    "convolution_scaled",
    "mul",
    "conv(x, w, b)·s, w, b and s constants",
    "conv(x, w·s, b·s)",
    needs=CONVOLUTIONS,
    exact=False,
    example=lambda k: Conv2d()(k, _fixed(k, 2, 2, 1, 2), _fixed(k, 2)) * _fixed(k, 2, 1, 1),
)
def _scaled(at: Editor, instr: Instr) -> int | None:
    """A weight of up to 1 MB is scaled once, not each result of it."""
    for value, scale in (instr.ins, instr.ins[::-1]):
        made = _convolution(at, value)
        if made is None or made.ins[1] not in at.constants or not _is_of_channels(at, scale, value):
            continue
        weight, bias = made.ins[1], (*made.ins, None)[2]
        spec = at.spec(weight)
        if spec.nbytes > FOLD_BYTES or (bias is not None and bias not in at.constants):
            continue
        lead = at.spec(scale).size, *(1,) * (spec.rank - 1)
        ins = [made.ins[0], at.make(Mul(), weight, at.make(Reshape(shape=lead), scale))]
        if bias is not None:
            ins.append(at.make(Mul(), bias, at.make(Reshape(shape=lead[:1]), scale)))
        return at.make(made.op, *ins)
    return None


@rule(
    "convolution_shifted",
    "add sub",
    "conv(x, w, b) ± t, b and t constants",
    "conv(x, w, b ± t)",
    needs=CONVOLUTIONS,
    exact=False,
    example=lambda k: Conv2d()(k, _fixed(k, 2, 2, 1, 2)) - _fixed(k, 2, 1, 1),
)
def _shifted(at: Editor, instr: Instr) -> int | None:
    """What is added to channels is a bias."""
    sides = [instr.ins] if instr.op.name == "sub" else [instr.ins, instr.ins[::-1]]
    for value, shift in sides:
        made = _convolution(at, value)
        if made is None or not _is_of_channels(at, shift, value):
            continue
        channels = at.spec(value).shape[1]
        weight, bias = made.ins[1], (*made.ins, None)[2]
        if at.spec(shift).size != channels or (bias is not None and bias not in at.constants):
            continue
        added = at.make(Reshape(shape=(channels,)), shift)
        added = at.make(Neg(), added) if instr.op.name == "sub" else added
        whole = added if bias is None else at.make(Add(), bias, added)
        return at.make(made.op, made.ins[0], weight, whole)
    return None


def _convolution(at: Editor, value: int | None) -> Instr | None:
    """Return the convolution that makes a value which only one instruction reads."""
    made = at.producer(value)
    if made is None or made.op.name not in CONVOLUTIONS or not is_first(made.op):
        return None
    assert value is not None
    return made if at.is_alone(value) else None


def _is_of_channels(at: Editor, value: int | None, y: int | None) -> bool:
    """Tell whether a value is a constant of one number per channel of y, or of one for all."""
    if value is None or value not in at.constants or at.is_sized(value):
        return False
    spec, whole = at.spec(value), at.spec(y)
    lead = (*(1,) * (whole.rank - spec.rank), *spec.shape)
    others = (*lead[:1], *lead[2:])
    return (
        spec.dtype == whole.dtype
        and len(lead) == whole.rank
        and all(n == 1 for n in others)
        and lead[1] in (1, whole.shape[1])
    )
