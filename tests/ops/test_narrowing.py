"""Casts to halves and float8 round once, from every dtype, in kernels and on numpy."""

from __future__ import annotations

import ctypes
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm import compiler, helpers

Array = np.ndarray[Any, Any]
NARROW = {
    "float16": np.dtype(np.float16),
    **{
        name: np.dtype(getattr(ml_dtypes, name))
        for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")
    },
}


def finite(dtype: np.dtype[Any]) -> Array:
    """Return all finite numbers of a narrow dtype, ascending, as doubles."""
    bits = np.arange(1 << 8 * dtype.itemsize).astype(f"u{dtype.itemsize}")
    with np.errstate(invalid="ignore"):
        values = bits.view(dtype).astype("f8")
    return np.unique(values[np.isfinite(values)])


def hard(dtype: np.dtype[Any]) -> Array:
    """Return numbers of a dtype, points half-way between them, and doubles right beside those."""
    values = finite(dtype)
    middles = (values[1:] + values[:-1]) / 2
    beside = [np.nextafter(middles, end) for end in (np.inf, -np.inf)]
    return np.concatenate([values, middles, *beside, [5e-324, -5e-324]])


def nearest(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return the numbers of a dtype nearest to x, of two the one whose last bit is 0."""
    values = finite(dtype)
    at = np.clip(np.searchsorted(values, x), 1, len(values) - 1)
    low, high = values[at - 1], values[at]
    middle = (low + high) / 2
    is_even = low.astype(dtype).view(f"u{dtype.itemsize}") & 1 == 0
    return np.where((x < middle) | ((x == middle) & is_even), low, high)


def converted(x: Array, name: str, kernels: str) -> Array:
    graph = gw.Graph()
    given = graph.placeholder("x", (None,), dtype=x.dtype)
    with gw.Session(graph, kernels=kernels) as session:
        return np.asarray(session.run(gw.cast(given, name), {"x": x}))


@pytest.mark.parametrize("kernels", ["off", "wait"])
@pytest.mark.parametrize("name", NARROW)
def test_doubles_round_once(name: str, kernels: str) -> None:
    dtype = NARROW[name]
    x = hard(dtype)
    found = converted(x, name, kernels).astype("f8")
    np.testing.assert_array_equal(found, nearest(x, dtype))
    assert np.array_equal(np.signbit(found), np.signbit(x))


@pytest.mark.parametrize("kernels", ["off", "wait"])
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_what_is_too_large_or_no_number(name: str, kernels: str) -> None:
    top = float(finite(NARROW[name])[-1])
    beyond = 65520.0 if name == "float16" else 2.0**127 * (2 - 2.0**-8)
    x = np.array([np.inf, -np.inf, np.nan, 1e300, -1e300, beyond, np.nextafter(beyond, 0)])
    expected = [np.inf, -np.inf, np.nan, np.inf, -np.inf, np.inf, top]
    np.testing.assert_array_equal(converted(x, name, kernels).astype("f8"), expected)


@pytest.mark.parametrize("kernels", ["off", "wait"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_ints_round_once(dtype: str, kernels: str) -> None:
    numbers = [0, 1, -1, 2**31 - 1, -(2**31), 2**30 + 2**22, 2**30 + 2**22 + 1]
    if dtype == "int64":
        numbers += [2**53 + 1, 2**62 + 2**54, 2**62 + 2**54 + 1, 2**63 - 1, -(2**63)]
    numbers += [-n for n in numbers if n > 1]
    found = converted(np.array(numbers, dtype), "bfloat16", kernels).astype("f8")
    values = [Fraction(v) for v in finite(NARROW["bfloat16"])]
    for n, y in zip(numbers, found, strict=True):
        off = abs(Fraction(float(y)) - n)
        at = values.index(Fraction(float(y)))
        assert off <= min(abs(v - n) for v in values[max(at - 1, 0) : at + 2]), n


@pytest.mark.parametrize("n", [1, 7, 66, 165, 1000])
@pytest.mark.parametrize("function", ["tanh", "abs", "neg", "sin"])
def test_the_sign_of_a_double_in_a_half(function: str, n: int) -> None:
    """Signs are copied from the double, for which the code generator calls a helper."""
    graph = gw.Graph()
    x = graph.placeholder("x", (None,), dtype="float64")
    wide = getattr(gw, function)(x)
    y = [gw.cast(wide, "float16"), gw.cast(gw.cast(wide, "float32"), "float16")]
    given = np.linspace(-3, 3, n)
    expected = {"abs": np.abs, "neg": np.negative}.get(function, getattr(np, function, None))(given)
    with gw.Session(graph, kernels="wait") as session:
        found = session.run(y, {"x": given})
    for half in found:
        np.testing.assert_allclose(half.astype("f8"), expected, rtol=1e-3, atol=1e-7)


# -- everything that is no cast -------------------------------------------------------------------

UP = 1 + 2.0**-8 + 2.0**-40
"""Right above the middle of two bfloat16: by way of float32 it becomes 1."""
AWKWARD = {"bfloat16": (UP, 1 + 2.0**-7), "float8_e5m2": (1 + 2.0**-3 + 2.0**-40, 1.25),
           "float8_e4m3fn": (1 + 2.0**-4 + 2.0**-40, 1.125), "float16": (1 + 2.0**-11 + 2.0**-40,
                                                                       1 + 2.0**-10)}  # fmt: skip


def made(build: Any, feeds: Any = None) -> Array:
    graph = gw.Graph()
    with graph:
        y = build(graph)
    found: Array = graph.output(feeds or {}, y)[y.name]
    return found


PLACES: dict[str, Any] = {
    "a constant": lambda v, d: made(lambda g: g.constant(np.array([v]), dtype=d)),
    "a list": lambda v, d: made(lambda g: g.constant([v], dtype=d)),
    "full": lambda v, d: made(lambda g: gw.full((1,), v, dtype=d)),
    "arange": lambda v, d: made(lambda g: gw.arange(v, v + 1, 1.0, dtype=d)),
    "linspace": lambda v, d: made(lambda g: gw.linspace(v, 3.0, 1, dtype=d)),
    "a variable": lambda v, d: made(
        lambda g: g.variable("w", (1,), dtype=d, init=gw.init.constant(v))
    ),
    "an array as first value": lambda v, d: made(
        lambda g: g.variable("w", (1,), dtype=d, init=np.array([v]))
    ),
    "an initializer": lambda v, d: gw.init.constant(v)((1,), d),
    "a given value": lambda v, d: assigned(v, d),
    "a feed": lambda v, d: made(
        lambda g: g.placeholder("x", (1,), dtype=d) * 1.0, {"x": np.array([v])}
    ),
}


def assigned(v: float, d: str) -> Array:
    graph = gw.Graph()
    graph.variable("w", (1,), dtype=d)
    graph.values["w"] = np.array([v])
    found: Array = graph.values["w"]
    return found


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("place", PLACES)
def test_doubles_round_once_wherever_they_come_in(place: str, name: str) -> None:
    if name.startswith("float8") and place == "a feed":
        return  # float8 does not multiply
    given, right = AWKWARD[name]
    found = PLACES[place](given, name)
    assert found.dtype == NARROW[name] and found.astype("f8").tolist() == [right]


def test_numbers_beside_halves_round_once() -> None:
    """Literals, paddings, what a where takes and what a mask leaves."""
    graph = gw.Graph()
    zero = graph.placeholder("zero", (1,), dtype="bfloat16")
    ys = [
        zero + UP,
        gw.pad(zero, (0, 1), value=UP)[1:],
        gw.full_like(zero, UP),
        gw.where(zero == 0.0, UP, zero),
        gw.clip(zero, UP, 3.0),
        gw.maximum(zero, UP),
    ]
    for kernels in ("off", "wait"):
        with gw.Session(graph, kernels=kernels) as session:
            for y in session.run(ys, {"zero": np.zeros(1, NARROW["bfloat16"])}):
                assert y.astype("f8").tolist() == [1 + 2.0**-7]


def test_optimizers_round_once() -> None:
    """A float64 gradient beside a bfloat16 parameter."""
    half = NARROW["bfloat16"]
    p, dp, rate = np.zeros(1, half), np.array([-UP]), np.array(1.0)
    for kernels in ("off", "wait"):
        graph = gw.Graph()
        x, g = graph.placeholder("x", (1,), dtype=half), graph.placeholder("g", (1,), "float64")
        y = gw.training.sgd_update(x, g, rate, 0.0)
        with gw.Session(graph, kernels=kernels) as session:
            found = session.run(y, {"x": p, "g": dp})
        assert found.dtype == half and found.astype("f8").tolist() == [1 + 2.0**-7]


# What processors without instructions for halves call ---------------------------------------------

EACH = """
define void @k(ptr %block) {{
entry:
  %n = load i64, ptr %block
  %x.at = getelementptr i64, ptr %block, i64 1
  %x = load ptr, ptr %x.at
  %y.at = getelementptr i64, ptr %block, i64 2
  %y = load ptr, ptr %y.at
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr {argument}, ptr %x, i64 %i
  %to = getelementptr {result}, ptr %y, i64 %i
  %v = load {argument}, ptr %from
  %w = call {result} @{name}({argument} %v)
  store {result} %w, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}}
declare {result} @{name}({argument})
"""


def each(name: str, x: Array, dtype: str) -> Array:
    kinds = {"e": "half", "f": "float", "d": "double"}
    y = np.empty(x.shape, dtype)
    text = EACH.format(name=name, argument=kinds[x.dtype.char], result=kinds[y.dtype.char])
    block = np.array([x.size, x.ctypes.data, y.ctypes.data])
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(compiler.compile_text(text))(block.ctypes.data)
    return y


@pytest.mark.skipif(not compiler.available(), reason="llvmlite is not installed")
def test_helpers_for_halves_are_right_for_all_of_them() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 65520.0, -65519.999, 1e300, 2.0**-25]
    doubles = np.concatenate([hard(np.dtype(np.float16)), special])
    with np.errstate(all="ignore"):
        floats = doubles.astype("f4")
        cases = [("__extendhfsf2", halves, "f4"), ("__truncdfhf2", doubles, "f2")]
        for name, x, dtype in [*cases, ("__truncsfhf2", floats, "f2")]:
            y, expected = each(name, x, dtype), x.astype(dtype)
            np.testing.assert_array_equal(y, expected, name)
            assert np.array_equal(np.signbit(y), np.signbit(expected)), name
    assert len(helpers.texts()) == 3
