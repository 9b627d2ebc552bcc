"""Random directions and cotangents of a size that suits what they move, and their products."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def draw_direction(x: Array, rng: np.random.Generator, most: int | None = None) -> Array:
    """Draw a direction in which every element of ``x`` moves by about its size.

    Elements smaller than the median count as if they were as large; those not finite stay. Of more
    than ``most`` elements so many move, drawn at random: normals for all would take longer than
    what is done with them.
    """
    if most is not None and x.size > most:
        moved = rng.integers(x.size, size=most)
        sparse = np.zeros(x.shape, x.dtype)  # of one piece, whatever x is a view of
        sparse.reshape(-1)[moved] = draw_direction(x.reshape(-1)[moved], rng)
        return sparse
    finite = np.isfinite(x)
    size = np.where(finite, np.abs(x), 0.0)
    return np.where(finite, normal_like(x, rng) * np.maximum(size, typical_size(x)), 0)


def by_element(x: Array, rng: np.random.Generator) -> Array | None:
    """Draw a direction in which every element moves by its own size, those of 0 not at all.

    None where that is what :func:`draw_direction` does: where sizes are not mixed.
    """
    size = np.abs(x)
    known = np.isfinite(x) & (x != 0)
    if not np.any(size[known] < 1e-2 * typical_size(x)):
        return None
    return np.where(known, normal_like(x, rng) * np.where(known, size, 0.0), 0)


def typical_size(x: Array) -> float:
    """Return the median size of the elements that are neither 0 nor infinite; 1 without any."""
    size = np.abs(x[np.isfinite(x) & (x != 0)])
    middle = size.size // 2
    return float(np.partition(size, middle)[middle]) if size.size else 1.0


def normal_like(x: Array, rng: np.random.Generator) -> Array:
    """Draw standard normals of the shape of ``x``, complex ones where ``x`` is complex."""
    drawn: Array = np.asarray(rng.standard_normal(x.shape))
    return drawn + 1j * rng.standard_normal(x.shape) if np.iscomplexobj(x) else drawn


def inner(a: Array, b: Array) -> float:
    """Return Re Σ conj(a)·b over the elements where a is not 0."""
    used = a != 0
    return float(np.vdot(a[used], b[used]).real)
