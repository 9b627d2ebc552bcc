"""Convolutions, their gradients, and ops that are a matrix along each of some axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....graph import Tensor
from ....ops.convolutions.adaptive import places_of
from ....ops.convolutions.windows import per_axis
from ....spec import AnyDim, Dim
from ..by_rule import write_by_rule
from ..node import cast, op, writes
from ..nodes import spell, spelled
from ..output import Call
from ..versions import CannotExport
from .windows import edged, pads_of

_CONV = {f"conv{n}d": n for n in (1, 2, 3)}


def _cut(x: Tensor, size: Any, first: int = 2) -> Any:
    """Return the first elements of the axes from ``first`` on; zeros where there are too few."""
    for axis, (n, m) in enumerate(zip(x.shape[first:], size, strict=True), first):
        if n != m:
            shape = (*x.shape[:axis], m, *x.shape[axis + 1 :])
            like = op("full", shape=shape, fill_value=0, dtype=x.dtype)()
            x = op("cut_or_pad_like", axis=axis)(x, like)
    return x


@spelled("conv_input_grad")
def conv_input_grad(of: Any, g: Tensor, weight: Tensor, x: Tensor) -> Any:
    """Let each window give back what it read: a transposed convolution, cut or filled up."""
    windows = of.windows(weight)
    pads = pads_of(windows, x.shape[2:])
    kind = f"conv_transpose{x.rank - 2}d"
    settings = {"stride": windows.stride, "dilation": windows.dilation, "groups": of.groups}
    wide = op(kind, **settings)(g, weight)
    wide = _cut(wide, [n + a + b for n, (a, b) in zip(x.shape[2:], pads, strict=True)])
    return edged(wide, [(-a, -b) for a, b in pads])


@spelled("conv_weight_grad")
def conv_weight_grad(of: Any, x: Tensor, g: Tensor, weight: Tensor) -> Any:
    """Convolve images with cotangents, channel by channel: steps and distances change places."""
    windows, n, groups = of.windows(weight), x.rank - 2, of.groups
    if x.shape[0] == 0:
        return cast(op("zeros_like")(weight), of.infer(x.spec, g.spec, weight.spec).dtype)
    x = edged(x, pads_of(windows, x.shape[2:]))
    batch, channels = x.shape[0], x.shape[1] // groups
    parts = op("reshape", shape=(batch, groups, channels, *x.shape[2:]))(x)
    axes = (2, 1, 0, *range(3, 3 + n))
    images = op("reshape", shape=(channels, groups * batch, *x.shape[2:]))(
        op("transpose", axes=axes)(parts)
    )
    kernels = op("swapaxes", axis1=0, axis2=1)(g)
    settings = {"stride": windows.dilation, "dilation": windows.stride, "groups": groups}
    dw = op(f"conv{n}d", **settings)(images, kernels)
    return _cut(op("swapaxes", axis1=0, axis2=1)(dw), weight.shape[2:])


@writes(*_CONV)
def conv(call: Call) -> list[str]:
    """Write by rule; padding below zero, which ONNX lacks, is cut off beforehand."""
    pads = call.padding
    if not (isinstance(pads, tuple) and any(min(p) < 0 for p in pads if isinstance(p, tuple))):
        return write_by_rule(call)
    return spell(call, _cut_conv)


def _cut_conv(of: Any, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    x = edged(x, pads_of(of.windows(weight), x.shape[2:]))
    return of.replace(padding=0)(x, weight, *([] if bias is None else [bias]))


# -- matrices along axes ---------------------------------------------------------------------------

_ADAPTIVE = tuple(f"adaptive_avg_pool{n}d" for n in (1, 2, 3))


@writes(*_ADAPTIVE)
def adaptive_avg_pool(call: Call) -> list[str]:
    """Write equal windows as a pooling, one for all as a mean, others as matrices."""
    size, n_out = call.x.shape[2:], call.y.shape[2:]
    if all(m == 1 for m in n_out):
        return [call.add("GlobalAveragePool", call.xs[0])]
    known = all(isinstance(n, int) and isinstance(m, int) for n, m in zip(size, n_out, strict=True))
    steps = [int(n) // int(m) for n, m in zip(size, n_out, strict=True)] if known else []
    if known and all(m * s == n for n, m, s in zip(size, n_out, steps, strict=True)):
        return [call.add("AveragePool", call.xs[0], kernel_shape=steps, strides=steps)]
    return spell(call, along_axes)


@spelled("rgb_to_yiq", "yiq_to_rgb", "rgb_to_yuv", "yuv_to_rgb")
def along_axes(of: Any, x: Tensor) -> Any:
    return _along(of, x, x.shape, back=False)


@spelled("along_axes_grad")
def along_axes_grad(of: Any, g: Tensor, x: Tensor) -> Any:
    return _along(of.of, g, x.shape, back=True)


def _along(of: Any, x: Tensor, shape: tuple[AnyDim, ...], *, back: bool) -> Any:
    """Multiply each axis that has one by its matrix, or the transpose of it."""
    for axis, matrix in _matrices(of, shape, x.dtype).items():
        order = (*(i for i in range(x.rank) if i != axis), axis)
        rows = op("transpose", axes=order)(x)
        wide = op("matmul")(rows, matrix if back else matrix.T)
        x = op("transpose", axes=tuple(order.index(i) for i in range(x.rank)))(wide)
    return x


def _matrices(of: Any, shape: tuple[AnyDim, ...], dtype: Any) -> dict[int, Any]:
    """Return the matrix of each axis; adaptive means of unknown sizes are counted when run."""
    if all(isinstance(d, int) for d in shape[1:]):
        bands = of.bands(shape)
        return {i: b.apply(np.eye(b.n_in), 0).astype(dtype) for i, b in bands.items()}
    if of.name not in _ADAPTIVE:
        raise CannotExport
    pairs = enumerate(zip(shape[2:], of.sizes(shape[2:]), strict=True), 2)
    return {i: _means(n, m, dtype) for i, (n, m) in pairs if n != m}


def _means(n: AnyDim, m: AnyDim, dtype: Any) -> Any:
    """Return the matrix that takes the means of m windows over n elements."""
    number = op("arange", start=m, dtype="int64")()
    total, count = (op("full", shape=(), fill_value=d, dtype="int64")() for d in (n, m))
    start = op("floor_div")(number * total, count)
    stop = op("floor_div")((number + 1) * total + count - 1, count)
    place = op("arange", start=n, dtype="int64")()
    inside = cast((place >= start[:, None]) & (place < stop[:, None]), dtype)
    return inside / op("sum", axis=-1, keepdims=True)(inside)


@spelled("adaptive_places")
def adaptive_places(of: Any, x: Tensor) -> Any:
    """Find the largest element of each window, of which a table says the places."""
    size, n_out = x.shape[2:], of.sizes(x.shape[2:])
    if any(isinstance(d, Dim) for d in (*size, *n_out)):
        raise CannotExport
    n, m = math.prod(map(int, size)), math.prod(map(int, n_out))
    table = places_of(size, n_out).reshape(m, -1)
    views = op("gather", axis=2)(op("reshape", shape=(*x.shape[:2], n))(x), table)
    best = op("argmax", axis=-1)(views)
    first = np.arange(m) * table.shape[1]
    places = op("gather", axis=0)(table.reshape(-1), best + first)
    return op("reshape", shape=(*x.shape[:2], *n_out))(places)


@writes(*(f"upsampling{n}d" for n in (1, 2, 3)))
def upsampling(call: Call) -> str:
    """Write a Resize that takes the nearest element from the left."""
    scale = per_axis(call.scale, call.x.rank - 2, "scale", 1)
    scales = call.out.constant(np.array([1, 1, *scale], np.float32))
    return call.add(
        "Resize", call.xs[0], "", scales, mode="nearest", nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )  # fmt: skip
