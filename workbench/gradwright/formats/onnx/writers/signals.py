"""Frames of signals, and Fourier transforms of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph import Tensor
from ....ops.core.slicing import ALL
from ....spec import normalize_axis
from ..by_rule import takes
from ..node import op, writes
from ..nodes import spell, spelled
from ..output import Call
from ..versions import CannotExport, schema_of
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


@writes("dft")
def dft(call: Call) -> list[str]:
    """Write a DFT since opset 17, and products with cosines and sines before."""
    if call.out.opset < 17:
        return spell(call, _dft_of_waves)
    n, axis = call.dft_length, call.out.constant(np.int64(call.axis % call.x.rank))
    size = "" if n is None else call.add("Squeeze", call.out.dim(n))
    flags = {"inverse": int(call.inverse), "onesided": int(call.onesided)}
    if not takes(schema_of("", "DFT", call.out.opset), 0, call.x):
        raise CannotExport
    return [call.add("DFT", call.xs[0], size, axis, **flags)]


def _dft_of_waves(of: Any, x: Tensor) -> Any:
    axis = normalize_axis(of.axis, x.rank)
    have = x.shape[axis]
    n = have if of.dft_length is None else of.dft_length
    if not isinstance(n, int) or not isinstance(have, int):
        raise CannotExport
    bins, m = n // 2 + 1 if of.onesided else n, min(n, have)
    angles = 2 * np.pi * (np.outer(np.arange(m), np.arange(bins)) % n) / n
    waves = [f(angles).astype(x.dtype) for f in (np.cos, np.sin)]
    rows = op("strided_slice", index=(*[ALL] * axis, ("slice", None, m, None)))(x)
    parts = op("unstack", axis=-1)(rows)
    parts = [*parts] if isinstance(parts, tuple) else [parts]
    turn = op("swapaxes", axis1=axis, axis2=-1)
    re, im = (turn(parts[0]), turn(parts[1]) if len(parts) > 1 else None)
    cos, sin = waves
    sign = 1.0 if of.inverse else -1.0
    y_re, y_im = re @ cos, (re @ sin) * sign
    if im is not None:
        y_re, y_im = y_re - (im @ sin) * sign, y_im + im @ cos
    scale = 1 / n if of.inverse else 1.0
    return op("stack", axis=-1)(turn(y_re) * scale, turn(y_im) * scale)
