"""Machine code against numpy: ways to walk arrays, rows, random kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gradwright.cpu.llvm import compiler
from gradwright.cpu.llvm.kernels.emit import emit
from gradwright.errors import LoweringError
from gradwright.fuse.interpret import evaluate
from gradwright.fuse.ir import Kernel, Level
from gradwright.fuse.layout import CopyFirst, Loops, Slots, block, lay_out
from gradwright.fuse.schedule import schedule
from tests.cpu.sketches import Sketch, check, launch, ulps

pytestmark = pytest.mark.skipif(not compiler.available(), reason="llvmlite is not installed")
Array = np.ndarray[Any, Any]


def spread(x: Array, rng: np.random.Generator) -> Array:
    """Return the same numbers in memory of another order, direction or density."""
    axes = rng.permutation(x.ndim)
    back = np.argsort(axes)
    gaps = rng.choice([1, 1, 1, 2, -1, -2], x.ndim)
    dense = np.zeros([n * abs(int(g)) for n, g in zip(np.array(x.shape)[axes], gaps, strict=True)])
    view = dense[tuple(slice(None, None, int(g)) for g in gaps)].transpose(back)
    view[...] = x
    return view


# -- Loops -----------------------------------------------------------------------------------------


def sums(rank: int, n_columns: int, x: str, b: str) -> Kernel:
    """y = x·b, and y added up along every subset of axes."""
    sketch = Sketch(rank, n_columns)
    y = sketch.mul(sketch.load(f"f4:{x}"), sketch.load(f"f4:{b}"))
    sketch.store(y, "f4:" + "1" * rank)
    for still in range(1, 2**rank, 1 if rank < 3 else 6):
        moves = "".join("0" if still >> axis & 1 else "1" for axis in range(rank))
        sketch.store(y, f"f4:{moves}", "sum")
    return sketch.kernel()


@pytest.mark.parametrize("shape", [(7, 33), (1, 33), (7, 1), (1, 1), (0, 33), (7, 0), (130, 2)])
def test_elementwise_and_sums_over_all_axes(shape: tuple[int, int], rng: Any) -> None:
    kernel = sums(2, 2, "11", "01")
    x, b = rng.normal(size=shape).astype("f4"), rng.normal(size=(1, shape[1])).astype("f4")
    check(kernel, [x, b], atol=2e-5)
    spread = np.empty((2 * shape[0], 3 * shape[1]), "f4")[::2, ::3]
    spread[...] = x
    for view in (np.asfortranarray(x), x[::-1, ::-1], spread):
        check(kernel, [view, b], atol=2e-5)


def test_neighbouring_axes_become_one_loop(rng: Any) -> None:
    def columns(kernel: Kernel, *shapes: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
        loops = check(kernel, [rng.normal(size=s).astype("f4") for s in shapes], atol=1e-5)
        return loops.outer, loops.columns

    sketch = Sketch(3)
    sketch.store(sketch.add(sketch.load("f4:111"), sketch.load("f4:111")), "f4:111")
    assert columns(sketch.kernel(), (2, 3, 4), (2, 3, 4)) == ((), 24)
    sketch = Sketch(3)
    sketch.store(sketch.add(sketch.load("f4:111"), sketch.load("f4:011")), "f4:111")
    assert columns(sketch.kernel(), (2, 3, 4), (1, 3, 4)) == ((2,), 12)
    sketch = Sketch(3)
    sketch.store(sketch.add(sketch.load("f4:111"), sketch.load("f4:100")), "f4:111")
    assert columns(sketch.kernel(), (2, 3, 4), (2, 1, 1)) == ((2,), 12)


def test_five_axes_in_any_order(rng: Any) -> None:
    kernel = sums(5, 5, "11111", "10101")
    x, b = rng.normal(size=(3, 2, 4, 3, 5)), rng.normal(size=(3, 1, 4, 1, 5))
    x, b = x.astype("f4"), b.astype("f4")
    assert len(check(kernel, [x, b], atol=2e-5).outer) == 4
    check(kernel, [np.asfortranarray(x), b], atol=2e-5)


def test_arrays_that_no_nest_fits_are_named_for_a_copy(rng: Any) -> None:
    sketch = Sketch(6)
    sketch.store(sketch.load("f4:111111"), "f4:111111")
    shape = (2, 3, 2, 3, 2, 3)
    x = np.ones((4, 6, 4, 6, 4, 6), "f4")[::2, ::2, ::2, ::2, ::2, ::2]
    assert lay_out(sketch.kernel(), [x, np.empty(shape, "f4")], shape) == CopyFirst(0, shape)
    with pytest.raises(LoweringError, match="contiguous outputs"):
        lay_out(sketch.kernel(), [np.ones(shape, "f4"), x], shape)
    with pytest.raises(LoweringError, match="operand 0 does not fit"):
        lay_out(sketch.kernel(), [np.ones(shape, "f8"), x], shape)

    sketch = Sketch(3, 2)  # a row spans two axes, the weights move along one of them
    y = sketch.mul(sketch.load("f4:111"), sketch.load("f4:010"))
    sketch.store(sketch.reduce("sum", y), "f4:100")
    arrays = [np.ones(s, "f4") for s in ((2, 3, 4), (1, 3, 1), (2, 1, 1))]
    assert lay_out(sketch.kernel(), arrays, (2, 3, 4)) == CopyFirst(1, (1, 3, 4))
    raw = np.frombuffer(bytearray(4 * 24 + 1), np.uint8)[1:].view("f4").reshape(2, 3, 4)
    assert lay_out(sketch.kernel(), [raw, *arrays[1:]], (2, 3, 4)) == CopyFirst(0, (2, 3, 4))


def test_the_block_has_everything_in_its_slot() -> None:
    sketch = Sketch(2)
    sketch.store(sketch.add(sketch.load("f4:11"), sketch.load("f4:01")), "f4:11")
    arrays = [np.ones((3, 8), "f4")[:, ::2], np.ones((1, 4), "f4"), np.ones((3, 4), "f4")]
    loops = lay_out(sketch.kernel(), arrays, (3, 4))
    assert isinstance(loops, Loops)
    numbers = block(loops, [10, 20, 30], 40)
    slots = Slots(3, 1)
    assert numbers[:3].tolist() == [10, 20, 30] and numbers[slots.scratch] == 40
    assert (numbers[slots.columns], numbers[slots.outer(0)]) == (4, 3)
    assert [numbers[slots.stride(i, 0)] for i in range(3)] == [32, 0, 16]
    assert [numbers[slots.stride(i, 1)] for i in range(3)] == [8, 4, 4]


# -- Rows ------------------------------------------------------------------------------------------


def softmax(dtype: str, x: str = "11") -> Kernel:
    sketch = Sketch(2, 1)
    load = sketch.load(f"{dtype}:{x}")
    e = sketch.exp(sketch.sub(load, sketch.reduce("max", load)))
    sketch.store(sketch.div(e, sketch.reduce("sum", e)), f"{dtype}:11")
    return sketch.kernel()


@pytest.mark.parametrize("shape", [(5, 64), (3, 2500), (1, 1), (4, 1), (0, 8), (600, 3)])
def test_softmax_keeps_the_exponentials(shape: tuple[int, int], rng: Any) -> None:
    x = rng.normal(size=shape).astype("f4") * 10
    x[:, ::7] = -np.inf if shape[1] > 8 else x[:, ::7]
    loops = check(softmax("f4"), [x])
    plan = schedule(softmax("f4"), loops.pattern)
    assert len(plan.stores) == 3 and len(plan.in_scratch) == 1
    check(softmax("f8"), [x.astype("f8").T.copy().T], rtol=1e-13)


def layer_norm(n_columns: int) -> Kernel:
    """Forward, with mean and 1/σ of each row as outputs, and the sum of x and a residual."""
    rank = n_columns + 1
    full, row, column = "1" * rank, "1" + "0" * n_columns, "0" + "1" * n_columns
    sketch = Sketch(rank, n_columns)
    x = sketch.add(sketch.load(f"f4:{full}"), sketch.load(f"f4:{full}"))
    gain, bias, n = (sketch.load(f"f4:{m}") for m in (column, column, "0" * rank))
    mean = sketch.div(sketch.reduce("sum", x), n)
    d = sketch.sub(x, mean)
    variance = sketch.div(sketch.reduce("sum", sketch.mul(d, d)), n)
    scale = sketch.rsqrt(sketch.add(variance, sketch.const(1e-5)))
    sketch.store(sketch.add(sketch.mul(sketch.mul(d, scale), gain), bias), f"f4:{full}")
    sketch.store(mean, f"f4:{row}")
    sketch.store(scale, f"f4:{row}")
    sketch.store(x, f"f4:{full}")
    sketch.store(sketch.square(scale), "f4:" + "0" * rank, "sum_rows")
    return sketch.kernel()


@pytest.mark.parametrize("shape", [(6, 48), (6, 4, 12), (1, 1), (2, 3000)])
def test_layer_norm(shape: tuple[int, ...], rng: Any) -> None:
    x, residual = rng.normal(size=(2, *shape)).astype("f4") + 3
    weights = rng.normal(size=(2, 1, *shape[1:])).astype("f4")
    n = np.full((1,) * len(shape), math.prod(shape[1:]), "f4")
    loops = check(layer_norm(len(shape) - 1), [x, residual, *weights, n], rtol=1e-4, atol=2e-5)
    assert loops.columns == math.prod(shape[1:])


def test_row_reductions_of_every_kind_and_dtype(rng: Any) -> None:
    sketch = Sketch(3, 1)
    inputs = []
    for dtype in ("f4", "f8", "i4", "i8", "?"):
        load = sketch.load(f"{dtype}:111")
        for kind in ("max", "min") if dtype == "?" else ("sum", "prod", "max", "min"):
            sketch.store(sketch.reduce(kind, load), f"{dtype}:110")
        inputs.append((rng.normal(size=(3, 4, 37)) * 2).astype(dtype))
    inputs[0][0, 0, 5], inputs[1][1, 1, 36] = np.nan, np.nan
    inputs[0][0, 1, 0], inputs[0][0, 2] = np.inf, -np.inf
    check(sketch.kernel(), inputs, rtol=1e-5)
    check(sketch.kernel(), [x.transpose(1, 0, 2) for x in inputs], rtol=1e-5)
    check(sketch.kernel(), [x[:, :, :0] for x in inputs])


def test_columns_have_their_index(rng: Any) -> None:
    sketch = Sketch(2, 1)  # cross-entropy: log Σ exp x − x[label]
    x, label = sketch.load("f4:11"), sketch.load("i8:10")
    at = sketch.eq(sketch.column(), label)
    picked = sketch.reduce("sum", sketch.where(at, x, sketch.const(0.0)))
    loss = sketch.sub(sketch.log(sketch.reduce("sum", sketch.exp(x))), picked)
    sketch.store(loss, "f4:10")
    sketch.store(loss, "f4:00", "sum_rows")
    sketch.store(loss, "f4:01", "sum")
    logits = rng.normal(size=(9, 21)).astype("f4")
    check(sketch.kernel(), [logits, rng.integers(0, 21, (9, 1))], rtol=1e-5)


def test_long_sums_stay_accurate() -> None:
    x = np.full((2, 3_000_000), 0.1, "f4")
    sketch = Sketch(2, 1)
    total = sketch.reduce("sum", sketch.load("f4:11"))
    sketch.store(total, "f4:10")
    y = np.empty((2, 1), "f4")
    launch(sketch.kernel(), [x, y])
    exact = x.astype("f8").sum(1, keepdims=True)
    assert np.abs(y / exact - 1).max() < 1e-6

    sketch = Sketch(1)
    sketch.store(sketch.load("f4:1"), "f4:0", "sum")
    y = np.empty(1, "f4")
    launch(sketch.kernel(), [x.reshape(-1), y])
    assert abs(y[0] / exact.sum() - 1) < 1e-6


def test_adam_in_place_and_not(rng: Any) -> None:
    sketch = Sketch(1)
    p, g, m, v = (sketch.load("f4:1") for _ in range(4))
    rate, first, second = (sketch.load("f4:0") for _ in range(3))
    beta, rest = sketch.const(0.9), sketch.const(0.1)
    m1 = sketch.add(sketch.mul(beta, m), sketch.mul(rest, g))
    v1 = sketch.add(sketch.mul(beta, v), sketch.mul(rest, sketch.square(g)))
    root = sketch.add(sketch.sqrt(sketch.div(v1, second)), sketch.const(1e-8))
    step = sketch.div(sketch.div(m1, first), root)
    sketch.store(sketch.sub(p, sketch.mul(rate, step)), "f4:1", over=0)
    sketch.store(m1, "f4:1", over=2)
    sketch.store(v1, "f4:1", over=3)
    inputs = [rng.normal(size=1003).astype("f4") for _ in range(4)]
    inputs[3] **= 2
    inputs += [np.full(1, c, "f4") for c in (0.01, 0.1, 0.2)]
    kernel = sketch.kernel()
    expected = evaluate(kernel, [x.copy() for x in inputs], (1003,))
    fresh = [np.empty(1003, "f4") for _ in range(3)]
    before = [x.copy() for x in inputs]
    launch(kernel, [*inputs, *fresh])
    assert all(np.array_equal(x, b) for x, b in zip(inputs, before, strict=True))
    for y, e in zip(fresh, expected, strict=True):
        np.testing.assert_allclose(y, e, rtol=1e-5, atol=1e-6)
    check(kernel, inputs, rtol=1e-5)
    np.testing.assert_array_equal(inputs[0], fresh[0])


def test_softmax_over_its_own_input(rng: Any) -> None:
    plain = softmax("f4")
    kernel = Kernel(2, 1, plain.operands, 1, plain.values, plain.stores, ((1, 0),))
    check(kernel, [rng.normal(size=(5, 70)).astype("f4")])


def test_scalars_constants_and_broadcast_outputs(rng: Any) -> None:
    sketch = Sketch(0)
    a = sketch.load("f8:")
    sketch.store(sketch.exp(a), "f8:")
    sketch.store(a, "f8:", "sum")
    check(sketch.kernel(), [np.array(1.5)])

    sketch = Sketch(2, 1)
    row = sketch.load("f4:10")
    sketch.store(row, "f4:11")
    sketch.store(sketch.const(math.inf), "f4:11")
    sketch.store(row, "f4:00", "sum")
    sketch.store(sketch.square(row), "f4:00", "sum_rows")
    sketch.store(sketch.add(row, sketch.load("f4:11")), "f4:11")
    check(sketch.kernel(), [rng.normal(size=s).astype("f4") for s in ((3, 1), (3, 20))], atol=1e-5)


def test_powers_with_a_constant_exponent() -> None:
    special = [0.0, -0.0, 1, -1, 2, -2.5, math.inf, -math.inf, math.nan, 1e-40, 3e38]
    x = np.concatenate([special, np.linspace(0.01, 9, 200)]).astype("f4")
    exponents = [0, 1, 2, 3, 4, -1, -2, -3, 0.5, -0.5, 1.5, 2.2, -7]
    sketch = Sketch(1)
    load = sketch.load("f4:1")
    for n in exponents:
        sketch.store(sketch.pow(load, sketch.const(float(n))), "f4:1")
    outs = [np.empty_like(x) for _ in exponents]
    launch(sketch.kernel(), [x, *outs])
    for n, y in zip(exponents, outs, strict=True):
        with np.errstate(all="ignore"):
            far = ulps(y, np.power(x.astype("f8"), np.full(x.shape, n, "f8")))
        assert far.max() <= 3, (n, x[far.argmax()], y[far.argmax()])


def test_division_by_what_stands_still_keeps_the_edges() -> None:
    special = [0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -1e-45, 1e38, -3.4e38, 1, 3, 7e-20]
    x = np.array(special * 3, "f4")[None]
    y = np.array(special, "f4")[:, None]
    sketch = Sketch(2, 1)
    a, b = sketch.load("f4:11"), sketch.load("f4:10")
    sketch.store(sketch.div(a, b), "f4:11")
    full = np.broadcast_to(x, (len(y), x.shape[1])).copy()
    out = np.empty_like(full)
    launch(sketch.kernel(), [full, y, out])
    with np.errstate(all="ignore"):
        assert ulps(out, full.astype("f8") / y.astype("f8")).max() <= 2


def test_hot_loops_are_vector_code() -> None:
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    if not features.get("avx2"):
        pytest.skip("needs a CPU with AVX2")
    one = np.empty((4, 64), "f4")
    text = emit(softmax("f4"), lay_out(softmax("f4"), [one, one], (4, 64)).pattern)  # type: ignore[union-attr]
    assembly = compiler._toolchain().assembly(text)
    wide = "zmm" if features.get("avx512f") and "zmm" in assembly else "ymm"
    for instruction in ("vmaxps", "vaddps", "vmulps"):
        assert any(instruction in line and wide in line for line in assembly.splitlines()), (
            instruction
        )


# -- Random kernels --------------------------------------------------------------------------------


def random_kernel(rng: np.random.Generator) -> tuple[Kernel, tuple[int, ...]]:
    """A kernel of up to four axes, with what rows and columns can have, and sizes for it."""
    rank = int(rng.integers(1, 5))
    n_columns = int(rng.integers(1, rank + 1))
    n_rows = rank - n_columns
    has_rows = rng.random() < 0.6
    sketch = Sketch(rank, n_columns if has_rows else rank)

    def moves(always: float = 0.5) -> str:
        return "".join("1" if rng.random() < always else "0" for _ in range(rank))

    values = [sketch.load("f8:" + "1" * rank)]
    values += [sketch.load("f8:" + moves()) for _ in range(rng.integers(1, 4))]
    for _ in range(rng.integers(3, 12)):
        name = rng.choice(["add", "mul", "sub", "maximum", "tanh", "exp", "reduce", "div"])
        a, b = (int(v) for v in rng.choice(values, 2))
        if name == "reduce" and has_rows:
            values.append(sketch.reduce(str(rng.choice(["sum", "max", "min"])), a))
        elif name in ("tanh", "exp"):
            values.append(getattr(sketch, name)(sketch.tanh(a)))
        elif name == "div":
            values.append(sketch.div(a, sketch.add(sketch.square(b), sketch.const(1.0, "f8"))))
        elif name != "reduce":
            values.append(sketch.tanh(getattr(sketch, name)(a, b)))
    full, row = "1" * rank, "1" * n_rows + "0" * n_columns
    for value in rng.choice(values[1:], 3):
        level = sketch.values[int(value)].level
        still = rng.choice(["0", "1"]) * n_columns  # of columns in one loop all or none
        kinds = [("set", full), ("sum", moves()[:n_rows] + still if has_rows else moves())]
        if has_rows and level < Level.ELEMENT:
            kinds += [("set", row), ("sum_rows", moves()[:n_rows] + "0" * n_columns)]
        mode, where = kinds[rng.integers(len(kinds))]
        sketch.store(int(value), f"f8:{where}", mode)
    return sketch.kernel(), tuple(int(n) for n in rng.choice([2, 3, 5, 18], rank))


@pytest.mark.parametrize("seed", range(30))
def test_random_kernels_over_random_strides(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kernel, space = random_kernel(rng)
    inputs = [rng.normal(size=kernel.shape_of(i, space)) for i in range(kernel.n_inputs)]
    expected = evaluate(kernel, inputs, space)
    outputs = [np.full_like(y, 77) for y in expected]
    arrays = [*(spread(x, rng) for x in inputs), *outputs]
    loops = lay_out(kernel, arrays, space)
    while isinstance(loops, CopyFirst):
        n = loops.operand
        arrays[n] = np.broadcast_to(arrays[n], loops.shape).copy()
        loops = lay_out(kernel, arrays, space)
    launch(kernel, arrays, space)
    for output, y in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(output, y, rtol=1e-9, atol=1e-9)
