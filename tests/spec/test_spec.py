"""Dimensions, promotion and broadcasting, each against what numbers, torch and numpy say."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradwright as gw
from gradwright.errors import DTypeError, ShapeError
from gradwright.spec import (
    Dim,
    TensorSpec,
    broadcast,
    differ,
    dtype,
    dtype_name,
    is_floating,
    kind,
    promote,
)

# -- dimensions ------------------------------------------------------------------------------------

SYMBOLS = ("A", "B", "C")


def trees() -> st.SearchStrategy[tuple]:
    """Return expressions as nested tuples: a symbol, an int, or an operator with its operands."""
    leaves = st.sampled_from(SYMBOLS) | st.integers(-6, 6)
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(st.sampled_from("+-*"), inner, inner),
            st.tuples(st.sampled_from(("//", "%")), inner, st.integers(1, 5)),
        ),
        max_leaves=8,
    )


def evaluate(tree, values):
    match tree:
        case str():
            return values[tree]
        case int():
            return tree
        case ("+", a, b):
            return evaluate(a, values) + evaluate(b, values)
        case ("-", a, b):
            return evaluate(a, values) - evaluate(b, values)
        case ("*", a, b):
            return evaluate(a, values) * evaluate(b, values)
        case ("//", a, n):
            return evaluate(a, values) // n
        case ("%", a, n):
            return evaluate(a, values) % n


SYMBOLIC = {s: Dim.symbol(s) for s in SYMBOLS}
sizes = st.fixed_dictionaries({s: st.integers(0, 9) for s in SYMBOLS})


@given(trees(), sizes)
def test_substituting_is_evaluating(tree, sizes):
    found = evaluate(tree, SYMBOLIC)
    assert (found.substitute(sizes) if isinstance(found, Dim) else found) == evaluate(tree, sizes)


@given(trees(), sizes)
def test_substituting_in_parts_is_substituting_at_once(tree, sizes):
    found = evaluate(tree, SYMBOLIC)
    for symbol in SYMBOLS:
        if isinstance(found, Dim):
            found = found.substitute({symbol: sizes[symbol]})
    assert found == evaluate(tree, sizes) and not isinstance(found, Dim)


@given(trees())
def test_a_printed_dimension_reads_back(tree):
    found = evaluate(tree, SYMBOLIC)
    assert Dim.parse(str(found)) == found


@given(trees(), trees(), trees())
def test_ring_laws_hold_by_equality_and_hash(a, b, c):
    x, y, z = (evaluate(t, SYMBOLIC) for t in (a, b, c))
    for left, right in ((x + y, y + x), (x * y, y * x), (x * (y + z), x * y + x * z), (x - x, 0)):
        assert left == right and hash(left) == hash(right)


@given(trees(), st.sampled_from(SYMBOLS), st.integers(1, 4))
def test_exact_quotients_are_found(tree, symbol, n):
    x, unit = evaluate(tree, SYMBOLIC), SYMBOLIC[symbol] * n
    assert (x * unit) // unit == x if isinstance(x * unit, Dim) else x * unit == 0


def test_dimensions_cannot_be_taken_for_numbers():
    b = Dim.symbol("B")
    with pytest.raises(ShapeError, match="the dimension 2\\*B has no value yet"):
        int(b * 2)
    with pytest.raises(ShapeError, match="cannot divide the dimension B by 0"):
        b // 0
    with pytest.raises(ShapeError, match="cannot divide the dimension B by T"):
        b // Dim.symbol("T")
    assert b != "B" and b != 1 and bool(b)


@pytest.mark.parametrize("text", ["B +", "B.real", "f(B)", "B**2", "'B'", "1.5", "(" * 500])
def test_what_is_no_dimension_is_refused(text):
    with pytest.raises(ShapeError, match="is not a dimension"):
        Dim.parse(text)


def test_fresh_dimensions_are_unlike_all_others():
    a, b = Dim.fresh("n"), Dim.fresh("n")
    assert a != b and Dim.parse(str(a)) == a and not differ(a, b)


# -- promotion -------------------------------------------------------------------------------------

TORCH = [
    *("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32"),
    *("float64", "complex64", "complex128"),
]


def test_promotion_is_torchs(torch):
    for a, b in itertools.product(TORCH, TORCH):
        expected = str(torch.promote_types(getattr(torch, a), getattr(torch, b)))
        assert dtype_name(promote(dtype(a), dtype(b))) == expected.removeprefix("torch."), (a, b)


def test_promotion_of_ints_is_numpys():
    ints = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    for a, b in itertools.product(ints, ints):
        expected = np.result_type(a, b)
        if expected.kind == "f":  # uint64 and a signed one
            with pytest.raises(DTypeError, match="have no common dtype"):
                promote(dtype(a), dtype(b))
        else:
            assert promote(dtype(a), dtype(b)) == expected, (a, b)


def test_float8_meets_only_itself_and_what_is_no_float():
    f8 = dtype("float8_e4m3fn")
    assert promote(f8, f8) == promote(f8, dtype("int64")) == promote(dtype("bool"), f8) == f8
    for other in ("float8_e5m2", "float16", "float64"):
        with pytest.raises(DTypeError, match=r"have no common dtype[\s\S]*gw.cast"):
            promote(f8, dtype(other))


def test_narrow_ints_meet_only_themselves_and_what_is_no_int():
    i4 = dtype("int4")
    assert promote(i4, i4) == promote(dtype("bool"), i4) == i4
    assert promote(i4, dtype("float16")) == dtype("float16")
    for other in ("uint4", "int2", "int8", "uint64"):
        with pytest.raises(DTypeError, match=r"have no common dtype[\s\S]*gw.cast"):
            promote(i4, dtype(other))


def test_narrow_dtypes_have_kinds_and_short_names():
    shorts = {
        "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2", "float8_e4m3fnuz": "f8e4m3fnuz",
        "float8_e5m2fnuz": "f8e5m2fnuz", "float8_e8m0fnu": "f8e8m0", "float6_e2m3fn": "f6e2m3",
        "float6_e3m2fn": "f6e3m2", "float4_e2m1fn": "f4e2m1", "int4": "i4", "uint2": "u2",
    }  # fmt: skip
    for name, short in shorts.items():
        assert str(TensorSpec((2,), name)) == f"{short}[2]" and kind(dtype(name)) == short[0]
    assert not is_floating(dtype("float8_e8m0fnu")) and is_floating(dtype("float4_e2m1fn"))


def test_unknown_dtypes_are_refused():
    for bad in ("float128", "object", "datetime64[s]", object, "no such"):
        with pytest.raises(DTypeError, match="is not a dtype of gradwright"):
            dtype(bad)


# -- broadcasting and specs ------------------------------------------------------------------------

shapes = st.lists(st.integers(0, 3), max_size=4).map(tuple)


@given(st.lists(shapes, min_size=1, max_size=4))
def test_broadcasting_is_numpys(found):
    try:
        expected = np.broadcast_shapes(*found)
    except ValueError:
        with pytest.raises(ShapeError, match="do not broadcast"):
            broadcast(*found)
    else:
        assert broadcast(*found) == expected


@given(st.lists(shapes, min_size=1, max_size=3))
def test_symbolic_broadcasting_agrees_where_numpys_works(found):
    try:
        expected = np.broadcast_shapes(*found)
    except ValueError:
        return
    symbolic = [[d if d == 1 else Dim.symbol(f"N{d}") for d in s] for s in found]
    out = broadcast(*map(tuple, symbolic))
    sizes = {f"N{d}": d for d in range(4)}
    assert TensorSpec(out).substitute(sizes).shape == expected


def test_specs_print_and_compare():
    b = Dim.symbol("B")
    assert str(TensorSpec((b, 2 * b + 1), "bfloat16")) == "bf16[B, 2*B + 1]"
    assert str(TensorSpec((), "bool")) == "bool[]"
    assert TensorSpec((b,)) == TensorSpec((b,)) != TensorSpec((b,), "float64")
    assert TensorSpec((2, 3), "int16").nbytes == 12 and not TensorSpec((b,)).is_concrete


def test_a_dimension_of_one_symbol_tells_its_size() -> None:
    b, t = Dim.symbol("B"), Dim.symbol("T")
    assert b.solve(3) == {"B": 3} and (b * 2 + 1).solve(7) == {"B": 3}
    assert (b * 2).solve(3) == {} and (b + 5).solve(3) == {}
    assert (b * t).solve(6) == (b + t).solve(6) == (b // 2).solve(3) == {}


def test_a_fed_activation_tells_the_sizes_it_is_made_of() -> None:
    g = gw.Graph()
    x = g.placeholder("x", ("B", 3))
    twice = gw.concat([x, x], axis=0)
    y = twice.reshape(x.shape[0], 6)
    assert gw.Session(g).run(y, {twice: np.ones((4, 3))}).shape == (2, 6)
