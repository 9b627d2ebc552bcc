"""Bits of integers: ONNX shifts unsigned ones, so those with a sign go there and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph import Tensor
from ....spec import kind, promote
from ..by_rule import takes, write_by_rule
from ..node import cast, op, writes
from ..nodes import spell, spelled
from ..output import Call
from ..versions import schema_of


def _bits(x: Tensor) -> Any:
    """Return the bits of integers as uint64, 0 above their width."""
    width = 8 * x.dtype.itemsize
    y = cast(x if kind(x.dtype) == "u" else cast(x, "int64"), "uint64")
    return y if width == 64 else op("bitwise_and")(y, np.uint64((1 << width) - 1))


def _moved(bits: Any, n: Any, *, left: bool) -> Any:
    """Shift uint64 by 0 to 63 places."""
    return op("left_shift" if left else "right_shift")(bits, cast(n, "uint64"))


_LOGICAL = {"bitwise_and": "And", "bitwise_or": "Or", "bitwise_xor": "Xor", "bitwise_not": "Not"}


@writes(*_LOGICAL)
def bitwise(call: Call) -> Any:
    if call.y.dtype == np.dtype(bool):
        return call.add(_LOGICAL[call.op.name], *call.xs)
    return write_by_rule(call)


@writes("left_shift", "right_shift")
def shift(call: Call) -> Any:
    """Write a BitShift, which ONNX has for unsigned integers, and since opset 28 for all."""
    if not takes(schema_of("", "BitShift", call.out.opset), 0, call.y):
        return spell(call, _shifted)
    pairs = zip(call.xs, call.specs, strict=True)
    xs = [call.cast(x, s.dtype, call.y.dtype) for x, s in pairs if s is not None]
    return call.add("BitShift", *xs, direction="LEFT" if call.op.name == "left_shift" else "RIGHT")


def _shifted(of: Any, x: Tensor, n: Tensor) -> Any:
    """Shift the bits; of negative numbers to the right, those of −1 − x, back again."""
    n = cast(n, "int64")
    inside = (n >= 0) & (n < 8 * x.dtype.itemsize)
    by = op("where")(inside, n, 0)
    if of.name == "left_shift":
        y = cast(_moved(_bits(x), by, left=True), "int64")
        return cast(op("where")(inside, y, 0), x.dtype)
    below = x < 0
    wide = cast(x, "int64")
    there = op("where")(below, -1 - wide, wide)
    moved = cast(_moved(cast(there, "uint64"), by, left=False), "int64")
    moved = op("where")(inside, moved, 0)
    return cast(op("where")(below, -1 - moved, moved), x.dtype)


@spelled("rotate_left", "rotate_right")
def rotate(of: Any, x: Tensor, n: Tensor) -> Any:
    width, bits = 8 * x.dtype.itemsize, _bits(x)
    up = op("mod")(cast(n, "int64"), width)
    up = up if of.left else op("mod")(width - up, width)
    down = op("mod")(width - up, width)
    both = op("bitwise_or")(_moved(bits, up, left=True), _moved(bits, down, left=False))
    return cast(both, x.dtype)


def _ones(x: Tensor) -> Any:
    """Return how many bits are set: i64."""
    place = np.arange(8 * x.dtype.itemsize, dtype=np.uint64)
    each = op("right_shift")(op("expand_dims", axis=-1)(_bits(x)), place)
    return op("sum", axis=-1)(cast(op("bitwise_and")(each, np.uint64(1)), "int64"))


@spelled("popcount")
def popcount(of: Any, x: Tensor) -> Any:
    return cast(_ones(x), x.dtype)


@spelled("bits_hamming_distance")
def bits_hamming_distance(of: Any, a: Tensor, b: Tensor) -> Any:
    joint = promote(a.dtype, b.dtype)
    apart = op("bitwise_xor")(cast(a, joint), cast(b, joint))
    return op("sum", axis=of.axis, keepdims=of.keepdims)(_ones(apart))
