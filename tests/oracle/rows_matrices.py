"""Factorisations, spectra and solutions of matrices beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradwright as gw
from tests.oracle.rows import Array, Case, Row

RNG = np.random.default_rng(0)  # of its own: how near to singular a matrix is decides what is close


def normal(*shape: int) -> Array:
    return np.asarray(RNG.standard_normal(shape))


def complexes(*shape: int) -> Array:
    return normal(*shape) + 1j * normal(*shape)


def regular(*shape: int) -> Array:
    """Return matrices whose singular values lie around 2, most between 1 and 3."""
    return 0.5 * normal(*shape) / np.sqrt(shape[-1]) + 2 * np.eye(shape[-1])


def separated(x: Array) -> Array:
    """Return matrices whose eigenvalues are about 2 apart."""
    return 0.3 * x + np.diag(2.0 * np.arange(x.shape[-1]))


def definite(*shape: int) -> Array:
    x = normal(*shape)
    return x @ x.swapaxes(-1, -2) + np.eye(shape[-1])


COMPLEX = 0.3 * complexes(2, 3, 3) + 2 * np.eye(3)
PAIR = np.array([[0.0, -2.0, 0.3], [2.0, 0.1, 0.2], [0.1, 0.2, 3.0]])  # two are conjugate
SQUARE: list[Case] = [
    (regular(3, 3),), (regular(2, 1, 4, 4),), (regular(1, 1),), (normal(0, 2, 2),), (COMPLEX,),
]  # fmt: skip
EMPTY: list[Case] = [(np.zeros((2, 0, 0)),)]
LARGE: list[Case] = [(regular(70, 70),)]


def hermitian(x: Any) -> Any:
    return (x + x.mH) / 2


def phases(t: Any, v: Any) -> Any:
    """Return the phases by which columns are turned so that their largest component is real."""
    size = v.detach().abs()
    first = (size >= 0.999 * size.amax(-2, keepdim=True)).to(t.int8).argmax(-2, keepdim=True)
    pinned = v.gather(-2, first)
    return pinned / pinned.abs()


def turned(t: Any, w: Any, v: Any) -> tuple[Any, Any]:
    return w, v * phases(t, v).conj()


# LAPACK's libraries disagree on the order of general eigenvalues, so both sides are sorted.


def their_eig(t: Any, x: Any) -> tuple[Any, Any]:
    w, v = t.linalg.eig(x)
    order = (w.real + 0.3 * w.imag).argsort(-1)
    v = v.gather(-1, order[..., None, :].expand(v.shape))
    return turned(t, w.gather(-1, order), v)


def in_order(w: Any) -> Any:
    return gw.argsort(gw.real(w) + gw.imag(w) * 0.3, axis=-1)


def our_eig(x: Any) -> tuple[Any, Any]:
    w, v = gw.linalg.eig(x)
    order = in_order(w)
    columns = gw.broadcast_like(order[..., None, :], v)
    return gw.take_along_axis(w, order, axis=-1), gw.take_along_axis(v, columns, axis=-1)


def our_eigvals(x: Any) -> Any:
    w = gw.linalg.eigvals(x)
    return gw.take_along_axis(w, in_order(w), axis=-1)


def reduced(t: Any, x: Any, full_matrices: bool = True) -> tuple[Any, Any, Any]:
    u, s, vh = t.linalg.svd(x, full_matrices=full_matrices)
    turn = phases(t, u)
    return u * turn.conj(), s, vh * turn.mT


def column(solver: Callable[..., Any]) -> Callable[..., Any]:
    """Let a solver of columns take a vector, too."""

    def solve(t: Any, a: Any, b: Any, **attrs: Any) -> Any:
        return (
            solver(t, a, b[:, None], **attrs)[..., 0] if b.ndim == 1 else solver(t, a, b, **attrs)
        )

    return solve


@column
def triangular(
    t: Any, a: Any, b: Any, lower: bool = True, adjoint: bool = False, unit_diagonal: bool = False
) -> Any:
    a, upper = (a.mH, lower) if adjoint else (a, not lower)
    lead = t.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = a.expand(*lead, *a.shape[-2:]), b.expand(*lead, *b.shape[-2:])
    return t.linalg.solve_triangular(a, b, upper=upper, unitriangular=unit_diagonal)


@column
def least_squares(t: Any, a: Any, b: Any, l2_regularizer: float = 0.0) -> Any:
    lead = t.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = a.expand(*lead, *a.shape[-2:]), b.expand(*lead, *b.shape[-2:])
    if l2_regularizer:  # as if there were equations that say that the solution is 0
        n = a.shape[-1]
        ridge = l2_regularizer**0.5 * t.eye(n, dtype=a.dtype).expand(*lead, n, n)
        nothing = t.zeros(*lead, n, b.shape[-1], dtype=a.dtype)
        a, b = t.cat([a, ridge], -2), t.cat([b, nothing], -2)
    if a.shape[-2] < a.shape[-1]:
        return a.mH @ t.linalg.solve(a @ a.mH, b)
    return t.linalg.lstsq(a, b).solution


def band(t: Any, x: Any, lower: int, upper: int) -> Any:
    y = x if lower < 0 else x.triu(-lower)
    return y if upper < 0 else y.tril(upper)


def vander(t: Any, x: Any, n: int | None = None, increasing: bool = False) -> Any:
    count = x.shape[-1] if n is None else n
    y = t.stack([x**k for k in range(count)], -1) if count else x[..., None][..., :0]
    return y if increasing else y.flip(-1)


def condition(t: Any, x: Any, p: float | str = 2) -> Any:
    """Return what torch.linalg.cond is, whose gradient is an error for other norms than 2."""
    if p in (2, -2):
        return t.linalg.cond(x, p)
    return t.linalg.matrix_norm(x, p) * t.linalg.matrix_norm(t.linalg.inv(x), p)


def logdet(t: Any, x: Any) -> Any:
    return t.linalg.det(x).log()


RIGHT: list[Case] = [
    (regular(3, 3), normal(3, 2)),
    (regular(2, 3, 3), normal(3)),
    (regular(2, 1, 3, 3), normal(4, 3, 1)),
    (regular(2, 2), normal(3, 2, 0)),
    (normal(0, 2, 2), normal(2, 2)),
    (COMPLEX, complexes(3, 1)),
    (regular(70, 70), normal(70, 2)),
]
EIGEN: list[Case] = [
    (separated(normal(2, 3, 3)),), (PAIR,), (separated(complexes(2, 4, 4)),), (normal(0, 2, 2),),
]  # fmt: skip
TALL, WIDE = normal(2, 4, 3), normal(3, 5)
ANY: list[Case] = [(TALL,), (WIDE,), (normal(3, 3),), (complexes(4, 2),), (complexes(2, 3),)]
HERMITIAN: list[Case] = [
    (separated(normal(3, 3)),), (separated(normal(2, 1, 4, 4)),), (np.array([[2.0]]),),
    (separated(complexes(2, 3, 3)),),
]  # fmt: skip

ROWS: dict[str, Row] = {
    "inv": Row("linalg.inv", [*SQUARE, *LARGE]),
    "solve": Row(column(lambda t, a, b: t.linalg.solve(a, b)), RIGHT),
    "triangular_solve": Row(
        triangular,
        [
            *(case for case in RIGHT[:-1]),
            (regular(2, 3, 3), normal(3, 2), {"lower": False}),
            (regular(2, 3, 3), normal(3), {"adjoint": True}),
            (COMPLEX, complexes(2, 3, 1), {"adjoint": True, "lower": False}),
            (COMPLEX, complexes(2, 3, 1), {"unit_diagonal": True}),
            (regular(150, 150), normal(150, 1)),
            (regular(150, 150), normal(150, 1), {"lower": False}),
        ],
    ),
    "pinv": Row("linalg.pinv", [(TALL,), (WIDE,), (COMPLEX,), (complexes(2, 4, 2),)]),
    "lstsq": Row(
        least_squares,
        [
            (TALL, normal(4, 2)),
            (TALL[0], normal(4)),
            (TALL, normal(2, 4, 1), {"l2_regularizer": 0.3}),
            (WIDE, normal(3, 2)),
            (complexes(4, 2), complexes(4, 1)),
        ],
    ),
    "det": Row("linalg.det", [*SQUARE, *EMPTY]),
    "slogdet": Row("linalg.slogdet", [*SQUARE, *EMPTY, *LARGE]),
    "logdet": Row(logdet, [(definite(2, 3, 3),), (np.array([[2.0]]),), (COMPLEX,)]),
    "cholesky": Row(
        lambda t, x, upper=False: t.linalg.cholesky(hermitian(x), upper=upper),
        [
            (definite(3, 3),),
            (definite(2, 1, 4, 4), {"upper": True}),
            (COMPLEX @ COMPLEX.conj().swapaxes(-1, -2),),
            (np.zeros((0, 2, 2)),),
        ],
    ),
    "qr": Row("linalg.qr", [*ANY, (WIDE, {"mode": "complete"}), (normal(0, 3, 2),)]),
    "qr, complete": Row("linalg.qr", [(TALL, {"mode": "complete"})], fixed=(0,)),
    "lu": Row("linalg.lu", [*ANY, *LARGE, (normal(80, 40),), (normal(40, 80),)]),
    "eigh": Row(lambda t, x: turned(t, *t.linalg.eigh(hermitian(x))), HERMITIAN),
    "eigvalsh": Row(lambda t, x: t.linalg.eigvalsh(hermitian(x)), [*HERMITIAN, *EMPTY]),
    "eig": Row(their_eig, EIGEN, ours=our_eig),
    "eigvals": Row(lambda t, x: their_eig(t, x)[0], EIGEN, ours=our_eigvals),
    "svd": Row(reduced, [(x, {"full_matrices": False}) for (x,) in ANY] + [(normal(3, 3),)]),
    "svdvals": Row("linalg.svdvals", [*ANY, (np.zeros((2, 0)),)]),
    "matrix_rank": Row(
        lambda t, x, rtol=None: t.linalg.matrix_rank(x, rtol=rtol),
        [*ANY, (np.ones((2, 3, 3)),), (np.diag([1.0, 0.1, 0.0]), {"rtol": 0.2})],
    ),
    "condition_number": Row(
        condition,
        [(regular(2, 3, 3), {"p": p}) for p in (2, -2, 1, float("inf"), "fro")]
        + [(TALL,), (COMPLEX, {"p": 1})],
    ),
    "matrix_power": Row(
        "linalg.matrix_power", [(regular(2, 2, 2), {"n": n}) for n in (0, 1, 5, -3)]
    ),
    "matrix_exp": Row(
        "linalg.matrix_exp",
        [(normal(2, 3, 3),), (normal(3, 3) * 4,), (COMPLEX,), (np.zeros((2, 2)),), *EMPTY],
    ),
    "band_part": Row(
        band,
        [
            (normal(2, 3, 4), {"lower": k, "upper": m})
            for k, m in ((0, 0), (1, -1), (-1, 2), (5, 5))
        ],
    ),
    "tri": Row(
        lambda t, n, m=None, k=0, dtype="float32": t.ones(
            n, n if m is None else m, dtype=getattr(t, dtype)
        ).tril(k),
        [({"n": 3},), ({"n": 2, "m": 4, "k": 1, "dtype": "int64"},), ({"n": 0, "m": 2},)],
    ),
    "cross": Row(
        lambda t, a, b, axis=-1: t.linalg.cross(a, b, dim=axis),
        [
            (normal(2, 3), normal(1, 3)),
            (normal(3, 1, 2), normal(3, 4, 1), {"axis": 0}),
            (complexes(0, 3), complexes(2, 0, 3)[0]),
            (complexes(2, 3), complexes(2, 3)),
        ],
    ),
    "vander": Row(
        vander,
        [
            (normal(3),),
            (normal(2, 2), {"n": 4, "increasing": True}),
            (np.array([0.0, -1.5]), {"n": 3}),
            (complexes(2), {"n": 3}),
        ],
    ),
    "multi_dot": Row(
        lambda t, *xs: t.linalg.multi_dot(xs),
        [
            (normal(3, 2), normal(2, 4)),
            (normal(3, 9), normal(9, 2), normal(2, 8), normal(8, 3)),
            (normal(2), normal(2, 3), normal(3)),
        ],
    ),
}
