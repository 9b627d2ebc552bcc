"""Elementwise ops and reductions at kinks, ties, zeros and extremes, where samples cannot tell."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gradwright as gw
from gradwright.errors import DTypeError, GraphError, ShapeError


def run(*ys, **feeds):
    with gw.Session(ys[0].graph) as session, np.errstate(all="ignore"):
        found = session.run(list(ys), feeds)
    return found[0] if len(found) == 1 else found


def slopes(f, *arrays, order=1):
    """Return d(sum f)/dx for each array, of the given order, as lists."""
    g = gw.Graph()
    xs = [g.placeholder(f"x{i}", np.shape(a), "float64") for i, a in enumerate(arrays)]
    found = [f(*xs)]
    for _ in range(order):
        found = gw.gradients(found, xs, unreachable="zero")
    out = run(*found, **{f"x{i}": a for i, a in enumerate(arrays)})
    return out.tolist() if len(arrays) == 1 else [a.tolist() for a in out]


# -- broadcasting ----------------------------------------------------------------------------------

BINARY = {
    gw.add: np.add, gw.sub: np.subtract, gw.mul: np.multiply, gw.div: np.true_divide,
    gw.floor_div: np.floor_divide, gw.mod: np.remainder, gw.maximum: np.maximum,
    gw.minimum: np.minimum, gw.less: np.less, gw.equal: np.equal,
    gw.squared_difference: lambda a, b: (a - b) ** 2,
}  # fmt: skip
shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@given(st.sampled_from(list(BINARY)), shapes, shapes, st.booleans())
@settings(max_examples=150)
def test_binary_ops_broadcast_as_numpys_do(ours, left, right, symbolic):
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0.5, 2.0, left), rng.uniform(0.5, 2.0, right)
    g = gw.Graph()
    x, y = (
        g.placeholder(n, [d if d == 1 or not symbolic else f"N{d}" for d in s], "float64")
        for n, s in (("a", left), ("b", right))
    )
    try:
        expected = BINARY[ours](a, b)
    except ValueError:
        with pytest.raises(ShapeError, match=r"do not broadcast|has size"):
            run(ours(x, y), a=a, b=b)
        return
    z = ours(x, y)
    assert np.array_equal(run(z, a=a, b=b), expected)
    if z.dtype == np.float64:  # the gradient of a broadcast has the shape of what was broadcast
        da, db = run(*gw.gradients(z, [x, y]), a=a, b=b)
        assert da.shape == left and db.shape == right


# -- kinks, ties, zeros ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "at", "expected"),
    [
        (gw.abs, [-2.0, 0.0, 3.0], [-1.0, 0.0, 1.0]),
        (gw.sqrt, [0.0, 4.0], [math.inf, 0.25]),
        (gw.floor, [0.5, 1.0], [0.0, 0.0]),
        (gw.round, [0.5, 1.5], [0.0, 0.0]),
        (gw.sign, [-1.0, 0.0], [0.0, 0.0]),
        (lambda x: gw.clip(x, -1.0, 1.0), [-1.0, 1.0, 2.0, 0.0], [1.0, 1.0, 0.0, 1.0]),
        (lambda x: gw.clip(x, 1.0, -1.0), [0.0], [0.0]),
        (lambda x: gw.maximum(x, 0.0), [-1.0, 0.0, 1.0], [0.0, 0.5, 1.0]),
        (lambda x: gw.minimum(x, 0.0), [-1.0, 0.0, 1.0], [1.0, 0.5, 0.0]),
        (lambda x: x.max(), [3.0, 1.0, 3.0], [0.5, 0.0, 0.5]),
        (lambda x: x.min(), [3.0, 1.0, 1.0, 1.0], [0.0, 1 / 3, 1 / 3, 1 / 3]),
        (lambda x: x.std(), [2.0, 2.0], [0.0, 0.0]),
        (lambda x: x.norm(), [0.0, 0.0], [0.0, 0.0]),
        (lambda x: x.norm(ord=3.0), [0.0, 0.0], [0.0, 0.0]),
        (lambda x: x.norm(ord=1.0), [0.0, -2.0], [0.0, -1.0]),
        (lambda x: x.norm(ord=math.inf), [1.0, -2.0, 2.0], [0.0, -0.5, 0.5]),
        (gw.logsumexp, [-math.inf, 0.0], [0.0, 1.0]),
        (gw.logsumexp, [-math.inf, -math.inf], [0.0, 0.0]),
        (lambda x: gw.stop_gradient(x) * x, [3.0], [3.0]),
    ],
)
def test_slopes_at_kinks(f, at, expected):
    assert slopes(f, at) == pytest.approx(expected)


@pytest.mark.parametrize("p", [0, 1, 2, 3, -1, -2, 0.5, 2.5])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_slopes_of_constant_powers(p, order):
    at = [0.5, 2.0] if p != int(p) else [-2.0, 0.5] if p < 0 else [-2.0, 0.0, 0.5]
    factor = math.prod(p - k for k in range(order))
    expected = [factor * x ** (p - order) if factor else 0.0 for x in at]
    assert slopes(lambda x: x**p, at, order=order) == pytest.approx(expected)
    with_tensor = slopes(lambda x: x ** (gw.ones_like(x) * p), at, order=order)
    assert with_tensor == pytest.approx(expected)


def test_slopes_of_powers_where_they_are_flat():
    base, exponent = slopes(lambda a, b: a**b, [0.0, 0.0, -2.0, 0.0], [2.0, 0.0, 2.0, 1.0])
    assert base == [0.0, 0.0, -4.0, 1.0]
    assert exponent[:2] == [0.0, 0.0] and math.isnan(exponent[2]) and exponent[3] == 0.0


@pytest.mark.parametrize("zeros", [(), (1,), (0, 2), (0, 1, 3)])
def test_slopes_of_products_with_zeros(zeros):
    x = np.array([2.0, -3.0, 0.5, 4.0, 1.5])
    x[list(zeros)] = 0.0
    n = len(x)
    rest = [[math.prod(np.delete(x, sorted({i, j}))) for j in range(n)] for i in range(n)]
    assert slopes(lambda t: t.prod(), x) == pytest.approx([rest[i][i] for i in range(n)])
    second = [sum(rest[i][j] for j in range(n) if j != i) for i in range(n)]
    assert slopes(lambda t: t.prod(), x, order=2) == pytest.approx(second)


# -- values ----------------------------------------------------------------------------------------


def ulps(y, exact):
    return abs(float(y) - exact) / math.ulp(exact) if exact else float(y != 0)


def test_erf_is_right_to_the_last_bits():
    x = np.concatenate([np.linspace(-6, 6, 2001), [1e-300, 1e-8, 27.0, -27.0]])
    g = gw.Graph()
    t = g.placeholder("x", x.shape, "float64")
    y, z = run(gw.erf(t), gw.erfc(t), x=x)
    assert max(ulps(a, math.erf(v)) for a, v in zip(y, x, strict=True)) <= 3
    near = [abs(b / math.erfc(v) - 1) for b, v in zip(z, x, strict=True) if v < 26]
    assert max(near) < 1e-13  # grows as x² times the error of exp
    special = np.array([np.inf, -np.inf, np.nan, -0.0])
    t = g.placeholder("s", (4,), "float64")
    found = run(gw.erf(t), s=special)
    assert found[:2].tolist() == [1.0, -1.0] and np.isnan(found[2]) and np.signbit(found[3])


def test_logsumexp_at_extremes():
    g = gw.Graph()
    rows = [[1000.0, 1000.0], [-np.inf, -np.inf], [np.inf, 0.0], [-1e308, -1e308]]
    y = gw.logsumexp(g.constant(rows, dtype="float64"), axis=1)
    assert run(y).tolist() == [1000.0 + math.log(2), -math.inf, math.inf, -1e308]


def test_remainders_have_the_sign_of_the_divisor():
    a, b = np.array([7, -7, 7, -7]), np.array([3, 3, -3, -3])
    g = gw.Graph()
    x, y = g.constant(a), g.constant(b)
    assert run(x // y).tolist() == [7 // 3, -7 // 3, 7 // -3, -7 // -3]
    assert run(x % y).tolist() == [7 % 3, -7 % 3, 7 % -3, -7 % -3]
    assert run(7.5 % g.constant(-2.0)) == 7.5 % -2.0


def test_nothing_reduces_to_the_neutral_element():
    g = gw.Graph()
    x = g.constant(np.zeros((2, 0)))
    assert run(x.sum(1)).tolist() == [0.0, 0.0] and run(x.prod(1)).tolist() == [1.0, 1.0]
    assert np.isnan(run(x.mean())) and run(gw.logsumexp(x)) == -math.inf
    assert run((x > 0).all()) and not run((x > 0).any()) and run((x > 0).count_nonzero()) == 0
    for empty in (gw.max, gw.argmin):
        with pytest.raises(ShapeError, match="of no elements"):
            empty(x, axis=1)


@pytest.mark.parametrize(
    ("given", "total", "mean"),
    [
        ("bool", "int64", "float32"),
        ("int8", "int64", "float32"),
        ("uint16", "uint64", "float32"),
        ("bfloat16", "bfloat16", "bfloat16"),
        ("float64", "float64", "float64"),
        ("complex64", "complex64", "complex64"),
    ],
)
def test_dtypes_of_reductions(given, total, mean):
    g = gw.Graph()
    x = g.placeholder("x", (300,), given)
    ys = x.sum(), x.prod(), x.cumsum(0), x.mean()
    assert [gw.TensorSpec((), y.dtype) for y in ys] == [
        gw.TensorSpec((), d) for d in (total, total, total, mean)
    ]
    ones = np.ones(300, x.dtype)
    found = run(*ys, x=ones)
    assert [complex(found[0]), complex(found[1]), complex(found[3])] == [300, 1, 1]
    assert [a.dtype for a in found] == [y.dtype for y in ys]


def test_halves_accumulate_in_float32():
    g = gw.Graph()
    x = g.placeholder("x", (4096,), "bfloat16")
    ones = np.ones(4096, x.dtype)
    (dx,) = gw.gradients(x.mean(), [x])
    total, running, slope = run(x.sum(), x.cumsum(0), dx, x=ones)
    assert float(total) == 4096.0 and float(running[-1]) == 4096.0  # bf16 alone stops at 256
    assert float(slope[0]) == 1 / 4096


def test_running_sums():
    g = gw.Graph()
    x = g.constant([1, 2, 3, 4])
    for reverse, exclusive in itertools.product((False, True), repeat=2):
        expected = [
            sum(([4, 3, 2, 1] if reverse else [1, 2, 3, 4])[: i + (not exclusive)])
            for i in range(4)
        ]
        y = gw.cumsum(x, 0, reverse=reverse, exclusive=exclusive)
        assert run(y).tolist() == (expected[::-1] if reverse else expected)


# -- numbers and refusals --------------------------------------------------------------------------


def test_comparisons_and_logic_build_masks():
    g = gw.Graph()
    x = g.placeholder("x", (4,))
    inside = (x > -1.0) & (x <= 1.0) | ~(x == x)
    assert run(inside, x=[-1.0, 0.0, 1.0, np.nan]).tolist() == [False, True, True, True]
    assert run((x != 0) ^ (x < 0), x=[-1.0, 0.0, 1.0, np.nan]).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda x, n, c, b: x & b, DTypeError, "logical_and does not take float32"),
        (lambda x, n, c, b: c < c, DTypeError, "less does not take complex64"),
        (lambda x, n, c, b: b - b, DTypeError, "sub does not take bool"),
        (lambda x, n, c, b: gw.exp(n), DTypeError, "exp does not take int64"),
        (lambda x, n, c, b: gw.where(x, x, x), DTypeError, "the condition is not bool"),
        (lambda x, n, c, b: gw.real(x), DTypeError, "real needs a complex tensor"),
        (lambda x, n, c, b: x.norm(ord=float("nan")), GraphError, "is no order"),
        (lambda x, n, c, b: x.any(), DTypeError, "any does not take float32"),
        (lambda x, n, c, b: x + np.ones((2, 2)), ShapeError, "do not broadcast"),
    ],
)
def test_what_ops_do_not_take(build, error, message):
    g = gw.Graph()
    kinds = [("x", "float32"), ("n", "int64"), ("c", "complex64"), ("b", "bool")]
    tensors = [g.placeholder(name, (3,), dtype) for name, dtype in kinds]
    with pytest.raises(error, match=message):
        build(*tensors)


def test_only_wanted_cotangents_are_built():
    g = gw.Graph()
    x, w = g.placeholder("x", (2, 3)), g.variable("w", (3, 2))
    gw.gradients((x @ w) ** 2, [w])
    ops = [n.op.name for n in g.derived]
    assert ops.count("matmul") == 1 and "log" not in ops


numbers = st.floats(-1e3, 1e3).filter(lambda v: abs(v) > 1e-3)


@given(numbers, numbers)
def test_complex_parts_are_put_together_again(a, b):
    g = gw.Graph()
    z = gw.complex(g.constant(a, dtype="float64"), g.constant(b, dtype="float64"))
    parts = run(gw.real(z), gw.imag(z), gw.abs(z), gw.real(z * gw.conj(z)))
    assert parts == pytest.approx([a, b, math.hypot(a, b), a * a + b * b])


def test_slopes_of_complex_functions_are_torchs(torch, rng):
    a = rng.standard_normal(5) + 1j * rng.standard_normal(5)
    pairs = [
        (gw.abs, torch.abs), (gw.sign, torch.sgn), (gw.exp, torch.exp), (gw.log, torch.log),
        (gw.sqrt, torch.sqrt), (gw.sin, torch.sin), (gw.arctan, torch.arctan),
        (gw.reciprocal, torch.reciprocal), (lambda x: x**3, lambda x: x**3), (gw.real, torch.real),
        (gw.imag, torch.imag), (gw.square, torch.square), (gw.rsqrt, torch.rsqrt),
    ]  # fmt: skip
    for ours, theirs in pairs:
        g = gw.Graph()
        x = g.placeholder("x", (5,), "complex128")
        y = ours(x)
        seed = rng.standard_normal(5).astype(y.dtype) * (1 + 0.5j if y.dtype.kind == "c" else 1)
        (dx,) = gw.gradients(y, [x], g.constant(seed))
        t = torch.tensor(a, requires_grad=True)
        out = theirs(t)
        out.backward(torch.tensor(seed))
        assert np.allclose(run(y, x=a), out.detach().numpy())
        assert np.allclose(run(dx, x=a), t.grad.numpy()), ours


def test_shifts_of_the_widest_integers_keep_all_bits() -> None:
    """No number goes through floats, whose 53 bits would not hold it."""
    top = int(np.iinfo(np.uint64).max)
    g = gw.Graph()
    x = g.placeholder("x", (2,), "uint64")
    right, left = gw.bitwise.right_shift(x, 1), gw.bitwise.left_shift(x, 1)
    found = gw.Session(g).run([right, left], {"x": np.array([top, top - 1], np.uint64)})
    assert found[0].tolist() == [top >> 1, (top - 1) >> 1]
    assert found[1].tolist() == [top - 1, top - 3]
