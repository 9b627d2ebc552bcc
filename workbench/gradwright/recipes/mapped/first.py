"""First values of a decoder from one stream of numbers, and the tokens that follow a row's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...adapters.initial.lcg import Lcg
from ...models.decoder import DecoderConfig

Array = np.ndarray[Any, Any]


def next_tokens(ids: Array) -> Array:
    """Return the token that follows each; the last one is its own.

    >>> import numpy as np
    >>> next_tokens(np.array([5, 9, 2])).tolist()
    [9, 2, 2]
    """
    return np.append(ids[1:], ids[-1:])


def first_values(config: DecoderConfig, seed: int, init_scale: float = 1.0) -> dict[str, Array]:
    """Return first values of all weights of a decoder from one stream of an `Lcg`.

    In the order of the stream: embedding, head, and layer by layer the heads of queries, each
    shared head's key and value, output, gate, up, down.

    >>> from gradwright.models import DecoderConfig
    >>> config = DecoderConfig(vocabulary=627, width=64, heads=4, layers=2, inner=128, tied=True)
    >>> values = first_values(config, 0)
    >>> round(float(values["embed"].std()), 3), round(float(values["layer0/down"].std()), 2)
    (0.02, 0.09)
    """
    stream, found = Lcg.hashed(seed), dict[str, Array]()
    for name, shape in config.weights():
        one = 0.0 if name.endswith("_bias") or config.norm == "rms_plus_one" else 1.0
        found[name] = np.full(shape, one if len(shape) == 1 else 0.0, np.float32)
    for name, rows in _in_order(config, found):
        part = found[name][rows]
        std = (
            0.02
            if name in ("embed", "head", "positions")
            else init_scale / math.sqrt(part.shape[-1])
        )
        part[...] = (std * stream.normals(part.size)).reshape(part.shape)
    return found


def _in_order(config: DecoderConfig, weights: Mapping[str, Array]) -> Iterator[tuple[str, slice]]:
    """Yield what a stream fills: names of matrices, and rows of them."""
    tables, whole, e = ("embed", "head", "positions"), slice(None), config.features
    yield from ((name, whole) for name in tables if name in weights)
    for i in range(config.layers):
        at = f"layer{i}/"
        yield from ((f"{at}q", slice(h * e, (h + 1) * e)) for h in range(config.heads))
        for h in range(config.shared):
            yield from ((f"{at}{name}", slice(h * e, (h + 1) * e)) for name in "kv")
        for name, w in weights.items():
            if w.ndim > 1 and name.startswith(at) and name.removeprefix(at) not in ("q", "k", "v"):
                yield name, whole
