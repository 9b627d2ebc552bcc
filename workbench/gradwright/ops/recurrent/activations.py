"""The activations of recurrent layers by their ONNX names: as numbers, as slopes, as graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import GraphError
from ..core.activation import Elu, HardSigmoid, LeakyRelu, Relu, Sigmoid, Softplus, Tanh
from ..core.choice import Where
from ..core.elementwise import Abs

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Activation:
    """A function, computed in place, its slope as a function of its value, and as graph."""

    apply: Callable[[Array], Any]
    slope: Callable[[Array], Any]
    build: Callable[[Any], Any]


def _sigmoid(x: Array) -> None:
    np.negative(x, out=x)
    np.exp(x, out=x)
    x += 1
    np.reciprocal(x, out=x)


def _softplus(x: Array) -> None:
    x[...] = np.logaddexp(x, 0)


def _tanh(alpha: float, beta: float) -> Activation:
    def apply(x: Array) -> None:
        np.multiply(x, beta, out=x)
        np.tanh(x, out=x)
        x *= alpha

    def slope(y: Array) -> Any:
        return beta * (alpha - y * y / alpha)

    return Activation(apply, slope, lambda x: Tanh()(x * beta) * alpha)


def _set(function: Callable[[Array], Array]) -> Callable[[Array], None]:
    def apply(x: Array) -> None:
        x[...] = function(x)

    return apply


# name -> (function of alpha and beta, defaults of those that it takes)
_KNOWN: dict[str, tuple[Callable[..., Activation], tuple[float, ...]]] = {
    "sigmoid": (lambda: Activation(_sigmoid, lambda y: y * (1 - y), Sigmoid()), ()),
    "tanh": (lambda: Activation(lambda x: np.tanh(x, out=x), lambda y: 1 - y * y, Tanh()), ()),
    "relu": (
        lambda: Activation(lambda x: np.maximum(x, 0, out=x), lambda y: y > 0, Relu()),
        (),
    ),
    "softsign": (
        lambda: Activation(
            _set(lambda x: x / (1 + np.abs(x))),
            lambda y: (1 - np.abs(y)) ** 2,
            lambda x: x / (1 + Abs()(x)),
        ),
        (),
    ),
    "softplus": (lambda: Activation(_softplus, lambda y: -np.expm1(-y), Softplus()), ()),
    "leakyrelu": (
        lambda a: Activation(
            _set(lambda x: np.where(x >= 0, x, a * x)),
            lambda y: np.where(y >= 0, 1, a).astype(y.dtype),
            LeakyRelu(negative_slope=a),
        ),
        (0.01,),
    ),
    "thresholdedrelu": (
        lambda a: Activation(
            _set(lambda x: np.where(x >= a, x, 0)),
            lambda y: y != 0,
            lambda x: Where()(x >= a, x, x * 0),
        ),
        (1.0,),
    ),
    "elu": (
        lambda a: Activation(
            _set(lambda x: np.where(x >= 0, x, a * np.expm1(np.minimum(x, 0)))),
            lambda y: np.where(y >= 0, 1, y + a).astype(y.dtype),
            Elu(alpha=a),
        ),
        (1.0,),
    ),
    "affine": (
        lambda a, b: Activation(
            _set(lambda x: a * x + b), lambda y: np.full_like(y, a), lambda x: a * x + b
        ),
        (1.0, 0.0),
    ),
    "scaledtanh": (_tanh, (1.0, 1.0)),
    "hardsigmoid": (
        lambda a, b: Activation(
            _set(lambda x: np.clip(a * x + b, 0, 1)),
            lambda y: a * ((y > 0) & (y < 1)).astype(y.dtype),
            HardSigmoid(alpha=a, beta=b),
        ),
        (0.2, 0.5),
    ),
}


def activations(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]
) -> list[Activation]:
    """Return activations by name; those that have alpha or beta take the next one given.

    >>> [a] = activations(["LeakyRelu"], [0.5], [])
    >>> x = np.array([-2.0, 2.0])
    >>> a.apply(x), x.tolist(), a.slope(x).tolist()
    (None, [-1.0, 2.0], [0.5, 1.0])
    """
    left = list(alphas), list(betas)
    found = []
    for name in names:
        if name.lower() not in _KNOWN:
            raise GraphError(
                f"{name!r} is no activation of a recurrent layer", need=", ".join(_KNOWN)
            )
        make, defaults = _KNOWN[name.lower()]
        parameters = [
            given.pop(0) if given else default
            for default, given in zip(defaults, left, strict=False)
        ]
        if name.lower() in ("leakyrelu", "elu", "scaledtanh") and parameters[0] <= 0:
            raise GraphError(
                f"{name} with alpha {parameters[0]}", need="alpha > 0: its slope is that of a value"
            )
        found.append(make(*parameters))
    return found
