"""What an adapter adds to weights: how large it is, and in how many directions it goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradwright.errors import GradwrightError

Array = np.ndarray[Any, Any]
LARGEST = 16
"""Singular values that are told of each place."""
SMALL = 512
"""Of a matrix of fewer rows or columns all singular values are computed, 40 ms at the most."""
_FACTORS = ("lora_A", "lora_B", "lora_E")


def spectrum(adapter: Any, place: Any, p: Mapping[str, Array]) -> tuple[float, Array]:
    """Return the Frobenius norm of what is added to a weight, and its largest singular values.

        Δ = W' − W,  ‖Δ‖ = √Σ σᵢ²

    A product of two factors is not multiplied out: with B = Q₁·R₁ and Aᵀ = Q₂·R₂ the singular
    values of B·A are those of R₁·R₂ᵀ. ``p`` are the variables at the place. Of what is no part of a
    weight, such as a prefix, it is the variables that are measured.

    >>> import gradwright as gw
    >>> from types import SimpleNamespace
    >>> place = SimpleNamespace(name="w", kind="linear", shape=(2, 2))
    >>> p = {"lora_A": np.array([[3.0, 0.0]]), "lora_B": np.array([[0.0], [1.0]])}
    >>> norm, values = spectrum(gw.adapters.LoRA(r=1, alpha=2), place, p)
    >>> norm, values.tolist()
    (6.0, [6.0])
    """
    wide = {leaf: np.asarray(array, np.float64) for leaf, array in p.items()}
    if "lora_A" in p and place.kind == "linear" and set(p) <= {*_FACTORS} and _is_product(adapter):
        a, b = wide["lora_A"] * wide.get("lora_E", 1.0), wide["lora_B"]
        r1, r2 = (np.asarray(np.linalg.qr(factor, "r")) for factor in (b, a.T))
        values = np.linalg.svd(r1 @ r2.T * adapter.scale(place), compute_uv=False)
        return float(np.linalg.norm(values)), values[:LARGEST]
    delta = _delta(adapter, place, p)
    if delta is None:
        return float(np.sqrt(sum((array**2).sum() for array in wide.values()))), np.empty(0)
    return float(np.linalg.norm(delta)), largest_values(delta.reshape(len(delta), -1))


def _is_product(adapter: Any) -> bool:
    from gradwright.adapters import AdaLoRA, LoRA

    return type(adapter).delta in (LoRA.delta, AdaLoRA.delta) and adapter.is_additive


def _delta(adapter: Any, place: Any, p: Mapping[str, Array]) -> Array | None:
    """Return what a method adds to a weight [out, ...]; None where it is no part of one."""
    from gradwright.adapters import Site
    from gradwright.adapters.adapter import computed

    if not isinstance(place, Site) or not place.uses:
        return None
    try:
        w = place.array().astype(np.float32)
        return computed(lambda t, q: adapter.changed(place, t, q), w, p).astype(np.float64) - w
    except GradwrightError:
        return None


def largest_values(matrix: Array, n: int = LARGEST) -> Array:
    """Return the largest singular values of a matrix, of a large one to some digits.

    Of a large one they are those of its image of n + 8 random directions, twice powered (Halko et
    al. 2011): exact where its rank is no larger than that.

    >>> largest_values(np.diag([3.0, 1.0])).tolist()
    [3.0, 1.0]
    """
    if not np.isfinite(matrix).all():
        return np.full(min(n, *matrix.shape), np.nan)
    if min(matrix.shape) > SMALL:
        y = matrix @ np.random.default_rng(0).standard_normal((matrix.shape[1], n + 8))
        for _ in range(2):
            y = matrix @ (matrix.T @ np.linalg.qr(y)[0])
        matrix = np.linalg.qr(y)[0].T @ matrix
    return np.linalg.svd(matrix, compute_uv=False)[:n]
