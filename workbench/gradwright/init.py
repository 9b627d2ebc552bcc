"""Initializers: ``gw.init.he_normal(seed=0)`` is a function from shape and dtype to an array.

Every name here works as it is (``init=gw.init.ones``), with settings (``gw.init.normal(std=0.02,
seed=0)`` gives an initializer), and directly (``gw.init.ones((2, 3))`` gives an array).

The same seed gives the same numbers on every machine and under every version of numpy: they come
from the generator of the random ops (``ops/philox.py``), since numpy keeps the right to change how
its own turns words into normals. Without a seed they are fresh each time. Variables of one shape
need different seeds, or they start out equal.

Fans, the number of inputs and outputs that one weight connects:

    f32[in, out]            fan_in = in            fan_out = out            (``x @ w``)
    f32[out, in, *kernel]   fan_in = in·Πkernel    fan_out = out·Πkernel    (convolutions)
    f32[n]                  fan_in = fan_out = n
"""

from __future__ import annotations

import functools
import inspect
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .errors import DTypeError, GraphError, ShapeError
from .ops import philox
from .spec import dtype as as_dtype
from .spec import dtype_name, kind

Array = np.ndarray[Any, Any]
Shape = Sequence[int]


class Initializer:
    """A rule for first values with its settings; called with shape and dtype it gives an array.

    >>> import gradwright as gw
    >>> gw.init.uniform(low=-1.0, high=1.0, seed=7)
    uniform(low=-1.0, high=1.0, seed=7)
    """

    def __init__(self, rule: Callable[..., Array], settings: dict[str, Any]) -> None:
        inspect.signature(rule).bind((), "float32", **settings)  # an unknown setting raises here
        self.rule, self.settings = rule, settings

    def __call__(self, shape: Shape, dtype: DTypeLike = "float32") -> Array:
        """Return first values of this shape and dtype."""
        target = as_dtype(dtype)
        return self.rule(tuple(shape), target, **self.settings).astype(target, copy=False)

    def __repr__(self) -> str:
        return f"{self.rule.__name__}({', '.join(f'{k}={v!r}' for k, v in self.settings.items())})"


def _initializer(rule: Callable[..., Array]) -> Callable[..., Any]:
    """Let a rule be used as it is, with settings, and directly."""

    @functools.wraps(rule)
    def use(shape: Any = None, dtype: DTypeLike = "float32", **settings: Any) -> Any:
        initializer = Initializer(rule, settings)
        if shape is None:
            return initializer
        if not isinstance(shape, Sequence):
            known = [
                p.name
                for p in inspect.signature(rule).parameters.values()
                if p.kind is p.KEYWORD_ONLY
            ]
            raise TypeError(
                f"{rule.__name__} takes a shape and the keywords {', '.join(known)}; got {shape!r}"
            )
        return initializer(shape, dtype)

    return use


