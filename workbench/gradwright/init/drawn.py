"""Initializers that draw from one distribution, whatever the shape; orthogonal ones."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import GraphError, ShapeError
from ..ops.draws import philox
from .base import Array, Initializer, Shape, check_floating, draw, initializer
from .fixed import kernel_parts


@initializer
def uniform(
    shape: Shape,
    dtype: np.dtype[Any],
    *,
    low: float = -0.05,
    high: float = 0.05,
    seed: int | None = None,
) -> Array:
    """Uniform in [low, high).

    >>> bool((abs(uniform((100,), low=-0.1, high=0.1, seed=0)) <= 0.1).all())
    True
    """
    return draw(philox.uniform, shape, dtype, seed, high - low, low)


@initializer
def normal(
    shape: Shape,
    dtype: np.dtype[Any],
    *,
    mean: float = 0.0,
    std: float = 0.05,
    seed: int | None = None,
) -> Array:
    """Gaussian with the given mean and standard deviation.

    >>> normal((2,), std=0.02, seed=0).shape
    (2,)
    """
    return draw(philox.normal, shape, dtype, seed, std, mean)


@initializer
def truncated_normal(
    shape: Shape,
    dtype: np.dtype[Any],
    *,
    mean: float = 0.0,
    std: float = 0.05,
    lower: float = -2.0,
    upper: float = 2.0,
    seed: int | None = None,
) -> Array:
    """Gaussian conditioned on lying between ``mean + lower·std`` and ``mean + upper·std``.

    >>> bool((abs(truncated_normal((100,), std=1.0, seed=0)) <= 2.0).all())
    True
    """
    if not lower < upper:
        raise GraphError(f"nothing is between {lower} and {upper}", need="lower < upper")
    clipped = functools.partial(philox.truncated_normal, lower=lower, upper=upper)
    return draw(clipped, shape, dtype, seed, std, mean)


def distribution(quantile: Callable[[Array], Any], seed: int | None = None) -> Initializer:
    """Any distribution, by its quantile function: what maps uniform numbers in (0, 1) to its own.

    w = F⁻¹(u); the ``ppf`` of the distributions of scipy.stats are such functions.

    >>> laplace = distribution(lambda u: -np.sign(u - 0.5) * np.log1p(-2 * abs(u - 0.5)), seed=0)
    >>> round(float(laplace((10_000,), "float64").var()), 1)
    2.0
    """
    return Initializer(_by_quantile, {"quantile": quantile, "seed": seed})


def _by_quantile(
    shape: Shape, dtype: np.dtype[Any], *, quantile: Callable[[Array], Any], seed: int | None
) -> Array:
    check_floating(dtype)
    drawn = draw(philox.uniform, shape, np.dtype("float64"), seed)  # multiples of 2⁻⁵³, from 0
    values = np.asarray(quantile(np.maximum(drawn, 2.0**-54)))
    if values.shape != tuple(shape) or not np.isfinite(values).all():
        raise ShapeError(
            f"the quantile function gives {values.dtype}{list(values.shape)}, or no finite numbers",
            need=f"one finite number for each of {tuple(shape)} uniform ones",
        )
    return values


@initializer
def orthogonal(
    shape: Shape, dtype: np.dtype[Any], *, gain: float = 1.0, seed: int | None = None
) -> Array:
    """Random matrix with orthonormal rows or columns, times ``gain`` (Saxe et al. 2013).

    Axes after the first are taken together; whichever side is shorter is orthonormal, uniformly
    over all such matrices. The last bits depend on the LAPACK at hand.

    >>> w = orthogonal((2, 5), "float64", seed=0)
    >>> bool(abs(w @ w.T - np.eye(2)).max() < 1e-14)
    True
    """
    if len(shape) < 2:
        raise ShapeError(f"orthogonal cannot fill {tuple(shape)}", need="at least two axes")
    rows, columns = shape[0], math.prod(shape[1:])
    tall, short = max(rows, columns), min(rows, columns)
    check_floating(dtype)
    drawn = draw(philox.normal, (tall, short), np.dtype("float64"), seed)
    q, r = np.linalg.qr(drawn)
    q *= np.where(np.diagonal(r) < 0, -1.0, 1.0)  # makes the factorisation, so q, unique
    return (gain * (q if rows >= columns else q.T)).reshape(shape)


@initializer
def delta_orthogonal(
    shape: Shape, dtype: np.dtype[Any], *, gain: float = 1.0, seed: int | None = None
) -> Array:
    """A convolution that keeps norms: an orthogonal matrix at the middle of the kernel.

    W[:, :, middle] = gain·Q with QᵀQ = 1, zero elsewhere, for kernels [out, in, *kernel] with
    in ≤ out (Xiao et al. 2018, arXiv:1806.05393).

    >>> w = delta_orthogonal((4, 2, 3, 3), "float64", seed=0)
    >>> q = w[:, :, 1, 1]
    >>> bool(abs(q.T @ q - np.eye(2)).max() < 1e-14), float(abs(w[:, :, 0]).max())
    (True, 0.0)
    """
    outs, ins, size, middle = kernel_parts("delta_orthogonal", shape)
    if ins > outs:
        raise ShapeError(
            f"delta_orthogonal cannot fill {tuple(shape)}: {ins} inputs to {outs} outputs",
            need="at least as many outputs as inputs",
        )
    weight = np.zeros((outs, ins, size))
    weight[:, :, middle] = orthogonal((outs, ins), dtype, gain=gain, seed=seed)
    return weight.reshape(shape)
