"""What a wrong cotangent is: of the wrong sign, a multiple, transposed, of another input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .directions import inner
from .numeric import Slope

Array = np.ndarray[Any, Any]

TRIALS = 4
"""Directions that a guess must hold along: with a factor left free, three are left to refute it."""


def cause(
    found: Array, others: Mapping[str, Array], along: Sequence[Array], slopes: Sequence[Slope]
) -> str:
    """Say what a wrong cotangent is, to be read after "it is"; "" if the numbers do not tell.

    ``slopes`` are those that were measured along the directions ``along``, and ``others`` the
    cotangents of the op's other inputs by their names.
    """
    if np.isnan(found).any():
        return "not a number"
    if np.isinf(found).any():
        return "infinite"
    if not found.any():
        return "zero"
    right = np.array([s.value for s in slopes])
    error = 3 * max(s.error for s in slopes)
    slack = 1e-4 * np.abs(right).max() + error

    def products(cotangent: Array) -> Array:
        return np.array([inner(v, cotangent) for v in along])

    def holds(values: Array) -> bool:
        return bool((np.abs(values - right) <= slack).all())

    exact = products(found)
    if (np.abs(right) <= error).all():
        return "not zero, as it should be"
    factor = float(exact @ right / (exact @ exact))
    if factor and holds(factor * exact):
        share = 1 / factor
        wrong_sign = abs(share + 1) < 1e-4
        return "of the wrong sign" if wrong_sign else f"{share:.5g} times what it should be"
    if np.iscomplexobj(found) and holds(products(found.conj())):
        return "the conjugate of what it should be"
    if found.ndim >= 2 and found.shape[-1] == found.shape[-2] and holds(products(found.mT)):
        return "transposed"
    for name, cotangent in others.items():
        if cotangent.shape == found.shape and holds(products(cotangent)):
            return f"what {name} should get"
    return ""
