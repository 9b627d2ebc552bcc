"""Values and slopes of functions of a few arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradwright as gw

Array = np.ndarray[Any, Any]


def run(function: Any, *arrays: Any, training: bool = False, **attrs: Any) -> Array:
    """Return ``function`` of float64 (or integer) arrays."""
    g = gw.Graph()
    xs = [g.constant(np.asarray(a)) for a in arrays]
    with gw.Session(g) as session:
        found: Array = session.run(function(*xs, **attrs), training=training)
    return found


def slope(function: Any, *arrays: Any, wrt: int = 0, **attrs: Any) -> Array:
    """Return d Σ function / d arrays[wrt]."""
    g = gw.Graph()
    xs = [g.constant(np.asarray(a)) for a in arrays]
    (dx,) = gw.gradients(function(*xs, **attrs), [xs[wrt]])
    return g.output({}, dx)[dx.name]


def value(y: gw.Tensor, feeds: dict[str, Any] | None = None) -> np.ndarray[Any, Any]:
    with gw.Session(y.graph) as session:
        return session.run(y, feeds or {})
