"""Generated kernels beside the reference of their IR: functions, forms, training steps."""

from __future__ import annotations

import linecache
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.fuse.functions import FUNCTIONS
from gradwright.fuse.fused import Fused
from gradwright.fuse.interpret import evaluate
from gradwright.fuse.ir import Beyond, Kernel, Level, Named, Operand, Store, Value
from gradwright.spec import dtype
from gradwright.spec.rounding import rounded
from tests.cpu.sketches import Sketch, space_of, ulps
from tests.cpu.test_native import random_kernel, spread
from tests.cpu.test_native_functions import grid

pytest.importorskip("triton", reason="Triton has wheels for Linux only")

from gradwright_kernels.compile.compiler import compile_call
from gradwright_kernels.device.launcher import Eager
from gradwright_kernels.device.simulated.interpret import Watch
from gradwright_kernels.device.simulated.interpret import run as interpreted
from gradwright_kernels.fused import elements, tiles
from gradwright_kernels.fused.generated import Generated, generate
from gradwright_kernels.fused.group import group
from gradwright_kernels.launch import use
from tests.kernels import steps
from tests.kernels.places import cuda, run

Array = np.ndarray[Any, Any]
SMALL: dict[str, dict[str, Any]] = {
    "tiles": {"THREADS": 4, "PER_THREAD": 2},
    "parts": {"THREADS": 4, "PER_THREAD": 2, "PROGRAMS": 3, "TURNS": 1},
    "chunks": {"THREADS": 4, "PER_THREAD": 2, "fits": lambda *sizes: False},
}
"""Limits of tiles with which small arrays take the forms of large ones."""


def simulated(kernel: Kernel, xs: Sequence[Array], space: tuple[int, ...] | None = None) -> Any:
    """Return outputs of a kernel on the simulated GPU, which checks every access."""
    space = space or space_of(kernel, xs)
    shapes = [kernel.shape_of(kernel.n_inputs + i, space) for i in range(len(kernel.outputs))]
    outs = [gw.TensorSpec(s, o.dtype) for s, o in zip(shapes, kernel.outputs, strict=True)]
    with use(Eager(cuda())):
        bound = group(Fused(kernel, space, outs, ())).bind(
            xs, [np.empty(s.shape, s.dtype) for s in outs]
        )
        return run(bound, xs, outs)


def computed(kernel: Kernel, space: tuple[int, ...], arrays: Sequence[Array]) -> list[Array]:
    """Compute outputs where they lie; return what is in scratch memory then."""
    made = generate(kernel, space, arrays)
    scratch = [np.full(s.shape, 99, s.dtype) for s in made.scratch]
    held = [*arrays, *scratch]
    for launch in made.launches:
        interpreted(launch.call, [held[i].ctypes.data for i in launch.operands], Watch())
    return scratch


def close(ys: Sequence[Array], wants: Sequence[Array], tolerance: float) -> None:
    """Assert that numbers are those wanted, but for so much of the largest."""
    for y, want in zip(ys, wants, strict=True):
        want = want.reshape(y.shape)
        if y.dtype.kind in "biu":
            np.testing.assert_array_equal(y, want)
            continue
        y, want = y.astype("f8"), want.astype("f8")
        finite = np.isfinite(want)
        scale = np.abs(want[finite]).max(initial=0)
        np.testing.assert_array_equal(y[~finite], want[~finite])
        assert np.abs(y[finite] - want[finite]).max(initial=0) <= tolerance * scale + 1e-300


