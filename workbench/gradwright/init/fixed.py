"""Initializers that draw nothing: numbers, identities, arrays that are given."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import GraphError, ShapeError
from ..spec.rounding import rounded
from .base import Array, Initializer, Shape, initializer


@initializer
def zeros(shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Zeros: the usual start of a bias.

    >>> zeros((2,)).tolist()
    [0.0, 0.0]
    """
    return np.zeros(shape, dtype)


@initializer
def ones(shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Ones: the usual start of a normalisation's scale.

    >>> ones((2,)).tolist()
    [1.0, 1.0]
    """
    return np.ones(shape, dtype)


def constant(value: float) -> Initializer:
    """One number everywhere.

    >>> constant(0.5)((2,)).tolist()
    [0.5, 0.5]
    """
    return Initializer(_filled, {"value": value})


def _filled(shape: Shape, dtype: np.dtype[Any], *, value: float) -> Array:
    return np.full(shape, rounded(value, dtype))


def array(values: Any) -> Initializer:
    """The numbers that are given, which must have the variable's shape.

    >>> array([[1, 2], [3, 4]])((2, 2)).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return Initializer(_given, {"values": np.array(values)})


def _given(shape: Shape, dtype: np.dtype[Any], *, values: Array) -> Array:
    if values.shape != tuple(shape):
        raise ShapeError(f"an array of shape {values.shape} is given", need=f"{tuple(shape)}")
    return values.copy()


@initializer
def identity(shape: Shape, dtype: np.dtype[Any], *, gain: float = 1.0) -> Array:
    """Ones on the diagonal of a matrix, times ``gain``.

    >>> identity((2, 2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if len(shape) != 2:
        raise ShapeError(f"identity cannot fill {tuple(shape)}", need="a matrix")
    rows, columns = shape
    return gain * np.eye(rows, columns)


@initializer
def dirac(shape: Shape, dtype: np.dtype[Any], *, groups: int = 1, gain: float = 1.0) -> Array:
    """A convolution that passes its input on: one at the middle of the kernel, zero elsewhere.

    W[o, i, middle] = gain if o mod (out/groups) = i, for kernels [out, in/groups, *kernel]
    (Zagoruyko and Komodakis 2017, arXiv:1706.00388). An even kernel has its middle right of the
    centre; outputs beyond the inputs stay zero.

    >>> dirac((2, 2, 3))[0].tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    outs, ins, size, middle = kernel_parts("dirac", shape)
    if groups < 1 or outs % groups:
        raise GraphError(f"groups={groups} do not divide {outs} outputs", need="a divisor")
    weight = np.zeros((outs, ins, size))
    for o in range(outs):
        if (i := o % (outs // groups)) < ins:
            weight[o, i, middle] = gain
    return weight.reshape(shape)


def kernel_parts(name: str, shape: Shape) -> tuple[int, int, int, int]:
    """Return outputs, inputs, size and flat middle of a convolution's kernel, [out, in, *kernel].

    >>> kernel_parts("dirac", (8, 4, 3, 5))
    (8, 4, 15, 7)
    """
    kernel = tuple(shape[2:])
    if not kernel or not math.prod(kernel):
        raise ShapeError(
            f"{name} cannot fill {tuple(shape)}", need="a convolution's [out, in, *kernel]"
        )
    middle = np.ravel_multi_index(tuple(n // 2 for n in kernel), kernel)
    return shape[0], shape[1], math.prod(kernel), int(middle)
