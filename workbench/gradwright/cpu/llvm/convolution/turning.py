"""Turning images: channels become the last axis, by blocks that are turned within registers.

A block of 16 by 16 numbers is 16 loads, 64 exchanges of lanes and 16 stores, 0.1 ns a number. One
by one numbers take 0.5 ns, or 2 where rows are far apart.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...call import Call
from ..text import Num
from .geometry import copied
from .machine import Machine, Text, machine, numbers

Array = np.ndarray[Any, Any]
TURNED = (
    "x", "y", "groups", "channels", "positions", "x_channel", "y_step", "y_group",
)  # fmt: skip
"""Block: addresses, counts, and steps in bytes; y has room for whole vectors of channels."""


def turning(x: Array, y: Array, operand: int) -> list[Call]:
    """Return the calls that copy ``x[G, C, *size]``, of an operand, to ``y[*size, G, >= C]``.

    Raises DeclinedError where machine code cannot.
    """
    groups, channels = x.shape[:2]
    positions, width = math.prod(x.shape[2:]), machine(x.dtype.char).width
    is_dense = x.flags.c_contiguous or (groups == 1 and x[0, 0].flags.c_contiguous)
    if not is_dense or positions < width:
        return copied(np.moveaxis(x, (0, 1), (-2, -1)), y[..., :channels], operand)
    block = numbers(
        TURNED,
        x=x.ctypes.data,
        y=y.ctypes.data,
        groups=groups,
        channels=channels,
        positions=positions,
        x_channel=x.strides[1],
        y_step=y.strides[-3],
        y_group=y.strides[-2],
    )
    return [Call(_compiled(x.dtype.char), block, [(0, operand)], y)]


@functools.cache
def _compiled(char: str) -> int:
    from ..compiler import compile_text  # llvmlite, which no import of ours may load

    return compile_text(source(machine(char)))


def source(machine: Machine) -> str:
    """Return the text of the function; the last block of positions may overlap the one before."""
    text = Text(machine)
    code, item, width = text.code, text.item, text.width
    at = text.code.entries(TURNED, 2)
    vectors = (at["channels"] + (width - 1)).op("sdiv", width)
    with (
        code.loop(text.zero, at["groups"]) as group,
        code.loop(text.zero, vectors) as vector,
    ):
        first = group.index * at["channels"]
        last = at["channels"] - 1
        rows = []
        for lane in range(width):  # channels behind the last one are any
            channel = code.call("i64", "llvm.smin.i64", vector.index * width + lane, last)
            rows.append(text.shift(at["x"], (first + channel) * at["x_channel"]))
        y = text.shift(at["y"], group.index * at["y_group"])
        y = text.shift(y, vector.index * (width * item))
        with code.loop(text.zero, at["positions"], step=width) as place:
            end = at["positions"] - width
            start = code.call("i64", "llvm.smin.i64", place.index, end)
            block = turned(text, [text.load(text.shift(row, start * item)) for row in rows])
            for lane, column in enumerate(block):
                text.store(column, text.shift(y, (start + lane) * at["y_step"]))
    return text.code.module()


def turned(text: Text, rows: list[Num]) -> list[Num]:
    """Return the columns of a square of vectors: halves, quarters and so on change places."""
    lanes, step = range(text.width), text.width // 2
    while step:
        for i in lanes:
            if i & step:
                continue
            a, b = rows[i], rows[i + step]
            low = [n if n & step == 0 else text.width + n - step for n in lanes]
            high = [n + step if n & step == 0 else text.width + n for n in lanes]
            rows[i], rows[i + step] = text.shuffle(a, b, low), text.shuffle(a, b, high)
        step //= 2
    return rows
