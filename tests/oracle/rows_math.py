"""Elementwise ops and matrix products beside PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradwright as gw
from tests.oracle.rows import (
    Case,
    Row,
    binary,
    bools,
    complexes,
    integers,
    ints,
    normal,
    unary,
    uniform,
)

ODD = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 5e-324, 1.0])
HALVES = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])
TIES = (np.array([1.0, 2.0, -1.0]), np.array([1.0, 3.0, -1.0]))
LOGIC: list[Case] = [
    (bools(3, 1), bools(4)),
    (bools(), bools(0, 2)),
    (bools(2, 1, 2, 1, 2), bools(2)),
]
COMPLEX = [complexes(3, 4), complexes(), complexes(0, 2)]
C2: Case = (complexes(3, 1), complexes(4))


def compared(name: str) -> Row:
    """Return the row of a comparison: on floats, ties, NaN, and ints of two kinds."""
    mixed = (ints(-3, 3, 2, 3, dtype="int32"), ints(-3, 3, 3, dtype="int8"))
    return Row(name, binary(-1, 1, TIES, (ODD, ODD[::-1].copy()), mixed, *integers(2)))


ROWS: dict[str, Row] = {
    "add": Row("add", binary(-2, 2, C2, *integers(2))),
    "sub": Row("sub", binary(-2, 2, C2, *integers(2))),
    "mul": Row("mul", binary(-2, 2, C2, (normal(3), ints(-3, 3, 2, 1)), *integers(2))),
    "div": Row("div", binary(0.5, 2, C2, (ints(1, 9, 4), ints(1, 9, 4)))),
    "floor_div": Row(
        lambda t, a, b: t.floor_divide(a.detach(), b.detach()),
        binary(0.5, 2, *integers(2, 1), (ints(-9, 9, 8), ints(-3, 0, 8)), (normal(9), normal(9))),
    ),
    "mod": Row("remainder", binary(0.5, 2, *integers(2, 1), (normal(9), normal(9)))),
    "pow": Row(
        "pow",
        binary(0.5, 2, (np.array([-1.5, 0.0, 2.0]), np.array([3.0, 2.0, -1.0])), *integers(2, 0)),
    ),
    "pow, by a number": Row(
        lambda t, x, p: x**p,
        [(uniform(-2, 2, 3, 4), {"p": p}) for p in (0, 1, 2, 3, -1, -2.0)]
        + [(np.array([0.0, 1.0, 2.5]), {"p": p}) for p in (0, 1, 2, 3, 2.5)],
        lambda x, p: x**p,
    ),
    "squared_difference": Row(lambda t, a, b: (a - b) ** 2, binary(-2, 2, *integers(2))),
    "neg": Row("neg", unary(-2, 2, *COMPLEX, ints(-4, 4, 3))),
    "abs": Row("abs", unary(-2, 2, ODD[1:], *COMPLEX, ints(-4, 4, 3, dtype="int8"))),
    "sign": Row("sgn", unary(-2, 2, ODD[1:], *COMPLEX, ints(-4, 4, 3))),
    "exp": Row("exp", unary(-2, 2, *COMPLEX)),
    "expm1": Row("expm1", unary(-2, 2, np.array([1e-12, -1e-300]))),
    "log": Row("log", unary(0.2, 3, *COMPLEX)),
    "log1p": Row("log1p", unary(-0.5, 2, np.array([1e-12, -1e-300]))),
    "log2": Row("log2", unary(0.2, 3)),
    "log10": Row("log10", unary(0.2, 3)),
    "sqrt": Row("sqrt", unary(0.2, 3, *COMPLEX)),
    "rsqrt": Row("rsqrt", unary(0.2, 3)),
    "square": Row("square", unary(-2, 2, *COMPLEX, ints(-4, 4, 3))),
    "reciprocal": Row("reciprocal", unary(0.5, 2, *COMPLEX)),
    "sin": Row("sin", unary(-9, 9, *COMPLEX)),
    "cos": Row("cos", unary(-9, 9, *COMPLEX)),
    "tan": Row("tan", unary(-1.2, 1.2, *COMPLEX)),
    "arcsin": Row("arcsin", unary(-0.9, 0.9)),
    "arccos": Row("arccos", unary(-0.9, 0.9)),
    "arctan": Row("arctan", unary(-5, 5)),
    "sinh": Row("sinh", unary(-3, 3, *COMPLEX)),
    "cosh": Row("cosh", unary(-3, 3, *COMPLEX)),
    "tanh": Row("tanh", unary(-5, 5, *COMPLEX)),
    "arcsinh": Row("arcsinh", unary(-5, 5)),
    "arccosh": Row("arccosh", unary(1.2, 5)),
    "arctanh": Row("arctanh", unary(-0.9, 0.9)),
    "arctan2": Row("arctan2", binary(-2, 2)),
    "erf": Row("erf", unary(-4, 4)),
    "erfc": Row("erfc", unary(-4, 4, np.array([6.0, 20.0, -9.0]))),
    "floor": Row("floor", unary(-3, 3, HALVES)),
    "ceil": Row("ceil", unary(-3, 3, HALVES)),
    "round": Row("round", unary(-3, 3, HALVES)),
    "maximum": Row("maximum", binary(-2, 2, TIES, *integers(2))),
    "minimum": Row("minimum", binary(-2, 2, TIES, *integers(2))),
    "add_n": Row(
        lambda t, *xs: sum(xs[1:], xs[0]),
        [(normal(2, 3),), (normal(2, 3), normal(3), normal(2, 1)), *integers(3)],
    ),
    "where": Row(
        "where",
        [
            (bools(2, 3), normal(2, 3), normal(3)),
            (bools(2, 1), normal(), normal(2, 1, 3)),
            (bools(0), normal(1), normal()),
            (bools(4), ints(0, 5, 4), ints(0, 5, 2, 1)),
        ],
    ),
    "clip": Row(
        "clip",
        [
            (uniform(-2, 2, 3, 4), np.array(-1.0), np.array(0.5)),
            (np.array([-1.0, 0.5, 0.0, 2.0]), np.array(-1.0), np.array(0.5)),
            (uniform(-2, 2, 3, 4), normal(4), normal(3, 1)),
            (uniform(-2, 2, 3, 4), np.array(1.0), np.array(-1.0)),
            (ints(-9, 9, 5), np.array(-2), np.array(3)),
        ],
    ),
    "clip, one side": Row(
        lambda t, x, low: x.clip(max=low),
        [(uniform(-2, 2, 3, 4), normal(4)), (normal(0, 2), normal())],
        lambda x, high: gw.clip(x, max=high),
    ),
    "less": compared("less"),
    "less_equal": compared("less_equal"),
    "greater": compared("greater"),
    "greater_equal": compared("greater_equal"),
    "equal": compared("eq"),
    "not_equal": compared("not_equal"),
    "equal, complex": Row("eq", [C2, (COMPLEX[0], COMPLEX[0])]),
    "logical_and": Row("logical_and", LOGIC),
    "logical_or": Row("logical_or", LOGIC),
    "logical_xor": Row("logical_xor", LOGIC),
    "logical_not": Row("logical_not", [(bools(3, 4),), (bools(),), (bools(0, 2),)]),
    "is_nan": Row("isnan", unary(-1, 1, ODD)),
    "is_inf": Row("isinf", unary(-1, 1, ODD)),
    "is_finite": Row("isfinite", unary(-1, 1, ODD)),
    "conj": Row(lambda t, x: x.conj().resolve_conj(), [(x,) for x in COMPLEX]),
    "real": Row("real", [(x,) for x in COMPLEX]),
    "imag": Row("imag", [(x,) for x in COMPLEX]),
    "complex": Row(
        lambda t, a, b: t.complex(*(x.contiguous() for x in t.broadcast_tensors(a, b))),
        [(normal(3, 4), normal(3, 4)), (normal(3, 1), normal(4)), (normal(), normal(0, 2))],
    ),
    "matmul": Row(
        "matmul",
        [
            (normal(*a), normal(*b))
            for a, b in (
                ((2, 3), (3, 4)),
                ((2, 2, 3), (3, 4)),
                ((2, 1, 2, 3), (2, 3, 2)),
                ((2, 1, 1, 2, 3), (4, 3, 3, 2)),
                ((3,), (3,)),
                ((2, 3), (3,)),
                ((3,), (2, 3, 2)),
                ((2, 2, 3), (3,)),
                ((2, 0), (0, 3)),
                ((0, 2, 3), (3, 4)),
            )
        ]
        + [(complexes(2, 3), complexes(3, 2)), (ints(-9, 9, 2, 3), ints(-9, 9, 3, 2))],
    ),
    "dot": Row(
        lambda t, a, b: (
            t.tensordot(a, b, ([-1], [max(b.ndim - 2, 0)])) if a.ndim and b.ndim else a * b
        ),
        [(normal(3), normal(3)), (normal(2, 3), normal(3)), (normal(2, 3), normal(4, 3, 2))],
    ),
    "outer": Row("outer", [(normal(3), normal(4)), (normal(0), normal(2))]),
    "tensordot": Row(
        lambda t, a, b, axes: t.tensordot(a, b, dims=axes),
        [
            (normal(2, 3, 4), normal(3, 4, 5), {"axes": 2}),
            (normal(2, 3), normal(4), {"axes": 0}),
            (normal(2, 3, 4), normal(4, 3), {"axes": ((1, 2), (1, 0))}),
            (normal(2, 3, 4), normal(5, 3), {"axes": ((-2,), (1,))}),
        ],
    ),
    "einsum": Row(
        lambda t, *xs, equation: t.einsum(equation, *xs),
        [
            (normal(2, 3), normal(3, 4), {"equation": "ij,jk"}),
            (normal(2, 3, 4), normal(2, 4, 5), {"equation": "bij,bjk->bik"}),
            (normal(3, 3), {"equation": "ii->i"}),
            (normal(3, 3), {"equation": "ii"}),
            (normal(2, 3, 4), {"equation": "abc->ca"}),
            (normal(2, 1, 3), normal(4, 3), {"equation": "...i,...i->..."}),
            (normal(2), normal(3), normal(2, 3), {"equation": "i,j,ij->"}),
            (normal(0, 3), normal(3, 2), {"equation": "ij,jk->ik"}),
            (complexes(2, 3), complexes(3, 2), {"equation": "ij,jk->ki"}),
        ],
        lambda *xs, equation: gw.einsum(equation, *xs),
    ),
}


def _vector_norm(t: Any, x: Any, axis: Any = None, keepdims: bool = False, ord: float = 2.0) -> Any:
    return t.linalg.vector_norm(x, ord, axis, keepdims)


ROWS["norm"] = Row(
    _vector_norm,
    [
        (normal(3, 4), {}),
        (normal(2, 3, 4), {"axis": (0, -1)}),
        (normal(2, 3), {"axis": 1, "keepdims": True}),
        (np.zeros((2, 3)), {"axis": 1}),
        (normal(3, 0, 2), {"axis": 0}),
        *((normal(2, 3), {"axis": -1, "ord": p}) for p in (1.0, 3.0, 1.5, np.inf)),
    ],
)