@_initializer
def zeros(shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Zeros: the usual start of a bias.

    >>> zeros((2,)).tolist()
    [0.0, 0.0]
    """
    return np.zeros(shape, dtype)


@_initializer
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
    return np.full(shape, value, dtype)


@_initializer
def identity(shape: Shape, dtype: np.dtype[Any], *, gain: float = 1.0) -> Array:
    """Ones on the diagonal of a matrix, times ``gain``.

    >>> identity((2, 2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if len(shape) != 2:
        raise ShapeError(f"identity cannot fill {tuple(shape)}", need="a matrix")
    rows, columns = shape
    return gain * np.eye(rows, columns)


@_initializer
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
    return low + (high - low) * _draw(philox.uniform, shape, dtype, seed)


@_initializer
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
    return mean + std * _draw(philox.normal, shape, dtype, seed)


@_initializer
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
    return mean + std * _draw(clipped, shape, dtype, seed)


# A standard normal cut at ±2 has variance 1 − 4φ(2)/(2Φ(2) − 1) = 0.8796²; divided out below.
_STD_CUT_AT_2 = 0.8796256610342398


@_initializer
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
            return std * _draw(philox.normal, shape, dtype, seed)
        case "truncated_normal":
            clipped = functools.partial(philox.truncated_normal, lower=-2.0, upper=2.0)
            return std / _STD_CUT_AT_2 * _draw(clipped, shape, dtype, seed)
        case "uniform":
            limit = math.sqrt(3.0) * std
            return limit * (2 * _draw(philox.uniform, shape, dtype, seed) - 1)
    raise GraphError(
        f"distribution={distribution!r} is not known",
        need="'normal', 'truncated_normal' or 'uniform'",
    )


@_initializer
def xavier_uniform(
    shape: Shape, dtype: np.dtype[Any], *, gain: float = 1.0, seed: int | None = None
) -> Array:
    """U(±gain·√(6/(fan_in + fan_out))), for tanh and linear layers (Glorot and Bengio 2010).

    >>> bool(abs(xavier_uniform((2, 4), seed=0)).max() <= 1.0)
    True
    """
    return _scaled(shape, dtype, gain**2, "fan_avg", "uniform", seed)


@_initializer
def xavier_normal(
    shape: Shape, dtype: np.dtype[Any], *, gain: float = 1.0, seed: int | None = None
) -> Array:
    """N(0, gain²·2/(fan_in + fan_out)), for tanh and linear layers (Glorot and Bengio 2010).

    >>> round(float(xavier_normal((100, 300), seed=0).std()) * 200**0.5, 1)
    1.0
    """
    return _scaled(shape, dtype, gain**2, "fan_avg", "normal", seed)


@_initializer
def he_uniform(
    shape: Shape, dtype: np.dtype[Any], *, mode: str = "fan_in", seed: int | None = None
) -> Array:
    """U(±√(6/fan_in)), for layers followed by relu (He, Zhang, Ren and Sun 2015).

    >>> bool(abs(he_uniform((6, 100), seed=0)).max() <= 1.0)
    True
    """
    return _scaled(shape, dtype, 2.0, mode, "uniform", seed)


@_initializer
def he_normal(
    shape: Shape, dtype: np.dtype[Any], *, mode: str = "fan_in", seed: int | None = None
) -> Array:
    """N(0, 2/fan_in), for layers followed by relu (He, Zhang, Ren and Sun 2015).

    >>> round(float(he_normal((200, 100), seed=0).std()), 2)
    0.1
    """
    return _scaled(shape, dtype, 2.0, mode, "normal", seed)


@_initializer
def lecun_uniform(shape: Shape, dtype: np.dtype[Any], *, seed: int | None = None) -> Array:
    """U(±√(3/fan_in)) (LeCun, Bottou, Orr and Müller 1998).

    >>> bool(abs(lecun_uniform((3, 100), seed=0)).max() <= 1.0)
    True
    """
    return _scaled(shape, dtype, 1.0, "fan_in", "uniform", seed)


@_initializer
def lecun_normal(shape: Shape, dtype: np.dtype[Any], *, seed: int | None = None) -> Array:
    """N(0, 1/fan_in), for selu and linear layers (LeCun, Bottou, Orr and Müller 1998).

    >>> round(float(lecun_normal((100, 300), seed=0).std()), 2)
    0.1
    """
    return _scaled(shape, dtype, 1.0, "fan_in", "normal", seed)


@_initializer
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
    _check_floating(dtype)
    drawn = _draw(philox.normal, (tall, short), np.dtype("float64"), seed)
    q, r = np.linalg.qr(drawn)
    q *= np.where(np.diagonal(r) < 0, -1.0, 1.0)  # makes the factorisation, so q, unique
    return (gain * (q if rows >= columns else q.T)).reshape(shape)


glorot_uniform, glorot_normal = xavier_uniform, xavier_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


def fans(shape: Shape) -> tuple[float, float]:
    """Return fan_in and fan_out of a weight's shape, as the table above says.

    >>> fans((64, 32)), fans((16, 3, 5, 5))
    ((64, 32), (75, 400))
    """
    if len(shape) < 2:
        return (shape[0], shape[0]) if shape else (1, 1)
    if len(shape) == 2:
        return shape[0], shape[1]
    kernel = math.prod(shape[2:])
    return shape[1] * kernel, shape[0] * kernel


def _scaled(
    shape: Shape, dtype: np.dtype[Any], scale: float, mode: str, distribution: str, seed: int | None
) -> Array:
    array: Array = variance_scaling(
        shape, dtype, scale=scale, mode=mode, distribution=distribution, seed=seed
    )
    return array


def _draw(
    source: Callable[..., Array], shape: Shape, dtype: np.dtype[Any], seed: int | None
) -> Array:
    """Draw an array of step 0, stream 0; halves are drawn as float32 and rounded at the end."""
    _check_floating(dtype)
    if seed is None:
        seed = int.from_bytes(os.urandom(8), "little")
    elif not 0 <= seed < 1 << 64:
        raise GraphError(f"seed={seed} is out of range", need="0 <= seed < 2**64")
    wide = np.dtype("float64" if dtype == np.float64 else "float32")
    key = np.array([seed, 0], np.uint64)
    return source(key, 0, math.prod(shape), wide).reshape(shape)


def _check_floating(dtype: np.dtype[Any]) -> None:
    if kind(dtype) != "f":
        raise DTypeError(f"no random numbers of {dtype_name(dtype)}", need="a float dtype")
