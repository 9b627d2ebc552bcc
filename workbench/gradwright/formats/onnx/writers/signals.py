"""Frames of signals, and Fourier transforms of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph import Tensor
from ..by_rule import schema_of, takes
from ..node import op, writes
from ..output import Call, CannotExport
from ..spelling import spelled
from .counts import numbers


@writes("stft")
def stft(call: Call) -> str:
    """Write an STFT of signals with one batch axis; one signal alone gets one."""
    rank, length = call.x.rank, call.frame_length
    alike = all(s is None or s.dtype == call.x.dtype for s in call.specs)
    if rank > 3 or not alike or not takes(schema_of("", "STFT", call.out.opset), 0, call.x):
        raise CannotExport
    signal = call.xs[0] if rank == 3 else call.add("Unsqueeze", call.xs[0], call.out.ints([0]))
    window = call.xs[1] if len(call.xs) > 1 else ""
    if length is None and not window:
        length = call.x.shape[-2]
    size = "" if length is None else call.add("Squeeze", call.out.dim(length))
    step = call.out.constant(np.int64(call.frame_step))
    y = call.add("STFT", signal, step, window, size, onesided=int(call.onesided))
    return y if rank == 3 else call.add("Squeeze", y, call.out.ints([0]))


def _places(of: Any, n: Any, length: Any) -> Any:
    """Return where the elements of n frames are: i64[n, length]."""
    return op("expand_dims", axis=-1)(numbers(n) * of.frame_step) + numbers(length)


@spelled("frame")
def frame(of: Any, x: Tensor) -> Any:
    n, length = of.infer(x.spec).shape[-2:]
    return op("gather", axis=-1)(x, _places(of, n, length))


@spelled("overlap_add")
def overlap_add(of: Any, x: Tensor) -> Any:
    """Add up where frames lie, as the gradient of taking them does."""
    like = op("full", shape=of.infer(x.spec).shape, fill_value=0, dtype=x.dtype)()
    return op("gather_grad", axis=-1)(x, _places(of, *x.shape[-2:]), like)
