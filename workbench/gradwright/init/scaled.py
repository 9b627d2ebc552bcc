"""Initializers whose variance is a number over a fan: Xavier, He, LeCun and their relatives."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..errors import GraphError
from ..ops.draws import philox
from .base import Array, Shape, draw, fans, initializer

# A standard normal cut at ±2 has variance 1 − 4φ(2)/(2Φ(2) − 1) = 0.8796²; divided out below.
_STD_CUT_AT_2 = 0.8796256610342398


@initializer
def variance_scaling(
    shape: Shape,
    dtype: np.dtype[Any],
    *,
    scale: float = 1.0,
    mode: str = "fan_in",
    distribution: str = "truncated_normal",
    seed: int | None = None,
) -> Array:
    """Zero mean and variance ``scale / n``, where n is ``fan_in``, ``fan_out`` or ``fan_avg``.

    ``distribution`` is ``normal``, ``truncated_normal`` (at two standard deviations) or
    ``uniform``, each with exactly that variance: U(±√(3·scale/n)) for the last.

    >>> w = variance_scaling((50, 100), scale=3.0, distribution="uniform", seed=0)
    >>> bool(abs(w).max() <= (3 * 3 / 50) ** 0.5)
    True
    """
    fan_in, fan_out = fans(shape)
    sizes = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}
    if mode not in sizes:
        raise GraphError(f"mode={mode!r} is not known", need=" or ".join(map(repr, sizes)))
    std = math.sqrt(scale / max(sizes[mode], 1.0))
    match distribution:
        case "normal":
            return draw(philox.normal, shape, dtype, seed, std)
        case "truncated_normal":
            clipped = functools.partial(philox.truncated_normal, lower=-2.0, upper=2.0)
            return draw(clipped, shape, dtype, seed, std / _STD_CUT_AT_2)
        case "uniform":
            limit = math.sqrt(3.0) * std
            return draw(philox.uniform, shape, dtype, seed, 2.0, -1.0, limit)
    raise GraphError(
        f"distribution={distribution!r} is not known",
        need="'normal', 'truncated_normal' or 'uniform'",
    )


@initializer
def xavier_uniform(
    shape: Shape, dtype: np.dtype[Any], *, gain: float = 1.0, seed: int | None = None
) -> Array:
    """U(±gain·√(6/(fan_in + fan_out))), for tanh and linear layers (Glorot and Bengio 2010).

    >>> bool(abs(xavier_uniform((2, 4), seed=0)).max() <= 1.0)
    True
    """
    return _scaled(shape, dtype, gain**2, "fan_avg", "uniform", seed)


@initializer
def xavier_normal(
    shape: Shape, dtype: np.dtype[Any], *, gain: float = 1.0, seed: int | None = None
) -> Array:
    """N(0, gain²·2/(fan_in + fan_out)), for tanh and linear layers (Glorot and Bengio 2010).

    >>> round(float(xavier_normal((100, 300), seed=0).std()) * 200**0.5, 1)
    1.0
    """
    return _scaled(shape, dtype, gain**2, "fan_avg", "normal", seed)


@initializer
def he_uniform(
    shape: Shape,
    dtype: np.dtype[Any],
    *,
    mode: str = "fan_in",
    slope: float = 0.0,
    seed: int | None = None,
) -> Array:
    """U(±√(6/(1 + slope²)/fan_in)), for layers followed by relu (He, Zhang, Ren and Sun 2015).

    ``slope`` is that of a leaky relu.

    >>> bool(abs(he_uniform((6, 100), seed=0)).max() <= 1.0)
    True
    """
    return _scaled(shape, dtype, 2.0 / (1 + slope**2), mode, "uniform", seed)


@initializer
def he_normal(
    shape: Shape,
    dtype: np.dtype[Any],
    *,
    mode: str = "fan_in",
    slope: float = 0.0,
    seed: int | None = None,
) -> Array:
    """N(0, 2/(1 + slope²)/fan_in), for layers followed by relu (He, Zhang, Ren and Sun 2015).

    ``slope`` is that of a leaky relu.

    >>> round(float(he_normal((200, 100), seed=0).std()), 2)
    0.1
    """
    return _scaled(shape, dtype, 2.0 / (1 + slope**2), mode, "normal", seed)


@initializer
def lecun_uniform(shape: Shape, dtype: np.dtype[Any], *, seed: int | None = None) -> Array:
    """U(±√(3/fan_in)) (LeCun, Bottou, Orr and Müller 1998).

    >>> bool(abs(lecun_uniform((3, 100), seed=0)).max() <= 1.0)
    True
    """
    return _scaled(shape, dtype, 1.0, "fan_in", "uniform", seed)


@initializer
def lecun_normal(shape: Shape, dtype: np.dtype[Any], *, seed: int | None = None) -> Array:
    """N(0, 1/fan_in), for selu and linear layers (LeCun, Bottou, Orr and Müller 1998).

    >>> round(float(lecun_normal((100, 300), seed=0).std()), 2)
    0.1
    """
    return _scaled(shape, dtype, 1.0, "fan_in", "normal", seed)


@initializer
def fan_in_uniform(shape: Shape, dtype: np.dtype[Any], *, seed: int | None = None) -> Array:
    """U(±1/√fan_in), the classic start of linear layers and their biases.

    >>> bool(abs(fan_in_uniform((4, 100), seed=0)).max() <= 0.5)
    True
    """
    return _scaled(shape, dtype, 1 / 3, "fan_in", "uniform", seed)


@initializer
def sigmoid_uniform(shape: Shape, dtype: np.dtype[Any], *, seed: int | None = None) -> Array:
    """U(±4·√(6/(fan_in + fan_out))), for layers followed by a sigmoid (Glorot and Bengio 2010).

    >>> bool(abs(sigmoid_uniform((2, 4), seed=0)).max() <= 4.0)
    True
    """
    return _scaled(shape, dtype, 16.0, "fan_avg", "uniform", seed)


glorot_uniform, glorot_normal = xavier_uniform, xavier_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal
xavier_fan_in = lecun_normal


def _scaled(
    shape: Shape, dtype: np.dtype[Any], scale: float, mode: str, distribution: str, seed: int | None
) -> Array:
    array: Array = variance_scaling(
        shape, dtype, scale=scale, mode=mode, distribution=distribution, seed=seed
    )
    return array
