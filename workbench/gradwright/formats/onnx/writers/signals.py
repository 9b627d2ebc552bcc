"""Fourier transforms."""

from __future__ import annotations

import numpy as np

from ..by_rule import schema_of, takes
from ..node import writes
from ..output import Call, CannotExport


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
