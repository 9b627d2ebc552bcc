"""Models and adapters of numbers that are drawn, large enough for each row's adapter to show."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwright.adapters import Adapted
from gradwright.models import Decoder

Array = np.ndarray[Any, Any]


def weights(model: Decoder, scale: float = 0.3, seed: int = 3) -> Decoder:
    """Return a model whose matrices are normals of a deviation."""
    rng = np.random.default_rng(seed)
    for v in model.graph.variables:
        if len(v.shape) == 2:
            shape = [int(n) for n in v.shape]
            model.graph.values[v.name] = scale * rng.standard_normal(shape, np.float32)
    return model


def state(adapted: Adapted, rng: np.random.Generator, scale: float) -> dict[str, Array]:
    """Return the state of an adapter as training might have left it."""
    return {
        key: np.asarray(scale * rng.standard_normal(array.shape, np.float32))
        for key, array in adapted.state().items()
    }
