"""The numbers of the Triton kernels, on a simulated GPU, or on this machine's: ``make gpu-test``.

There is no second reference here: lowerings are held against the op's own ``forward`` in float64,
on the op's own samples and on shapes that kernels find awkward.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pytest

from gradwright.fuse.split import CheckClasses
from gradwright.op import OPS, Op, find_op, infer_specs, run_forward
from gradwright.ops.core.pullback import Pullback
from gradwright.ops.loading import load
from gradwright.program.lowering import find_launch, lowered_ops
from gradwright.spec import TensorSpec, dtype, kind, spec_of

pytest.importorskip("triton", reason="Triton has wheels for Linux only")

import triton
import triton.language as tl

from gradwright_kernels.compile.compiler import Call
from gradwright_kernels.device.launcher import Eager
from gradwright_kernels.fused import terms
from gradwright_kernels.launch import use
from gradwright_kernels.rows import layer_norm
from tests.kernels.places import cuda, launched, placed
from tests.support.sweeps import IS_WHOLE, spread

Array = np.ndarray[Any, Any]

# Unit in the last place times a few: results differ by rounding of the output, sums are in float32.
TOLERANCES = [
    ("float64", 1e-14, 1e-13),
    ("float32", 2e-6, 2e-6),
    ("float16", 2e-3, 2e-3),
    ("bfloat16", 2e-2, 2e-2),
]


FLOAT32 = TOLERANCES[1]


def varied(values: Sequence[Any], usual: Any) -> list[tuple[Any, ...]]:
    """Return all values in float32, and the usual one in every other dtype."""
    others = [tolerance for tolerance in TOLERANCES if tolerance is not FLOAT32]
    return [(v, *FLOAT32) for v in values] + [(usual, *tolerance) for tolerance in others]


def cast(x: Array | None, name: str) -> Array | None:
    floating = x is not None and np.issubdtype(x.dtype, np.floating)
    return x.astype(dtype(name)) if floating else x


def wide(x: Array | None) -> Array | None:
    return x if x is None or kind(x.dtype) in "biu" else x.astype(np.float64)


def reference(op: Op, xs: list[Array | None]) -> tuple[Array, ...]:
    """Compute in float64, from the numbers that the narrow arrays hold."""
    return run_forward(op, [wide(x) for x in xs])


def agree(op: Op, xs: list[Array | None], atol: float, rtol: float) -> None:
    got = launched(op, xs)
    assert got is not None, f"{op} declined {[str(spec_of(x)) for x in xs]}"
    for y, expected in zip(got, reference(op, xs), strict=True):
        np.testing.assert_allclose(wide(y), expected, rtol=rtol, atol=atol, equal_nan=True)


load()  # gradients of several ops take their samples from one of these
NOT_SAMPLED = {"pullback", "scaled_dot_product_attention"}
"""What has no samples, or takes none of its own: attention of many scores, in half precision."""
AS_TERMS = set(chain(*terms.WRITTEN.values()))
BY_HAND = sorted(({*lowered_ops("cuda")} & OPS.keys()) - NOT_SAMPLED - AS_TERMS)
TRIED = BY_HAND + [
    op for names in terms.WRITTEN.values() for op in (names if IS_WHOLE else names[:1])
]
"""All that is written by hand, and an op of each function that writes terms, or all of a sweep."""


def dtypes_of(n: int, op: str) -> list[tuple[str, float, float]]:
    """Return the dtypes that an op is tried in: of several they take turns."""
    if IS_WHOLE:
        return TOLERANCES
    turn = TOLERANCES[n % len(TOLERANCES)]
    return [FLOAT32, turn] if op in BY_HAND and turn is not FLOAT32 else [turn]


@pytest.mark.parametrize(
    ("op_name", "name", "atol", "rtol"),
    [(op, *dtype) for n, op in enumerate(TRIED) for dtype in dtypes_of(n, op)],
)
def test_lowerings_agree_on_the_samples_of_their_op(
    op_name: str, name: str, atol: float, rtol: float
) -> None:
    cls, taken = find_op(op_name), 0
    samples = list(cls.samples(np.random.default_rng(0)))
    for sample in samples if op_name in BY_HAND else spread(samples, 3):
        op = cls(**sample.attrs)
        xs = [cast(x, name) for x in sample.inputs]
        outs = infer_specs(op, [None if x is None else spec_of(x) for x in xs])
        if all(s.is_concrete for s in outs) and launched(op, xs) is not None:
            agree(op, xs, atol, rtol)
            taken += 1
            if name != "float32":  # which has them all
                break
    assert taken, f"the lowering of {op_name} declined every sample"


def normal(shape: int | tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


SOFTMAX = [
    *[((3, 1), -1), ((300, 7), 1), ((2, 5000), -1), ((3, 33, 5), 1), ((17,), 0)],
    ((4, 50, 129), 0),
]


@pytest.mark.parametrize(("of", "name", "atol", "rtol"), varied(SOFTMAX, SOFTMAX[3]))
def test_softmax_of_awkward_shapes(of: Any, name: str, atol: float, rtol: float) -> None:
    shape, axis = of
    agree(find_op("softmax")(axis=axis), [cast(3 * normal(shape), name)], atol, rtol)


@pytest.mark.parametrize(("shape", "axis"), [((2, 17_000), -1), ((1, 16_400, 3), 1)])
def test_softmax_of_rows_wider_than_registers(shape: tuple[int, ...], axis: int) -> None:
    x = cast(3 * normal(shape), "float32")
    agree(find_op("softmax")(axis=axis), [x], 1e-8, 1e-5)


@pytest.mark.parametrize("width", [10, 17_000])
def test_softmax_of_masked_rows(width: int) -> None:
    x = cast(normal((3, width)), "float32")
    x[0, : width - 2] = -np.inf  # whole chunks without a finite number
    x[1, 3:] = -np.inf
    x[2, 5] = 1e4  # exp(1e4) overflows
    agree(find_op("softmax")(), [x], 1e-7, 1e-5)
    x[1] = -np.inf
    x[2, width // 2] = np.nan
    with np.errstate(invalid="ignore"):
        [y] = launched(find_op("softmax")(), [x])
    assert np.isfinite(y[0]).all()
    assert np.isnan(y[1:]).all()


LAYER_NORMS = [  # shape, axis
    ((5, 1), -1),
    ((3, 7), -1),
    ((40, 33), -1),
    ((3, 5, 6), 1),
    ((700, 3), -1),
]


def layer_norm_inputs(shape: tuple[int, ...], axis: int, name: str) -> list[Array]:
    inner = shape[axis:]
    spread = 4.0 * (np.arange(shape[-1]) % 3)  # no row is nearly constant: 1/σ stays of order 1
    return [cast(a, name) for a in (normal(shape, 1) + spread, normal(inner, 2), normal(inner, 3))]


def backward(wrt: tuple[int, ...] = (0, 1, 2), n_inputs: int = 3, axis: int = -1) -> Op:
    op = find_op("layer_norm")(axis=axis)
    return Pullback(op=op, n_inputs=n_inputs, wrt=wrt, present=(True,))


@pytest.mark.parametrize(("of", "name", "atol", "rtol"), varied(LAYER_NORMS, LAYER_NORMS[2]))
def test_layer_norm_of_awkward_shapes(of: Any, name: str, atol: float, rtol: float) -> None:
    shape, axis = of
    agree(find_op("layer_norm")(axis=axis), layer_norm_inputs(shape, axis, name), 3 * atol, rtol)


ALL = (0, 1, 2)
BACKWARD = [
    *((shape, ALL) for shape in LAYER_NORMS),
    *((LAYER_NORMS[3], wrt) for wrt in [(0,), (1, 2), (2,), (0, 1)]),
]


@pytest.mark.parametrize(("of", "name", "atol", "rtol"), varied(BACKWARD, BACKWARD[2]))
def test_layer_norm_backward(of: Any, name: str, atol: float, rtol: float) -> None:
    (shape, axis), wrt = of
    xs = [*layer_norm_inputs(shape, axis, name), cast(normal(shape), name)]
    agree(backward(wrt, axis=axis), xs, atol * (1 + shape[0] ** 0.5), rtol)


@pytest.mark.parametrize(("name", "atol", "rtol"), TOLERANCES[1:])
def test_layer_norm_of_wide_rows(name: str, atol: float, rtol: float) -> None:
    xs = layer_norm_inputs((2, 5000), -1, name)
    agree(find_op("layer_norm")(), xs, 3 * atol, rtol)
    agree(backward(), [*xs, cast(normal((2, 5000)), name)], 3 * atol, rtol)


@pytest.mark.parametrize("programs", [2, 264])
def test_layer_norm_shares_out_many_rows(programs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_norm, "PROGRAMS", programs)  # 38 tiles of rows: loops on either side
    xs = [*layer_norm_inputs((600, 33), -1, "float32"), cast(normal((600, 33)), "float32")]
    agree(backward(), xs, 5e-5, 2e-6)


@pytest.mark.parametrize(("name", "width"), [("float32", 8193), ("float64", 2049)])
def test_rows_that_would_spill_run_as_the_expansion(name: str, width: int) -> None:
    xs = layer_norm_inputs((2, width), -1, name)
    assert launched(find_op("layer_norm")(), xs) is None
    assert launched(backward(), [*xs, xs[0]]) is None


@pytest.mark.parametrize("n_inputs", [1, 2])
def test_layer_norm_backward_without_bias_or_weight(n_inputs: int) -> None:
    xs = layer_norm_inputs((6, 10), -1, "float32")[:n_inputs]
    op = backward(tuple(range(n_inputs)), n_inputs)
    agree(op, [*xs, cast(normal((6, 10)), "float32")], 5e-6, 2e-6)


def test_layer_norm_adds_up_rows_in_the_same_order_each_time() -> None:
    xs = [*layer_norm_inputs((2000, 3), -1, "float32"), cast(normal((2000, 3)), "float32")]
    first, second = launched(backward(), xs), launched(backward(), xs)
    assert [y.tobytes() for y in first] == [y.tobytes() for y in second]


def adam_inputs(n: int, param: str, state: str, step: int = 3) -> list[Array]:
    p, g, m = (cast(normal(n, i), d) for i, d in enumerate((param, param, state)))
    v = cast(normal(n, 3) ** 2, state)
    numbers = [np.float32(1e-2), np.float64(0.9), np.float64(0.999), np.float64(1e-8), 0.01]
    return [p, g, m, v, *map(np.asarray, (np.int64(step), *numbers))]


@pytest.mark.parametrize(("n", "name", "atol", "rtol"), varied([1, 1000, 1024, 3001], 3001))
def test_adam_of_awkward_sizes(n: int, name: str, atol: float, rtol: float) -> None:
    agree(find_op("adam_update")(), adam_inputs(n, name, name), atol, rtol)


@pytest.mark.parametrize("step", [1, 1_000_000])
def test_adam_corrects_the_bias_of_the_first_and_of_late_steps(step: int) -> None:
    agree(find_op("adam_update")(), adam_inputs(100, "float32", "float32", step), 2e-6, 2e-6)


def test_adam_keeps_moments_in_float32_for_bfloat16_parameters() -> None:
    op, xs = find_op("adam_update")(), adam_inputs(500, "bfloat16", "float32")
    p, m, v = launched(op, xs)
    expected_p, expected_m, expected_v = reference(op, xs)
    np.testing.assert_allclose(wide(p), expected_p, rtol=2**-8)
    np.testing.assert_allclose(m, expected_m, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(v, expected_v, rtol=1e-5, atol=1e-6)


def test_adam_updates_in_place() -> None:
    op, xs = find_op("adam_update")(), adam_inputs(3001, "float32", "float32")
    expected = launched(op, xs)
    ins = [spec_of(x) for x in xs]
    held, read = placed(xs)
    with use(Eager(cuda())):
        launch = find_launch(op, "cuda", ins, infer_specs(op, ins))
    launch(held, [held[0], held[2], held[3]])
    p, _, m, v, *_ = read()
    for got, y in zip((p, m, v), expected, strict=True):
        assert got.tobytes() == y.tobytes()


MATMULS = [  # shapes of both; tails of tiles on every side, batches that are broadcast
    *[((70, 65), (65, 67)), ((1, 300), (300, 1)), ((5,), (5, 3)), ((2, 1, 9, 4), (3, 4, 8))],
    ((3, 0), (0, 2)),
]


@pytest.mark.parametrize(("of", "name", "atol", "rtol"), varied(MATMULS, MATMULS[0]))
def test_matmul_of_awkward_shapes(of: Any, name: str, atol: float, rtol: float) -> None:
    a, b = (cast(normal(shape, n), name) for n, shape in enumerate(of))
    agree(find_op("matmul")(), [a, b], 4 * atol, 20 * rtol)


def test_matmul_takes_transposes_as_they_lie() -> None:
    a, b = (cast(normal((20, 30), n), "float32") for n in range(2))
    agree(find_op("matmul")(), [a.T, b], 2e-5, 2e-6)
    agree(find_op("matmul")(), [a[::2], b.T[:, 3:]], 2e-5, 2e-6)
    a, b = cast(normal((2, 3, 4, 5, 6)), "float32"), cast(normal((4, 1, 2, 6, 2)), "float32")
    turned = a.transpose(2, 1, 0, 3, 4)  # three axes of batches, none of which goes on in another
    agree(find_op("matmul")(), [turned, b], 2e-5, 2e-6)
    agree(find_op("linear")(), [turned, b[0, 0, 0], b[0, 0, 0, :4:2, 0]], 2e-5, 2e-6)


def test_there_may_be_more_products_than_a_grid_has_rows() -> None:
    x, ins = np.empty((70_000, 2, 2), np.float32), [TensorSpec((70_000, 2, 2))] * 2
    with use(Eager(cuda())):  # which refuses more than 65,535 along any but the first axis
        find_launch(find_op("matmul")(), "cuda", ins, ins[:1]).bind([x, x], [x])


@pytest.mark.parametrize(("dtype", "ignored"), [("uint8", -100), ("int32", 7), ("int64", None)])
def test_classes_are_copied_whatever_they_are(dtype: str, ignored: int | None) -> None:
    labels = np.arange(1500).reshape(3, 500).astype(dtype)
    [found] = launched(CheckClasses(ignore_index=ignored), [labels, np.zeros((3, 500, 10))])
    np.testing.assert_array_equal(found, labels)


@pytest.mark.parametrize("name", ["int64", "complex64"])
def test_dtypes_without_a_kernel_are_declined(name: str) -> None:
    x = spec_of(np.zeros((2, 3), name))
    assert find_launch(find_op("softmax")(), "cuda", [x], [x]) is None


# -- the repaired interpreter --------------------------------------------------------------------


@triton.jit
def cast_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    for first in range(0, tl.cdiv(n, BLOCK) * BLOCK, BLOCK):
        i = first + tl.arange(0, BLOCK)
        tl.store(
            y_ptr + i,
            tl.load(x_ptr + i, mask=i < n, other=0).to(y_ptr.dtype.element_ty),
            mask=i < n,
        )


@triton.jit
def dot_kernel(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(c_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)))


def ran(kernel: Any, *arrays: Array, **rest: int) -> Array:
    """Return what the last array holds after one program of a kernel."""
    names = [n for n in kernel.arg_names if n.endswith("_ptr")]
    args = dict(zip(names, (a.dtype for a in arrays), strict=True))
    held, read = placed(arrays)
    Eager(cuda()).prepare(Call(kernel, (1, 1, 1), {**args, **rest}))(*held)
    return read()[-1]


@pytest.mark.parametrize("source", ["float64", "float32", "float16"])
def test_bfloat16_is_rounded_to_nearest_even(source: str) -> None:
    x = np.concatenate([normal(1000) * 1e3, [0.0, -0.0, np.inf, -np.inf, 1 + 2**-8, 1 + 3 * 2**-8]])
    x = x.astype(source)
    y = np.empty(x.shape, dtype("bfloat16"))
    y = ran(cast_kernel, x, y, n=x.size, BLOCK=256)
    assert y.tobytes() == x.astype(np.float32).astype(dtype("bfloat16")).tobytes()


def test_dot_of_bfloat16_multiplies_numbers() -> None:
    a, b = ((normal((16, 16), i)).astype(dtype("bfloat16")) for i in range(2))
    c = ran(dot_kernel, a, b, np.empty((16, 16), np.float32), N=16)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-6, atol=1e-6)
