"""Layers as machine code: recurrent ones, convolutions, poolings, checks of class numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...fuse.builder import Builder, call
from ...fuse.ir import Kernel
from ...op.applying import infer_specs
from ...ops.attention.rotary import frequencies
from ...ops.convolutions.formats import is_first
from ...ops.convolutions.windows import Windows
from ...program.lowering import lowering
from ...spec import TensorSpec
from ..call import Call, Native, numbered
from ..llvm.attention import bind_attention, bind_attention_grad, bind_mask_grad
from ..llvm.attention.cached import WIDEST, bind_cached
from ..llvm.bind import bind_kernel
from ..llvm.check import INTEGERS, bind_class_check
from ..llvm.convolution import (
    bind_average,
    bind_average_grad,
    bind_convolution,
    bind_input_grad,
    bind_max_pool,
    bind_transposed,
    bind_untap,
    bind_weight_grad,
)
from ..llvm.recurrent import bind_grad, bind_layer, cell_of
from .common import Specs, floats


@lowering("check_classes")
def _check_classes(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    """Look at labels without Python: 0.1 µs for 32 of them, not 7."""
    logits = ins[1]
    if logits is None:
        return None
    n = int(logits.shape[-1])

    def bind(xs: Sequence[Any], ys: Sequence[Any]) -> Sequence[Call] | None:
        calls = bind_class_check(xs[0], ys[0], n, op.ignore_index)
        return numbered(calls, (0, len(xs)))  # labels, and their copy

    return Native(bind)


@lowering("lstm")
@lowering("gru")
@lowering("rnn")
def _recurrent(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    """Run all steps of a layer as one chain of products and kernels."""
    cell = cell_of(op) if floats(*filter(None, ins)) else None
    return Native(lambda xs, ys: bind_layer(op, cell, xs, ys)) if cell else None


@lowering("recurrent_grad")
def _recurrent_grad(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    cell = cell_of(op.layer) if floats(*filter(None, ins)) else None
    return Native(lambda xs, ys: bind_grad(op.layer, cell, xs, ys, op.names())) if cell else None


_binders: dict[str, tuple[Callable[..., Sequence[Call] | None], int]] = {}


def _convolves(name: str, bind: Callable[..., Sequence[Call] | None], weight: int) -> None:
    """Run a product of windows as machine code; ``weight`` is the input that gives their size."""
    _binders[name] = bind, weight

    @lowering(name)
    def make(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
        if not floats(*(s for s in ins if s is not None)) or not is_first(op):
            return None
        windows = op.windows(ins[weight])
        return Native(lambda xs, ys: bind(windows, op.groups, xs, ys))


for _name in ("conv1d", "conv2d", "conv3d"):
    _convolves(_name, bind_convolution, 1)


_convolves("conv_input_grad", bind_input_grad, 1)
_convolves("conv_weight_grad", bind_weight_grad, 2)


@lowering("followed")
def _followed(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    """Run a convolution, and the kernel that reads it, image by image."""
    first = op.first
    own = ins[: op.n]
    if not floats(*(s for s in own if s is not None)):
        return None
    bind, weight = _binders[first.name]
    windows, (made,) = first.windows(own[weight]), infer_specs(first, own)

    def bound(xs: Sequence[Any], ys: Sequence[Any]) -> Sequence[Call] | None:
        after = op.giving(made.shape, xs, ys)
        shape: Any = made.shape
        y = np.broadcast_to(np.zeros((), made.dtype), shape)
        return bind(windows, first.groups, xs[: op.n], [y], after=after)

    return Native(bound)


@lowering("conv_transpose1d")
@lowering("conv_transpose2d")
@lowering("conv_transpose3d")
def _conv_transpose(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    """Run a transposed convolution as the gradient that it is."""
    x, weight = ins[:2]
    if x is None or weight is None or not floats(*(s for s in ins if s is not None)):
        return None
    if not is_first(op):
        return None
    pads, _ = op.pads(x, weight)
    windows = Windows.of(weight.shape[2:], op.stride, pads, op.dilation)
    return Native(lambda xs, ys: bind_transposed(windows, op.groups, xs, ys))


@lowering("max_pool1d")
@lowering("max_pool2d")
@lowering("max_pool3d")
def _max_pool(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    """Search windows row by row."""
    if not floats(ins[0]) or not is_first(op):
        return None
    windows = op.windows(outs[0].rank - 2)
    return Native(lambda xs, ys: bind_max_pool(windows, xs, ys))


@lowering("untapped")
def _untapped(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    return _max_pool(op.pooling, ins, outs)


@lowering("untap")
def _untap(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    """Add up what goes to the largest elements, one by one."""
    if not floats(ins[0]):
        return None
    windows = op.windows(outs[0].rank - 2)
    return Native(lambda xs, ys: bind_untap(windows, xs, ys))


def _attends(name: str, bind: Callable[..., Sequence[Call] | None]) -> None:
    """Run attention as machine code; numpy goes tile by tile."""

    @lowering(name)
    def make(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
        dense = (s for s in ins if s is not None and s.dtype != np.bool)
        return Native(lambda xs, ys: bind(op, xs, ys)) if floats(*dense) else None


_attends("flash_attention", bind_attention)
_attends("flash_attention_grad", bind_attention_grad)
_attends("flash_attention_mask_grad", bind_mask_grad)


@lowering("cached_attention")
def _cached(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    """Read what is taken of a cache, for one new position; several are opened into products."""
    *given, filled = ins
    q, values = ins[0], ins[4]
    if q is None or values is None or filled is None or not floats(*given, kinds="f"):
        return None
    if not (q.is_concrete and values.is_concrete) or op.softcap is not None:
        return None
    sizes = int(q.shape[3]), int(values.shape[3])
    if q.shape[2] != 1 or not 0 < min(sizes) <= max(sizes) <= WIDEST:
        return None
    if 0 in outs[1].shape or filled.dtype.char not in "ilq":
        return None
    return Native(lambda xs, ys: bind_cached(op, xs, ys))


def _averages(name: str, bind: Callable[..., Sequence[Call] | None], of: int) -> None:
    """Run means of windows as machine code; ``of`` is the input that is the images."""

    @lowering(name)
    def make(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
        x = ins[of]
        if x is None or not floats(ins[0]) or not is_first(op):
            return None
        size: Any = x.shape[2:]
        windows = op.windows(len(size))
        counts = op.counts(windows, size, outs[0].dtype)
        return Native(lambda xs, ys: bind(windows, counts, xs, ys))


for _name in ("avg_pool1d", "avg_pool2d", "avg_pool3d"):
    _averages(_name, bind_average, 0)


_averages("avg_pool_grad", bind_average_grad, 1)


@lowering("rope_cos_sin")
def _rope_cos_sin(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    """Compute angles, cosines and sines in float64, in one look."""
    at, dtype = ins[0], outs[0].dtype
    if at is None or at.dtype not in INTEGERS or dtype.char not in "fd" or not outs[0].nbytes:
        return None
    speeds = frequencies(op, op.dim, op.base)

    def bind(xs: Sequence[Any], ys: Sequence[Any]) -> Sequence[Call] | None:
        if not xs[0].flags.c_contiguous:
            return None
        arrays = xs[0].reshape(-1), speeds, *(y.reshape(-1, len(speeds)) for y in ys)
        calls = bind_kernel(_turns(at.dtype, dtype, op.size), arrays[2].shape, arrays)
        return numbered(calls, (0, None, 1, 2))  # speeds are ours

    return Native(bind)


@functools.cache
def _turns(at: np.dtype[Any], dtype: np.dtype[Any], size: float) -> Kernel:
    """Return the kernel of cosines and sines of places times speeds."""
    b, wide = Builder(2, 1), np.dtype("float64")
    angle = b.load("at", (0,), at).to(wide) * b.load("speeds", (1,), wide)
    made = (call(name, angle) * size for name in ("cos", "sin"))
    return b.kernel([(y, (0, 1), "set", dtype) for y in made])[0]
