"""Arrays joined along an axis, or along a new one: each is copied to its part of the result.

Bytes moved for N elements of s bytes in all: 2·N·s, in a launch for each array.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradwright.fuse.dense import copying
from gradwright.fuse.fused import Fused
from gradwright.program.lowering import Launch, lowering
from gradwright.spec import TensorSpec, spec_of

from ..device.array import DeviceArray
from ..fused.group import group
from ..launch import Strided

Array = np.ndarray[Any, Any]


@lowering("concat", device="cuda")
@lowering("stack", device="cuda")
def joining(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Strided | None:
    """Launch a copy for each array; those that would be cast are declined."""
    if any(x.dtype != outs[0].dtype for x in ins):
        return None
    return Strided(functools.partial(_bind, op))


def _bind(op: Any, xs: Sequence[Array], ys: Sequence[Array]) -> Launch:
    y = ys[0]
    copies = []
    for x, part in zip(xs, _parts(op, xs, y), strict=True):
        shift = part.ctypes.data - y.ctypes.data
        copies.append((_copy(x, part), spec_of(part), shift, part.strides))

    def run(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        for x, (copy, spec, shift, strides) in zip(xs, copies, strict=True):
            at = ys[0].address + shift
            copy([x], [DeviceArray(at, spec, strides, name=ys[0].name)])

    return run


def _parts(op: Any, xs: Sequence[Array], y: Array) -> Iterator[Array]:
    """Yield where each array goes, as a view of the result."""
    if y.ndim > xs[0].ndim:  # each is one index of an axis of its own
        whole = np.moveaxis(y, op.axis, 0)
        yield from (whole[n, ...] for n in range(len(xs)))
        return
    at = 0
    lead = (slice(None),) * (op.axis % y.ndim)
    for x in xs:
        size = x.shape[op.axis]
        yield y[(*lead, slice(at, at + size))]
        at += size


def _copy(x: Array, part: Array) -> Launch:
    op = Fused(copying(x.dtype, x.ndim), x.shape, [spec_of(part)], ("copy",))
    made: Launch = group(op).bind([x], [part])
    return made
