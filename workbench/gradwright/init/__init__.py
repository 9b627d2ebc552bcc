"""Initializers: ``gw.init.he_normal(seed=0)`` is a function from shape and dtype to an array.

Every name here works as it is (``init=gw.init.ones``), with settings (``gw.init.normal(std=0.02,
seed=0)`` gives an initializer), and directly (``gw.init.ones((2, 3))`` gives an array).

The same seed gives the same numbers on every machine and under every version of numpy: they come
from the generator of the random ops (``ops/draws/philox.py``), since numpy keeps the right to
change how its own turns words into normals. Without a seed they are fresh each time. Variables of
one shape need different seeds, or they start out equal.

Fans, the number of inputs and outputs that one weight connects:

    f32[in, out]            fan_in = in            fan_out = out            (``x @ w``)
    f32[out, in, *kernel]   fan_in = in·Πkernel    fan_out = out·Πkernel    (convolutions)
    f32[n]                  fan_in = fan_out = n

Variances that are a number over a fan, n; a uniform of variance v has the limits ±√(3v):

    xavier_normal    xavier_uniform    2/(fan_in + fan_out)     also glorot_...
    he_normal        he_uniform        2/fan_in                 also kaiming_...
    lecun_normal     lecun_uniform     1/fan_in                 also xavier_fan_in
                     fan_in_uniform    1/(3·fan_in)
                     sigmoid_uniform   32/(fan_in + fan_out)
    variance_scaling                   scale/n, n any fan, normal, truncated or uniform
"""

from typing import Any

from ..ops import missing
from .base import Initializer, fans
from .drawn import delta_orthogonal, distribution, normal, orthogonal, truncated_normal, uniform
from .fixed import array, constant, dirac, identity, ones, zeros
from .scaled import (
    fan_in_uniform,
    glorot_normal,
    glorot_uniform,
    he_normal,
    he_uniform,
    kaiming_normal,
    kaiming_uniform,
    lecun_normal,
    lecun_uniform,
    sigmoid_uniform,
    variance_scaling,
    xavier_fan_in,
    xavier_normal,
    xavier_uniform,
)

__all__ = [
    "Initializer",
    "array",
    "constant",
    "delta_orthogonal",
    "dirac",
    "distribution",
    "fan_in_uniform",
    "fans",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "identity",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "sigmoid_uniform",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "xavier_fan_in",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]


def __getattr__(name: str) -> Any:
    """Say what is meant by a name that is not here."""
    raise missing(__name__, name, __all__)
