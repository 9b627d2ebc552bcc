"""Functions in machine code on dense grids, to units of the last place; casts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gradwright.cpu.llvm.compiler import available
from gradwright.fuse.functions import FUNCTIONS
from gradwright.fuse.ir import Level, Operand, Value
from tests.cpu.sketches import Sketch, launch, ulps

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")
Array = np.ndarray[Any, Any]


def grid(dtype: str) -> Array:
    """Numbers of every size, close ones near 0 and 1, and all that is special."""
    rng = np.random.default_rng(0)
    info = np.finfo(dtype)
    span = math.log(info.max) + 10
    tiny = [float(info.tiny), float(info.smallest_subnormal), float(info.tiny) / 3]
    special = [0.0, math.inf, *tiny, float(info.max), float(info.eps), 0.5, 1.0, 2.0, 3.0, 10.05]
    edges = [88.72, 88.73, 87.34, 103.97, 103.98, 709.78, 709.79, 745.13, 745.14, 26.5]
    with np.errstate(all="ignore"):
        return np.concatenate(
            [
                *(sign * np.array([*special, *edges]) for sign in (1, -1)),
                [math.nan],
                np.linspace(-12, 12, 8001),
                np.linspace(-760, 760, 8001),
                1 + rng.normal(size=4000) * 0.01,
                *(sign * np.exp(rng.uniform(-span, span, 8000)) for sign in (1, -1)),
                np.pi / 2 * np.arange(1, 4000),
            ]
        ).astype(dtype)


SERIES = [
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan"),
    *("tanh", "sigmoid", "erf", "erfc", "sqrt", "rsqrt", "reciprocal"),
]
ROUNDINGS = ["floor", "ceil", "trunc", "round", "abs", "neg", "square", "sign"]
TESTS = ["isnan", "isinf", "isfinite"]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_functions_of_one_number_are_within_four_units_of_the_last_place(dtype: str) -> None:
    x = grid(dtype)
    sketch = Sketch(1)
    load = sketch.load(f"{dtype}:1")
    for name in SERIES + ROUNDINGS:
        sketch.store(getattr(sketch, name)(load), f"{dtype}:1")
    for name in TESTS:
        sketch.store(getattr(sketch, name)(load), "?:1")
    ys = [np.empty_like(x) for _ in SERIES + ROUNDINGS] + [np.empty(x.shape, bool) for _ in TESTS]
    launch(sketch.kernel(), [x, *ys])
    wide = x.astype("f8" if dtype == "f4" else np.longdouble)
    for name, y in zip(SERIES + ROUNDINGS, ys, strict=False):
        with np.errstate(all="ignore"):
            if name in ("erf", "erfc"):  # of the C library, in float64
                exact = np.array([getattr(math, name)(float(v)) for v in x])
            else:
                exact = FUNCTIONS[name].apply(wide)
        far = ulps(y, exact)
        assert far.max() <= 4, (name, x[far.argmax()], far.max())
        nought = (y == 0) & (exact == 0)
        if name != "erfc":  # which C leaves at +0 as well
            assert np.array_equal(np.signbit(y[nought]), np.signbit(exact[nought])), name
    for name, y in zip(TESTS, ys[-3:], strict=True):
        assert np.array_equal(y, FUNCTIONS[name].apply(x)), name


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_functions_of_two_floats(dtype: str) -> None:
    names = [n for n, f in FUNCTIONS.items() if f.n_args == 2 and "f" in f.kinds]
    rng = np.random.default_rng(1)
    special = np.array([0, -0.0, 1, -1, 0.5, -0.5, 2, 3, -3, math.inf, -math.inf, math.nan, 1e-40])
    x = np.concatenate([np.repeat(special, len(special)), rng.normal(size=2000) * 5])
    y = np.concatenate([np.tile(special, len(special)), rng.normal(size=2000) * 5])
    x, y = (np.concatenate([v, np.abs(v), np.rint(v)]).astype(dtype) for v in (x, y))
    sketch = Sketch(1)
    a, b = sketch.load(f"{dtype}:1"), sketch.load(f"{dtype}:1")
    outs = []
    for name in names:
        value = getattr(sketch, name + "_")(a, b)
        kind = sketch.values[value].dtype
        sketch.store(value, f"{kind.char}:1")
        outs.append(np.empty(x.shape, kind))
    launch(sketch.kernel(), [x, y, *outs])
    for name, out in zip(names, outs, strict=True):
        with np.errstate(all="ignore"):
            expected = FUNCTIONS[name].apply(x, y)
            wide = "f8" if dtype == "f4" else np.longdouble
            exact = FUNCTIONS[name].apply(x.astype(wide), y.astype(wide))
        if name == "pow":
            far = ulps(out, exact)
            assert far.max() <= 2, (x[far.argmax()], y[far.argmax()])
        else:
            np.testing.assert_array_equal(out, expected, name)


@pytest.mark.parametrize("dtype", ["i4", "i8"])
def test_ints_wrap_and_divide_without_traps(dtype: str) -> None:
    info = np.iinfo(dtype)
    special = np.array([0, 1, -1, 2, -2, 7, -7, info.max, info.min, info.max // 2], dtype)
    x, y = np.repeat(special, len(special)), np.tile(special, len(special))
    pairs = ["add", "sub", "mul", "maximum", "minimum", "eq", "lt", "ge", "and", "or", "xor"]
    quotients = ["floordiv", "mod", "fmod"]
    singles = ["neg", "abs", "square", "sign", "not"]
    sketch = Sketch(1)
    a, b = sketch.load(f"{dtype}:1"), sketch.load(f"{dtype}:1")
    values = [getattr(sketch, n + "_")(a, b) for n in pairs + quotients]
    values += [getattr(sketch, n + "_")(a) for n in singles]
    for value in values:
        sketch.store(value, "?:1" if sketch.values[value].dtype == bool else f"{dtype}:1")
    outs = [np.empty(x.shape, sketch.values[v].dtype) for v in values]
    launch(sketch.kernel(), [x, y, *outs])
    for name, out in zip(pairs + quotients + singles, outs, strict=True):
        function = FUNCTIONS[name]
        with np.errstate(all="ignore"):
            expected = function.apply(*(x, y)[: function.n_args])
        np.testing.assert_array_equal(out, expected, name)


def test_casts() -> None:
    import ml_dtypes

    dtypes = ["?", "i4", "i8", "f4", "f8"]
    narrow = ["f2", "i1", "u1", "i2", "u2", ml_dtypes.bfloat16]
    numbers = np.array([0, 1, -1, 2.5, -2.5, 3.49, 100, -100, 1e-3, 127, 65504, 1.00390625])
    sketch = Sketch(1)
    inputs, outputs, expected = [], [], []
    for source in dtypes + narrow:
        with np.errstate(all="ignore"):
            x = numbers.astype("f4").astype("i4" if np.dtype(source).kind in "iu" else "f4")
            inputs.append(x.astype(source))
        load = sketch._add(Value("load", (), np.dtype(source), Level.ELEMENT, len(sketch.inputs)))
        sketch.inputs.append(Operand(np.dtype(source), (True,)))
        for target in dtypes:
            sketch.stores.append((len(sketch.outputs), sketch.cast(load, target), "set"))
            sketch.outputs.append(Operand(np.dtype(target), (True,)))
            outputs.append(np.empty(x.shape, target))
            expected.append(inputs[-1].astype(target))
    for target in ("f2", ml_dtypes.bfloat16):
        sketch.stores.append((len(sketch.outputs), sketch.cast(3 * 6, target), "set"))
        sketch.outputs.append(Operand(np.dtype(target), (True,)))
        outputs.append(np.empty(numbers.shape, target))
        expected.append(inputs[3].astype(target))
    launch(sketch.kernel(), [*inputs, *outputs])
    for y, e in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(y.astype("f8"), e.astype("f8"))
