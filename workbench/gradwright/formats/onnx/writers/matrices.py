"""Systems of equations and factors of matrices, as loops over rows: ONNX has only Det.

Matrices that ours refuse when run, since they are singular, give infinities or NaN here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....graph import Tensor
from ....ops.control.scan import scan
from ....spec import Dim, TensorSpec, broadcast, kind
from ..node import cast, op
from ..nodes import Spelling, spelled
from ..versions import CannotExport
from .counts import numbers


def _of_matrices(*ops: str) -> Callable[[Spelling], Spelling]:
    """Enter what some ops are written as for matrices that have elements."""

    def enter(build: Spelling) -> Spelling:
        @spelled(*ops)
        def made(of: Any, *xs: Tensor) -> Any:
            y = of.infer(*(_real(x).spec for x in xs))
            if isinstance(y, TensorSpec) and 0 in xs[0].shape[-2:]:
                return op("full", shape=y.shape, fill_value=0, dtype=y.dtype)()
            return build(of, *xs)

        return build

    return enter


def _row(m: Any, i: Any) -> Any:
    """Return row i of matrices as a matrix of one row: f32[…, 1, N]."""
    return op("gather", axis=-2)(m, op("expand_dims", axis=0)(i))


def _column(m: Any, i: Any) -> Any:
    return op("gather", axis=-1)(m, op("expand_dims", axis=0)(i))


def _real(x: Tensor) -> Tensor:
    if kind(x.dtype) != "f":
        raise CannotExport
    return x


def _as_columns(a: Tensor, b: Tensor) -> tuple[Any, Any]:
    """Return a and right sides in their common batch; a vector is one column for all."""
    joint = np.result_type(_real(a).dtype, _real(b).dtype)
    a, b = cast(a, joint), cast(b, joint)
    if b.rank == 1:
        b = op("expand_dims", axis=-1)(b)
    lead = broadcast(a.shape[:-2], b.shape[:-2])
    a, b = (op("broadcast_to", shape=(*lead, *x.shape[-2:]))(x) for x in (a, b))
    return a, b


def _answer(y: Any, b: Tensor) -> Any:
    return op("squeeze", axis=-1)(y) if b.rank == 1 else y


@_of_matrices("triangular_solve")
def triangular_solve(of: Any, a: Tensor, b: Tensor) -> Any:
    """Substitute row by row."""
    m, rhs = _as_columns(a, b)
    m = op("swapaxes", axis1=-1, axis2=-2)(m) if of.adjoint else m
    lower, n = of.lower != of.adjoint, a.shape[-1]
    at = op("expand_dims", axis=-1)(numbers(n))
    m = op("tril" if lower else "triu", k=-1 if lower else 1)(m) if of.unit_diagonal else (
        op("tril" if lower else "triu")(m)
    )  # fmt: skip

    def step(y: Any, i: Any) -> Any:
        row = _row(m, i)
        rest = _row(rhs, i) - row @ y  # what is not solved yet is 0
        found = rest if of.unit_diagonal else rest / _column(row, i)
        return op("where")(at == i, found, y), ()

    y, _ = scan(step, op("zeros_like")(rhs), numbers(n), reverse=not lower)
    return _answer(y, b)


@_of_matrices("unit_lower_inverse")
def unit_lower_inverse(of: Any, a: Tensor) -> Any:
    n = a.shape[-1]
    one = cast(numbers(n)[:, None] == numbers(n), a.dtype)
    return op("triangular_solve", unit_diagonal=True)(a, op("broadcast_to", shape=a.shape)(one))


def _eliminate(m: Any, n: Any, width: Any, *, both: bool) -> tuple[Any, Any]:
    """Eliminate n columns with the largest pivots, below them or on ``both`` sides.

    Returns the matrices, and per column the place of the pivot's row: i64[n, …].
    """
    rows = op("expand_dims", axis=-1)(numbers(width))

    def step(m: Any, i: Any) -> Any:
        column = _column(m, i)
        size = op("where")(rows >= i, abs(column), -1.0)
        best = op("expand_dims", axis=-1)(op("argmax", axis=-2)(size))
        pivot = op("take_along_axis", axis=-2)(
            m, op("broadcast_to", shape=(*m.shape[:-2], 1, m.shape[-1]))(best)
        )
        here = _row(m, i)
        swapped = op("where")(rows == i, pivot, op("where")(rows == best, here, m))
        top = pivot / _column(pivot, i) if both else pivot
        factor = _column(swapped, i) if both else _column(swapped, i) / _column(pivot, i)
        others = rows != i if both else rows > i
        cleared = swapped - op("where")(others, factor, 0.0) * top
        return op("where")(rows == i, top, cleared), op("squeeze", axis=(-1, -2))(best)

    return scan(step, m, numbers(n))


@_of_matrices("solve")
def solve(of: Any, a: Tensor, b: Tensor) -> Any:
    """Eliminate on both sides of the diagonal (Gauss and Jordan), right sides along with it."""
    m, rhs = _as_columns(a, b)
    n = a.shape[-1]
    both, _ = _eliminate(op("concat", axis=-1)(m, rhs), n, n, both=True)
    return _answer(both[..., n:], b)


@_of_matrices("inv")
def inv(of: Any, x: Tensor) -> Any:
    n = _real(x).shape[-1]
    one = cast(numbers(n)[:, None] == numbers(n), x.dtype)
    return op("solve")(x, op("broadcast_to", shape=x.shape)(one))


@spelled("slogdet")
def slogdet(of: Any, x: Tensor) -> Any:
    """Multiply the pivots' signs, and add their logarithms; a swapped row turns the sign."""
    n = _real(x).shape[-1]
    if n == 0:
        ones = op("full", shape=x.shape[:-2], fill_value=1, dtype=x.dtype)()
        return ones, op("zeros_like")(ones)
    u, best = _eliminate(x, n, n, both=False)
    pivots = op("diag")(u) if x.rank > 1 else u
    number = op("reshape", shape=(-1, *(1,) * (x.rank - 2)))(numbers(n))
    swaps = op("sum", axis=0)(cast(best != number, "int64"))
    turned = op("where")(
        op("mod")(swaps, 2) == 1, -1.0, op("ones_like")(op("sum", axis=-1)(pivots))
    )
    signs = turned * op("prod", axis=-1)(op("sign")(pivots))
    size = op("sum", axis=-1)(op("log")(abs(pivots)))
    return signs, op("where")(signs == 0.0, -np.inf, size)


