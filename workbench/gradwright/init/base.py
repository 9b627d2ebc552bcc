"""What an initializer is: a rule with settings; and what rules draw their numbers from."""

from __future__ import annotations

import functools
import inspect
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..errors import DTypeError, GraphError
from ..ops.draws.philox import is_word
from ..spec import dtype as as_dtype
from ..spec import dtype_name, kind
from ..spec.rounding import rounded

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
        return rounded(self.rule(tuple(shape), target, **self.settings), target)

    def __repr__(self) -> str:
        return f"{self.rule.__name__}({', '.join(f'{k}={v!r}' for k, v in self.settings.items())})"


def initializer(rule: Callable[..., Array]) -> Callable[..., Any]:
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


def draw(
    source: Callable[..., Array],
    shape: Shape,
    dtype: np.dtype[Any],
    seed: int | None,
    scale: float = 1.0,
    offset: float = -0.0,
    factor: float = 1.0,
) -> Array:
    """Draw an array of step 0, stream 0, as (x·scale + offset)·factor.

    Halves are drawn as float32 and rounded at the end.
    """
    check_floating(dtype)
    if seed is None:
        seed = int.from_bytes(os.urandom(8), "little")
    elif not is_word(seed):
        raise GraphError(f"seed={seed!r} is out of range", need="an int, 0 <= seed < 2**64")
    wide = np.dtype("float64" if dtype == np.float64 else "float32")
    key = np.array([seed, 0], np.uint64)
    scaling = float(scale), float(offset), float(factor)
    return source(key, 0, math.prod(shape), wide, scaling=scaling).reshape(shape)


def check_floating(dtype: np.dtype[Any]) -> None:
    """Raise DTypeError for a dtype that holds no random numbers.

    >>> check_floating(np.dtype("float32"))
    """
    if kind(dtype) != "f":
        raise DTypeError(f"no random numbers of {dtype_name(dtype)}", need="a float dtype")
