"""What an initialiser gives, and what several of them need: ranks that fit, leading directions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...errors import ShapeError

Array = np.ndarray[Any, Any]


class First(NamedTuple):
    """First values of an adapter's factors, ``a`` [r, in] and ``b`` [out, r].

    ``base`` is the weight that stands for the old one, [out, in]; None leaves it as it was.
    """

    a: Array
    b: Array
    base: Array | None


def as_floats(w: Array, r: int) -> Array:
    """Return a weight [out, in] as float32, or float64 if it is; raises unless it has ``r`` ranks.

    >>> as_floats(np.ones((2, 3), np.float16), 2).dtype
    dtype('float32')
    """
    if w.ndim != 2 or not 1 <= r <= min(w.shape):
        raise ShapeError(
            f"a weight of the shape {w.shape} has no {r} leading directions",
            need="a matrix [out, in], and r from 1 to the smaller of its sizes",
        )
    return w if w.dtype == np.float64 else w.astype(np.float32, copy=False)


def taken_off(w: Array, part: Array) -> Array:
    """Return w − part, in the dtype that w has."""
    found: Array = (w - part).astype(w.dtype)
    return found


def leading(x: Array, q: int, n_iter: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return about the ``q`` largest singular values of a matrix, with their vectors: U, S, Vᵀ.

    ``n_iter`` times all directions but the leading ones shrink; the error falls with the power
    2·n_iter + 1 of the ratio of singular values (Halko, Martinsson and Tropp 2011, algorithms 4.4
    and 5.1).

    >>> u, s, vt = leading(np.diag([3.0, 2.0, 1.0]), 1, 4, np.random.default_rng(0))
    >>> s.round(2).tolist(), u.shape, vt.shape
    ([3.0], (3, 1), (1, 3))
    """
    if x.shape[0] < x.shape[1]:
        v, s, ut = leading(x.T, q, n_iter, rng)
        return ut.T, s, v.T
    basis = np.linalg.qr(x @ rng.standard_normal((x.shape[1], q)).astype(x.dtype))[0]
    for _ in range(n_iter):
        basis = np.linalg.qr(x.T @ basis)[0]
        basis = np.linalg.qr(x @ basis)[0]
    u, s, vt = np.linalg.svd(basis.T @ x, full_matrices=False)
    return basis @ u, s, vt