@_of_matrices("cholesky")
def cholesky(of: Any, x: Tensor) -> Any:
    """Take a column at a time, and what it explains away from the rest."""
    n = _real(x).shape[-1]
    m = (x + op("swapaxes", axis1=-1, axis2=-2)(x)) * 0.5
    rows = op("expand_dims", axis=-1)(numbers(n))

    def step(m: Any, i: Any) -> Any:
        column = _column(m, i) / op("sqrt")(_column(_row(m, i), i))
        column = op("where")(rows >= i, column, 0.0)
        return m - column @ op("swapaxes", axis1=-1, axis2=-2)(column), column[..., 0]

    _, columns = scan(step, m, numbers(n))
    order = (*range(1, x.rank - 1), 0, x.rank - 1)
    upper = op("transpose", axes=order)(columns)
    return upper if of.upper else op("swapaxes", axis1=-1, axis2=-2)(upper)


@_of_matrices("matrix_exp")
def matrix_exp(of: Any, x: Tensor) -> Any:
    """Scale, sum Taylor's series of 18 terms, which float64 needs below 1, and square again."""
    n, wide = _real(x).shape[-1], cast(x, "float64")
    size = op("max", axis=(-2, -1), keepdims=True)(op("sum", axis=-2, keepdims=True)(abs(wide)))
    safe = op("where")(op("is_finite")(size) & (size > 1.0), size, 1.0)
    halvings = op("ceil")(op("log")(safe) * (1 / math.log(2)))
    small = wide * op("pow")(op("full_like", fill_value=0.5)(halvings), halvings)
    one = cast(numbers(n)[:, None] == numbers(n), "float64")
    y = op("broadcast_to", shape=x.shape)(one)
    for k in range(18, 0, -1):
        y = one + small @ y * (1 / k)
    most = op("max")(
        op("concat", axis=0)(halvings.reshape(-1), op("zeros_like")(one.reshape(-1)[:1]))
    )

    def step(y: Any, i: Any) -> Any:
        return op("where")(cast(i, "float64") < halvings, y @ y, y), ()

    y, _ = scan(step, y, numbers(cast(most, "int64")))
    return cast(y, x.dtype)