def small(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    for name, value in SMALL[form].items():
        monkeypatch.setattr(tiles, name, value)


# -- functions ------------------------------------------------------------------------------------


def test_every_function_has_a_text() -> None:
    assert set(elements.FUNCTIONS) == set(FUNCTIONS)


@pytest.mark.parametrize("name", ["f4", "f8"])
def test_functions_of_one_float_are_within_four_units_of_the_last_place(name: str) -> None:
    x = grid(name)[::61]
    functions = [f for f in FUNCTIONS.values() if f.n_args == 1 and "f" in f.kinds]
    sketch = Sketch(1)
    load = sketch.load(f"{name}:1")
    for f in functions:
        sketch.store(getattr(sketch, f.name + "_")(load), "?:1" if f.is_test else f"{name}:1")
    with np.errstate(all="ignore"):
        ys = simulated(sketch.kernel(), [x])
        wide = x.astype("f8" if name == "f4" else np.longdouble)
        for f, y in zip(functions, ys, strict=True):
            if f.is_test:
                assert np.array_equal(y, f.apply(x)), f.name
                continue
            exact = f.apply(wide)
            if f.name in ("erf", "erfc"):  # of the C library, in float64
                exact = np.array([getattr(math, f.name)(float(v)) for v in x])
            far = ulps(y, exact)
            assert far.max() <= 4, (f.name, x[far.argmax()], far.max())
            nought = (y == 0) & (exact == 0) & (f.name != "erfc")
            assert np.array_equal(np.signbit(y[nought]), np.signbit(exact[nought])), f.name


@pytest.mark.parametrize("name", ["f4", "f8", "i4", "i8", "?"])
def test_functions_of_two_numbers(name: str) -> None:
    kind = np.dtype(name)
    rng = np.random.default_rng(1)
    if kind.kind == "f":
        special = np.array([0, -0.0, 1, -1, 0.5, 2, 3, -3, math.inf, -math.inf, math.nan, 1e-40])
        drawn = [rng.normal(size=500) * np.exp(rng.normal(size=500) * 4) for _ in "xy"]
    else:
        least, most = (0, 1) if name == "?" else (np.iinfo(kind).min, np.iinfo(kind).max)
        special = np.array([0, 1, -1, 2, -2, 7, -7, most, least, most // 2])
        drawn = [rng.integers(-100, 100, 100) for _ in "xy"]
    with np.errstate(all="ignore"):
        x = np.concatenate([np.repeat(special, len(special)), drawn[0]]).astype(kind)
        y = np.concatenate([np.tile(special, len(special)), drawn[1]]).astype(kind)
    functions = [f for f in FUNCTIONS.values() if f.n_args < 3 and kind.kind in f.kinds]
    functions = [f for f in functions if f.n_args == 2 or kind.kind != "f"]
    sketch = Sketch(1)
    args = [sketch.load(f"{name}:1") for _ in "xy"]
    for f in functions:
        value = getattr(sketch, f.name + "_")(*args[: f.n_args])
        sketch.store(value, f"{sketch.values[value].dtype.str[1:].replace('b1', '?')}:1")
    with np.errstate(all="ignore"):
        for f, z in zip(functions, simulated(sketch.kernel(), [x, y]), strict=True):
            if f.name == "pow" and kind.kind == "f":
                wide = "f8" if name == "f4" else np.longdouble
                far = ulps(z, f.apply(x.astype(wide), y.astype(wide)))
                far[np.isinf(z) & np.isinf(f.apply(x, y))] = 0  # a longdouble has no such limit
                assert far.max() <= 8, (x[far.argmax()], y[far.argmax()], far.max())
                continue
            np.testing.assert_array_equal(
                z, f.apply(x, y)[: len(z)] if f.n_args == 2 else f.apply(x), f.name
            )


def test_casts_round_once() -> None:
    names = ["?", "i1", "u1", "i2", "u2", "i4", "i8", "u4", "u8", "f2", "bfloat16", "f4", "f8"]
    numbers = np.array([0, 1, 2.5, 3.49, 100, 1e-3, 127, 1.00390625, 1 + 2**-9 + 2**-40])
    inputs, outputs, values, stores, wants = [], [], [], [], []
    for source in map(dtype, names):
        x = (np.trunc(numbers) if source.kind in "iu" else numbers).astype("f8").astype(source)
        inputs.append((Operand(source, (True,)), x))
        load = len(values)
        values.append(Value("load", (), source, Level.ELEMENT, len(inputs) - 1))
        for target in map(dtype, names):
            if target != source:
                stores.append(len(values))
                values.append(Value("cast", (load,), target, Level.ELEMENT))
                outputs.append(Operand(target, (True,)))
                wants.append(rounded(x, target))
    operands = (*(o for o, _ in inputs), *outputs)
    n = len(inputs)
    kernel = Kernel(
        1, 1, operands, n, tuple(values), tuple(Store(n + i, v) for i, v in enumerate(stores))
    )
    for y, want in zip(simulated(kernel, [x for _, x in inputs]), wants, strict=True):
        assert y.tobytes() == want.tobytes(), (y, want)


def test_powers_of_constants() -> None:
    """By products, by roots, and by a series, whose exponent is as exact as the numbers."""
    x = np.array([0, -0.0, 1, -1, 2, -0.7, 0.3, math.inf, -math.inf, math.nan])
    for name, tolerance in (("f4", 1e-6), ("f8", 1e-14)):
        xs, exponents = x.astype(name), (0.0, 0.5, 0.1, 1.7, -3.0, 5.0, math.inf)
        sketch = Sketch(1)
        load = sketch.load(f"{name}:1")
        for n in exponents:
            sketch.store(sketch.pow_(load, sketch.const(n, name)), f"{name}:1")
        with np.errstate(all="ignore"):
            for n, y in zip(exponents, simulated(sketch.kernel(), [xs]), strict=True):
                want = np.power(xs, np.full_like(xs, n))
                np.testing.assert_allclose(y, want, tolerance, err_msg=f"{n}")


# -- forms ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", SMALL)
@pytest.mark.parametrize("seed", range(4, 7))
def test_random_kernels_over_random_strides(
    seed: int, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    kernel, space = random_kernel(rng)
    space = tuple(min(n, 5) for n in space)
    inputs = [rng.normal(size=kernel.shape_of(i, space)) for i in range(kernel.n_inputs)]
    expected = evaluate(kernel, inputs, space)
    small(monkeypatch, form)
    ys = [np.full_like(y, 77) for y in expected]
    computed(kernel, space, [*(spread(x, rng) for x in inputs), *ys])
    close(ys, expected, 1e-12)


def softmax_and_norm(n_rows: int, columns: int, kind: str = "f4") -> tuple[Kernel, list[Array]]:
    """Return a kernel that reduces rows by every kind, adds up over rows, columns and all."""
    s = Sketch(2, 1)
    x, w = s.load(f"{kind}:11"), s.load(f"{kind}:01")
    e = s.exp(s.sub(x, s.reduce("max", x)))
    s.store(s.div(e, s.reduce("sum", e)), f"{kind}:11")
    y = s.mul(x, w)
    s.store(s.sub(y, s.reduce("min", y)), f"{kind}:11")
    s.store(y, f"{kind}:01", "sum")
    s.store(y, f"{kind}:10", "sum")
    s.store(y, f"{kind}:00", "sum")
    s.store(s.reduce("sum", y), f"{kind}:00", "sum_rows")
    rng = np.random.default_rng(columns)
    sizes = (n_rows, columns), (1, columns)
    return s.kernel(), [rng.uniform(0.5, 1, n).astype(kind) for n in sizes]


@pytest.mark.parametrize(
    ("n_rows", "columns"), [(3, 1), (33, 7), (70, 129), (0, 7), (3, 0), (2, 5000)]
)
def test_rows_of_any_width(n_rows: int, columns: int) -> None:
    kernel, xs = softmax_and_norm(n_rows, columns)
    space = (n_rows, columns)
    with np.errstate(all="ignore"):
        close(simulated(kernel, xs, space), evaluate(kernel, xs, space), 1e-6)


def test_nan_and_infinities_go_through_rows() -> None:
    kernel, (x, w) = softmax_and_norm(4, 9, "f8")
    x[0, 3], x[1, 2], x[2], x[3, 8] = np.nan, np.inf, -np.inf, -np.nan
    with np.errstate(all="ignore"):
        wants = evaluate(kernel, [x, w], x.shape)
        for y, want in zip(simulated(kernel, [x, w]), wants, strict=True):
            np.testing.assert_allclose(y, want, 1e-12)


def test_sums_have_the_same_bits_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, xs = softmax_and_norm(12, 9)
    small(monkeypatch, "parts")
    first, second = (simulated(kernel, xs) for _ in range(2))
    assert [y.tobytes() for y in first] == [y.tobytes() for y in second]


# -- memory ---------------------------------------------------------------------------------------


def test_what_is_overwritten_is_read_by_everybody_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A counter beside an array that many programs work on, and a row that all rows read."""
    s = Sketch(2)
    x, row, t = s.load("f4:11"), s.load("f4:01"), s.load("f4:00")
    s.store(s.mul(s.add(x, row), t), "f4:11", over=x)
    s.store(s.add(row, t), "f4:01", over=1)
    s.store(s.add(t, s.const(1.0)), "f4:00", over=2)
    kernel = s.kernel()
    xs = [np.ones(n, np.float32) for n in ((6, 9), (1, 9), (1, 1))]
    wants = evaluate(kernel, [x.copy() for x in xs], (6, 9))
    small(monkeypatch, "tiles")
    assert len(computed(kernel, (6, 9), [*xs, *xs])) == 2, "one of the two is not put aside"
    close(xs, wants, 0)


def table_kernel() -> Kernel:
    """Return a kernel that doubles the rows of a table that indices name."""
    f4, i8 = np.dtype("f4"), np.dtype("i8")
    table, ids = Operand(f4, (False, True), named=(0,)), Operand(i8, (True, False))
    values = (
        Value("load", (), i8, Level.ROW, 1),
        Value("place", (0,), i8, Level.ROW, Named(0, 0, Beyond.FIRST)),
        Value("load", (1,), f4, Level.ELEMENT, 0),
        Value("add", (2, 2), f4, Level.ELEMENT),
    )
    return Kernel(2, 1, (table, ids, Operand(f4, (True, True))), 2, values, (Store(2, 3),))


def test_rows_of_a_table_and_what_names_none() -> None:
    kernel, table = table_kernel(), np.arange(35, dtype="f4").reshape(5, 7)
    for wrong, code in ((-1, 0), (-6, 2 * 6 + 1 + 1), (2**62, 2**62 + 1)):
        ids = np.array([[1], [wrong], [4]])
        y = np.zeros((3, 7), "f4")
        made = generate(kernel, (3, 7), [table, ids, y])
        assert made.alarm == 0 and made.sites == ((0, 0, 5),)
        assert computed(kernel, (3, 7), [table, ids, y])[0].tolist() == [code]
        if not code:
            np.testing.assert_array_equal(y, 2 * table[ids[:, 0]])


# -- groups of training steps ---------------------------------------------------------------------


def drawn(spec: gw.TensorSpec, rng: np.random.Generator) -> Array:
    if spec.dtype.kind in "biu":
        return np.asarray(rng.integers(0, 2 if spec.dtype.kind == "b" else 5, spec.shape)).astype(
            spec.dtype
        )
    return np.asarray(rng.uniform(0.1, 0.9, spec.shape)).astype(spec.dtype)


HOW: list[tuple[str, dict[str, Any], float]] = [
    *((name, {}, 1e-6) for name in steps.STEPS),
    ("mlp", {"rows": 3, "width": 17, "dtype": "float64"}, 1e-14),
    ("mlp", {"rows": 3, "width": 17, "dtype": "float16"}, 2e-3),
    ("mlp", {"rows": 3, "width": 17, "dtype": "bfloat16"}, 1e-2),
]
"""Training steps, and how far a number may be off, of the largest."""


@pytest.mark.parametrize(("step", "how", "tolerance"), HOW)
def test_groups_of_a_training_step(step: str, how: dict[str, Any], tolerance: float) -> None:
    rng = np.random.default_rng(0)
    for g in steps.groups_of(*steps.STEPS[step](**how)):
        xs = [drawn(s, rng) for s in g.ins]
        with use(Eager(cuda())), np.errstate(all="ignore"):
            bound = group(g.op).bind(xs, [np.empty(s.shape, s.dtype) for s in g.op.outs])
            ys = run(bound, xs, g.op.outs)
            wants = evaluate(g.op.kernel, xs, g.op.shape, [o.shape for o in g.op.outs])
        close(ys, wants, tolerance)


def of_step(step: str, fused: str) -> Generated:
    """Return what is generated for the first group of a step that computes an op."""
    found = next(g for g in steps.groups_of(*steps.STEPS[step]()) if fused in g.op.names)
    arrays = [np.zeros(s.shape, s.dtype) for s in (*found.ins, *found.op.outs)]
    return generate(found.op.kernel, found.op.shape, arrays, found.names)


def test_the_text_says_whose_it_is_and_is_found_by_debuggers() -> None:
    made = of_step("gated", "sigmoid")
    assert made.source.startswith("# mul\n# silu\nimport triton\n")
    call = made.launches[0].call
    file = call.kernel.fn.__code__.co_filename
    assert "".join(linecache.getlines(file)) in made.source
    assert call.kernel is of_step("gated", "sigmoid").launches[0].call.kernel


@pytest.mark.parametrize(
    ("step", "fused", "capability"),
    [("gated", "sigmoid", 80), ("transformer", "softmax", 90), ("mlp", "erfc", 100)],
)
def test_generated_kernels_do_not_spill(step: str, fused: str, capability: int) -> None:
    for launch in of_step(step, fused).launches:
        assert compile_call(launch.call, capability).resources().spilled_bytes == 0
