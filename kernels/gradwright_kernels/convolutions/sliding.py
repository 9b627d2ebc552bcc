"""What kernels of windows share: three axes whatever there are, and how positions are counted."""

# Kernels are Triton's language, not Python: they are typed when they are compiled.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import triton
import triton.language as tl

from gradwright.ops.convolutions.windows import Windows

AXES = 3


@triton.jit
def place(number, SIZE1, SIZE2):
    """Return the three indices of an element that has a number in [size0, size1, size2]."""
    rest = number // SIZE2
    return rest // SIZE1, rest % SIZE1, number % SIZE2


@triton.jit
def met(at, tap, size, STRIDE: tl.constexpr, DILATION: tl.constexpr, PAD, BACK: tl.constexpr):
    """Return where a window's tap meets the other side along an axis, and whether it does.

    From windows to elements it is at·stride + tap·dilation − pad; BACK from elements to windows.
    """
    if BACK:
        ahead = at + PAD - tap * DILATION
        index = ahead // STRIDE
        hits = (ahead >= 0) & (index < size)
        if STRIDE > 1:
            hits = hits & (ahead % STRIDE == 0)
    else:
        index = at * STRIDE + tap * DILATION - PAD
        hits = (index >= 0) & (index < size)
    return index, hits


def geometry(windows: Windows, size: Sequence[int]) -> dict[str, int]:
    """Return kernel, stride, dilation and padding before along three axes, the first ones of 1."""
    before = [a for a, _ in windows.pads(size)]
    told = {"K": windows.kernel, "STRIDE": windows.stride, "DILATION": windows.dilation}
    found = {f"{k}{n}": v for k, each in told.items() for n, v in enumerate(padded(each, 1))}
    return found | {f"PAD{n}": v for n, v in enumerate(padded(before, 0))}


def padded(values: Sequence[Any], rest: int) -> list[int]:
    """Return a number for each of three axes: ``rest`` for those that are not there."""
    return [rest] * (AXES - len(values)) + [int(v) for v in values]


def strides(name: str, x: Any) -> dict[str, int]:
    """Return the strides of [N, C, *size] in elements, 0 along axes that are not there."""
    lead, rest = [s // x.itemsize for s in x.strides[:2]], x.strides[2:]
    steps = [*lead, *padded([s // x.itemsize for s in rest], 0)]
    return {f"{name}_{axis}": s for axis, s in zip(("n", "c", "0", "1", "2"), steps, strict=True)}