@spelled("lu")
def lu(of: Any, x: Tensor) -> Any:
    """Eliminate below the diagonal, and keep the factors there, and the order of the rows."""
    m, n = _real(x).shape[-2:]
    if isinstance(m, Dim) or isinstance(n, Dim) or 0 in x.shape:
        raise CannotExport
    k, lead = min(m, n), x.shape[:-2]
    rows, columns = op("expand_dims", axis=-1)(numbers(m)), numbers(n)
    start = op("broadcast_to", shape=(*lead, m, 1))(rows)

    def step(held: Any, i: Any) -> Any:
        packed, order = held
        size = op("where")(rows >= i, abs(_column(packed, i)), -1.0)
        best = op("expand_dims", axis=-1)(op("argmax", axis=-2)(size))

        def swapped(t: Any, width: Any) -> Any:
            wide = op("broadcast_to", shape=(*lead, 1, width))(best)
            pivot = op("take_along_axis", axis=-2)(t, wide)
            other = op("where")(rows == best, _row(t, i), t)
            return op("where")(rows == i, pivot, other)

        turned, order = swapped(packed, n), swapped(order, 1)
        top = _row(turned, i)
        factor = _column(turned, i) / _column(top, i)
        cleared = turned - factor * op("where")(columns > i, top, 0.0)
        cleared = op("where")(columns == i, factor, cleared)
        return (op("where")(rows > i, cleared, turned), order), ()

    (packed, order), _ = scan(step, (x, start), numbers(k))
    one = cast(op("expand_dims", axis=-1)(numbers(m)) == numbers(k), x.dtype)
    p = cast(rows == op("swapaxes", axis1=-1, axis2=-2)(order), x.dtype)
    return p, op("tril", k=-1)(packed[..., :k]) + one, op("triu")(packed[..., :k, :])


@spelled("qr")
def qr(of: Any, x: Tensor) -> Any:
    """Reflect column by column (Householder), with the signs of LAPACK."""
    m, n = _real(x).shape[-2:]
    if isinstance(m, Dim) or isinstance(n, Dim) or 0 in x.shape:
        raise CannotExport
    rows, turned = op("expand_dims", axis=-1)(numbers(m)), op("swapaxes", axis1=-1, axis2=-2)
    one = cast(rows == numbers(m), x.dtype)
    total = op("sum", axis=-2, keepdims=True)

    def step(held: Any, i: Any) -> Any:
        r, q = held
        column = op("where")(rows >= i, _column(r, i), 0.0)
        below = total(op("where")(rows > i, column * column, 0.0))
        here = total(op("where")(rows == i, column, 0.0))
        length = op("sqrt")(here * here + below)
        v = column + op("where")(rows == i, op("where")(here < 0.0, -length, length), 0.0)
        size = total(v * v)
        tau = op("where")(below == 0.0, 0.0, 2.0 / op("where")(size == 0.0, 1.0, size))
        return (r - tau * v @ (turned(v) @ r), q - tau * (q @ v) @ turned(v)), ()

    q0 = op("broadcast_to", shape=(*x.shape[:-2], m, m))(one)
    (r, q), _ = scan(step, (x, q0), numbers(min(m, n)))
    k = m if of.mode == "complete" else min(m, n)
    return q[..., :k], op("triu")(r[..., :k, :])


_FEW = 12
"""Rows up to which traces of powers in float64 keep the digits of float32."""


@spelled("adjugate")
def adjugate(of: Any, x: Tensor) -> Any:
    """Write a polynomial of small matrices (Faddeev, Leverrier), which may be singular."""
    n = _real(x).shape[-1]
    if not isinstance(n, int) or not 0 < n <= _FEW:
        raise CannotExport
    wide = cast(x, "float64")
    one = cast(numbers(n)[:, None] == numbers(n), "float64")
    power = op("broadcast_to", shape=x.shape)(one)
    for k in range(1, n):
        power = wide @ power
        trace = op("sum", axis=(-2, -1), keepdims=True)(power * one)
        power = power - one * (trace / k)
    return cast(power if n % 2 else -power, x.dtype)
