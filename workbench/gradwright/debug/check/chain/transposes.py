"""Transposes of linear ops, written here a second time: g -> Jᵀg without the op's own rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ....op import Op
from ....ops.convolutions.cnn import Conv1d, Conv2d, Conv3d
from ....ops.core.movement import ExpandDims, Squeeze, Swapaxes, Transpose
from ....ops.core.reduce import Mean, Sum
from ....ops.core.reshape import Flatten, Reshape
from ....ops.matrices.linalg import Matmul

Array = np.ndarray[Any, Any]
Rule = Callable[[Any, int, Sequence[Any], Array], Array | None]


def unbroadcast(g: Array, shape: tuple[int, ...]) -> Array:
    """Sum over the axes along which an array of ``shape`` was repeated.

    >>> unbroadcast(np.ones((2, 3)), (3,)).tolist(), unbroadcast(np.ones((2, 3)), (2, 1)).tolist()
    ([2.0, 2.0, 2.0], [[3.0], [3.0]])
    """
    if g.shape == shape:
        return g
    lead = g.ndim - len(shape)
    if lead > 0:
        g = g.sum(tuple(range(lead)))
    axes = tuple(k for k, n in enumerate(shape) if n == 1 and g.shape[k] != 1)
    return g.sum(axes, keepdims=True) if axes else g


def _matmul(op: Any, i: int, xs: Sequence[Any], g: Array) -> Array | None:
    a, b = xs
    if a.ndim < 2 or b.ndim < 2:
        return None
    if i == 0:
        return unbroadcast(np.matmul(g, b.swapaxes(-1, -2)), a.shape)
    if b.ndim == 2 and a.ndim > 2:
        folded: Array = np.matmul(a.reshape(-1, a.shape[-1]).T, g.reshape(-1, g.shape[-1]))
        return folded
    return unbroadcast(np.matmul(a.swapaxes(-1, -2), g), b.shape)


def _sum(op: Any, i: int, xs: Sequence[Any], g: Array) -> Array:
    if op.axis is not None and not op.keepdims:
        g = np.expand_dims(g, op.axis)
    return np.broadcast_to(g, xs[0].shape)


def _mean(op: Any, i: int, xs: Sequence[Any], g: Array) -> Array:
    spread: Array = _sum(op, i, xs, g) * (g.size / max(xs[0].size, 1))
    return spread


def _reshape(op: Any, i: int, xs: Sequence[Any], g: Array) -> Array:
    return g.reshape(xs[0].shape)


def _transpose(op: Any, i: int, xs: Sequence[Any], g: Array) -> Array:
    return g.T if op.axes is None else g.transpose(np.argsort([a % g.ndim for a in op.axes]))


def _swapaxes(op: Any, i: int, xs: Sequence[Any], g: Array) -> Array:
    return g.swapaxes(op.axis1, op.axis2)


def _conv(op: Any, i: int, xs: Sequence[Any], g: Array) -> Array | None:
    """Take a convolution as a matmul of kernels with windows, one slice per tap of the kernel."""
    x, weight = xs[:2]
    if not op.is_first:
        return None
    if i == 2:
        return np.asarray(g.sum((0, *range(2, g.ndim))))
    if op.groups != 1:
        return None
    windows, kernels = op.windows(weight), weight.reshape(len(weight), -1)
    size, count = g.shape[2:], math.prod(g.shape[2:])
    seeds = g.reshape(*g.shape[:2], count)
    if i == 1:
        seen = windows.views(windows.padded(x))
        columns = seen.reshape(len(x), kernels.shape[1], count)
        found: Array = np.matmul(seeds, columns.swapaxes(1, 2)).sum(0)
        return found.reshape(weight.shape)
    padded = np.zeros((*x.shape[:2], *windows.padded_size(x.shape[2:])))
    columns = np.matmul(kernels.T, seeds).reshape(*x.shape[:2], windows.n_taps, *size)
    for tap, view in enumerate(windows.slices(padded, size)):
        view += columns[:, :, tap]
    back: Array = windows.cropped(padded, x.shape[2:])
    return back


TRANSPOSES: Mapping[type[Op], Rule] = {
    Matmul: _matmul,
    Sum: _sum,
    Mean: _mean,
    Reshape: _reshape,
    Squeeze: _reshape,
    ExpandDims: _reshape,
    Flatten: _reshape,
    Transpose: _transpose,
    Swapaxes: _swapaxes,
    Conv1d: _conv,
    Conv2d: _conv,
    Conv3d: _conv,
}
"""Class of an op -> (op, number of the input, inputs, g) -> its cotangent, or None.

They are for what is frequent: other linear ops lend their own rule, which is certified by a
projection at every use. These are certified once for an op and shapes.
"""
