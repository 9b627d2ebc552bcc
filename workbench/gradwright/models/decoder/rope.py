"""Rotary positions of a decoder: by how much each pair of features turns."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from ... import nn
from ...graph import Tensor
from ...ops.core.choice import Where
from ...ops.core.joining import Concat
from ...ops.core.movement import Cast
from .config import DecoderConfig, RopeScaling

Turn = Callable[[Tensor], Tensor]
_OF_THE_ROW = ("dynamic", "longrope")
"""Scalings by which all pairs turn by how long the row is. Keys in a cache stay as they were turned
when the row was shorter, as in transformers; for longrope a generation reads the row anew."""


def yarn_size(factor: float, scale: float = 1.0) -> float:
    """Return by what yarn multiplies cosines and sines: 0.1·scale·ln factor + 1, or 1 up to 1.

    >>> yarn_size(1.0), round(yarn_size(8.0), 3)
    (1.0, 1.208)
    """
    return 0.1 * scale * math.log(factor) + 1 if factor > 1 else 1.0


def turning(config: DecoderConfig, places: Tensor, length: Callable[[], Tensor]) -> Turn:
    """Return what turns queries or keys ``[B, heads, T, features]`` to their places.

    ``places`` are i64[T] or i64[B, T]; ``length`` makes as many, or one for a row: how many
    positions it has, which some scalings turn all by. Learned positions turn nothing.
    """
    if config.positions == "learned":
        return _as_it_is
    scaling, n = config.rope_scaling, config.turned
    if scaling is not None and scaling.kind in _OF_THE_ROW:
        cos, sin = _by_length(scaling, config.rope_base, n, places, length())
    else:
        cos, sin = nn.rope_cos_sin(places, dim=n, base=config.rope_base, **_settings(scaling))
    if cos.rank == 3:
        cos, sin = cos[:, None], sin[:, None]

    def turn(x: Tensor) -> Tensor:
        if n == config.features:
            return nn.rotate_pairs(x, cos, sin, interleaved=config.interleaved)
        turned = nn.rotate_pairs(x[..., :n], cos, sin, interleaved=config.interleaved)
        joined: Tensor = Concat(axis=-1)(turned, x[..., n:])
        return joined

    return turn


def _as_it_is(x: Tensor) -> Tensor:
    return x


def _settings(scaling: RopeScaling | None) -> dict[str, Any]:
    """Return the attributes of the op that makes angles."""
    if scaling is None:
        return {}
    told = {f.name: getattr(scaling, f.name) for f in fields(scaling)}
    for name in ("short_factor", "long_factor"):
        del told[name]
    return {"scaling": told.pop("kind"), **told}


def _by_length(
    scaling: RopeScaling, base: float, n: int, places: Tensor, length: Tensor
) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of speeds that depend on how long a row is, in float64 until then.

    dynamic: base·(1 + factor·(max(length, L)/L − 1))^(n/(n − 2)); longrope: speeds over one list of
    factors in rows up to L = original_length, and over another in longer ones.
    """
    graph, long = places.graph, Cast(dtype="float64")(length)
    old = scaling.original_length
    share, long = np.arange(0, n, 2) / n, long[..., None]
    own = base**-share
    if scaling.kind == "dynamic":
        growth = (Where()(long > old, long, float(old)) * (scaling.factor / old)) + (
            1 - scaling.factor
        )
        power = graph.constant(-share * (n / (n - 2)))
        speeds = graph.constant(own) * growth**power
    else:
        short, far = (
            graph.constant(own / np.array(f)) for f in (scaling.short_factor, scaling.long_factor)
        )
        speeds = Where()(long > old, far, short)
    angles = Cast(dtype="float64")(places)[..., None] * speeds
    size = scaling.attention_factor
    if size is None:
        grows = scaling.kind == "longrope" and scaling.factor > 1
        size = math.sqrt(1 + math.log(scaling.factor) / math.log(old)) if grows else 1.0
    as_float = Cast(dtype="float32")
    return as_float(angles.cos() * size), as_float(angles.sin() * size)
