"""What ops say of their dependence on an input: held against whole Jacobians, and who says nothing.

Every claim of every op is held against its forward on all its samples by `tests/ops/test_ops.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.debug.float64 import wide
from gradwright.errors import GraphError
from gradwright.graph import Source
from gradwright.op import OPAQUE, OPS, Dependence, Op, find_op, run_forward
from gradwright.ops.core.pullback import Pullback
from gradwright.ops.loading import load as load_ops
from gradwright.spec import is_floating
from gradwright.testing import check_op, samples
from gradwright.testing.common import cases
from gradwright.testing.dependence import broken

RNG = np.random.default_rng(0)
IMAGES = RNG.standard_normal((2, 2, 5, 6))
ROW = RNG.standard_normal((3, 4))
LABELS = np.array([1, 0, 3])


def made(name: str, **attrs) -> Op:
    return find_op(name)(**attrs)


def jacobian(op, xs, i):
    """Return ∂y/∂xᵢ of the first output by central differences, ``[*y.shape, *xᵢ.shape]``."""
    x, columns = xs[i], []
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = 1e-6
        up, down = (run_forward(op, [*xs[:i], x + s * step, *xs[i + 1 :]])[0] for s in (1, -1))
        columns.append((up - down) / 2e-6)
    return np.stack(columns, -1).reshape(*columns[0].shape, *x.shape)


CLAIMS = {
    "add": (made("add"), (ROW, ROW[0]), 1, "affine"),
    "mul": (made("mul"), (ROW, ROW[:, :1]), 1, "affine"),
    "numerator": (made("div"), (ROW, ROW[0] + 3), 0, "affine"),
    "denominator": (made("div"), (ROW, ROW[0] + 3), 1, "element"),
    "where": (made("where"), (ROW > 0, ROW, ROW[0]), 2, "affine"),
    "tanh": (made("tanh"), (ROW,), 0, "element"),
    "gelu": (made("gelu"), (ROW,), 0, "element"),
    "matmul": (made("matmul"), (ROW, ROW.T.copy()), 1, "linear"),
    "concat": (made("concat", axis=1), (ROW, ROW), 1, "linear"),
    "mean": (made("mean", axis=(0, 1)), (ROW,), 0, "linear"),
    "gather": (made("gather"), (ROW, LABELS[:2]), 0, "linear"),
    "conv2d": (made("conv2d", stride=2, padding=1), (IMAGES, IMAGES[:, :, :2, :3]), 1, "linear"),
    "resize": (made("resize", sizes=(3, 4), mode="cubic"), (IMAGES,), 0, "linear"),
    "average": (made("avg_pool2d", kernel_size=3, padding=1), (IMAGES,), 0, "linear"),
    "written": (made("scatter_update"), (ROW, LABELS[:, None], ROW[:, :1]), 2, "linear"),
    "kept": (made("scatter_update"), (ROW, LABELS[:, None], ROW[:, :1]), 0, "affine"),
    "softmax": (made("softmax", axis=0), (ROW,), 0, "rows"),
    "largest": (made("max", axis=(-1,)), (ROW,), 0, "rows"),
    "kept rows": (made("logsumexp", axis=0, keepdims=True), (ROW,), 0, "rows"),
    "sorted": (made("sort", axis=1), (ROW,), 0, "rows"),
    "products": (made("cumprod", axis=0), (ROW,), 0, "rows"),
    "labels": (made("label_cross_entropy"), (LABELS, ROW), 1, "rows"),
    "standard": (made("standard_rows"), (ROW,), 0, "rows"),
    "pool": (made("max_pool2d", kernel_size=(2, 3)), (IMAGES,), 0, "windows"),
    "cut pool": (made("max_pool2d", kernel_size=3, stride=3), (IMAGES,), 0, "windows"),
    "all rows": (made("max"), (ROW,), 0, "opaque"),
    "two axes": (made("logsumexp", axis=(0, 1)), (ROW,), 0, "opaque"),
    "overlap": (made("max_pool2d", kernel_size=3, stride=2), (IMAGES,), 0, "opaque"),
    "padded": (made("max_pool2d", kernel_size=2, padding=1), (IMAGES,), 0, "opaque"),
    "dilated": (made("max_pool2d", kernel_size=2, dilation=2), (IMAGES,), 0, "opaque"),
    "trailing axes": (made("standard_rows", axis=1), (IMAGES,), 0, "opaque"),
}


@pytest.mark.parametrize("case", CLAIMS)
def test_claims_are_what_a_jacobian_shows(case):
    op, xs, i, kind = CLAIMS[case]
    claim = op.depends(i)
    assert claim.kind == kind
    found = jacobian(op, xs, i)
    out, x = found.shape[: found.ndim - xs[i].ndim], xs[i]
    if kind in ("affine", "linear"):
        moved = [*xs[:i], x + RNG.standard_normal(x.shape), *xs[i + 1 :]]
        np.testing.assert_allclose(jacobian(op, moved, i), found, atol=1e-8)
    for y_at in np.ndindex(out):
        for x_at in np.ndindex(x.shape):
            if not meets(claim, y_at, x_at, x.shape, len(out)):
                assert abs(found[(*y_at, *x_at)]) < 1e-9, (y_at, x_at)


def meets(claim, y_at, x_at, shape, rank):
    """Tell, place by place, whether a claim lets an input element reach an output element."""
    match claim.kind:
        case "affine" | "element":
            aligned = y_at[rank - len(shape) :]
            return all(n == 1 or a == b for a, b, n in zip(aligned, x_at, shape, strict=True))
        case "rows":
            axis = claim.axis % len(shape)
            rest = x_at[:axis] + x_at[axis + 1 :]
            return rest == (y_at if rank < len(shape) else y_at[:axis] + y_at[axis + 1 :])
        case "windows":
            lead = len(shape) - len(claim.size)
            window = tuple(a // n for a, n in zip(x_at[lead:], claim.size, strict=True))
            return y_at == (*x_at[:lead], *window)
    return True


FALSE = [
    ("softmax of elements", made("softmax"), (ROW,), Dependence("element")),
    ("tanh affine", made("tanh"), (ROW,), Dependence("affine")),
    ("square linear", made("square"), (ROW,), Dependence("linear")),
    ("relu linear", made("relu"), (ROW,), Dependence("linear")),
    ("sum of elements", made("sum", axis=1), (ROW,), Dependence("affine")),
    ("other axis", made("softmax", axis=0), (ROW,), Dependence("rows", 1)),
    ("no such axis", made("softmax"), (ROW,), Dependence("rows", 2)),
    ("no axis", made("softmax"), (ROW,), Dependence("rows")),
    ("smaller", made("max_pool2d", kernel_size=3), (IMAGES,), Dependence("windows", size=(2, 2))),
    ("flipped", made("flip", axis=1), (ROW,), Dependence("affine")),
    ("one of 2", made("cumsum", axis=1), (ROW,), Dependence("rows", 0)),
]


@pytest.mark.parametrize(("op", "xs", "claim"), [f[1:] for f in FALSE], ids=[f[0] for f in FALSE])
def test_a_false_claim_is_contradicted(op, xs, claim):
    assert broken(claim, lambda x: [run_forward(op, [x])[0]], xs[0])


SILENT = {
    *("adjugate", "cholesky", "det", "eig", "eigh", "eigh_beside", "eigvalsh", "inv", "lu", "pinv"),
    *("matrix_exp", "qr", "slogdet", "solve", "svd", "svd_beside", "svdvals", "triangular_solve"),
    *("unit_lower_inverse", "gap_reciprocal"),  # matrices meet whole
    *("head_log_probs", "head_log_probs_grad"),  # each result has read the whole head
    *("gru", "lstm", "rnn", "recurrent_grad", "scan", "while", "cond"),  # steps follow steps
    *("flash_attention", "flash_attention_grad", "flash_attention_mask_grad"),
    *("ctc_of_logs", "ctc_grad", "ctc_curvature"),
    *("max_pool1d", "max_pool2d", "max_pool3d", "max_pool_with_argmax"),  # overlapping windows
    *("max", "min", "prod", "logsumexp", "root_sum_squares", "global_norm"),  # over several axes
    *("standard_rows", "standard_rows_grad", "linear_scan"),  # rows of several axes; matrices
    *("scatter_max", "scatter_min", "scatter_nd_max", "scatter_nd_min"),  # ties of updates
    *("segment_max", "segment_min", "segment_prod"),
    *("unsorted_segment_max", "unsorted_segment_min", "unsorted_segment_prod"),
    *("unique", "list_diff", "histogram", "typical_p_filter", "xtc_filter", "roi_taps"),
    *("fake_quantize", "quantize_linear", "dynamic_quantize_linear", "quantize_blockwise"),
    *("quantize_nf4", "quantize_fp8", "turbo_quantize", "kv_cache_quantize", "update_fp8_scale"),
    *("dequantize_blockwise", "dequantize_nf4", "awq_matmul", "nf4_matmul", "quantized_matmul"),
    *("scaled_matmul", "adam8bit_update"),  # codes and scales, which no gradient passes
}
"""Ops with an input of which nothing is said, in one of their samples at least."""


def asked(op, xs):
    """Return the inputs of which a gradient check asks: those of real numbers that are read."""
    kept = [i for i, x in enumerate(xs) if x is not None and i not in op.shape_only]
    return [i for i in kept if wide(xs[i].dtype) == np.float64]


def test_who_says_nothing():
    load_ops()
    silent, n_all, n_silent = set(), 0, 0
    for name, cls in list(OPS.items()):
        opened = cls.is_composite() and cls.forward is Op.forward  # its parts are asked
        ours = cls.__module__.startswith("gradwright.ops.")
        if not ours or opened or issubclass(cls, Source) or cls is Pullback:
            continue
        for sample in samples(cls):
            for op, xs in cases(cls, sample):
                n_all += 1
                if any(op.depends(i) == OPAQUE for i in asked(op, xs)) and passes(op, xs):
                    n_silent += 1
                    silent.add(name)
    assert silent == SILENT, "an op declares `dependence`, or joins those that cannot"
    assert n_silent < n_all / 6


def passes(op, xs):
    """Tell whether any output is of numbers that a gradient passes."""
    with np.errstate(all="ignore"):
        return any(is_floating(y.dtype) for y in run_forward(op, xs)[: op.n_public])


# -- ops of users ----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _forget():
    known = set(OPS)
    yield
    for name in {n for n in OPS if "/" in n} - known:
        del OPS[name]


def kinds(made_op, **attrs):
    op = made_op.op(**attrs)
    return [op.depends(i) for i in range(len(op.inputs))]


def test_a_users_op_is_elementwise_unless_it_states_a_shape():
    plain = gw.define_op("test/plain", lambda a, b: a * b)
    shaped = gw.define_op("test/shaped", lambda a: a, like=0)
    assert [d.kind for d in kinds(plain)] == ["element", "element"]
    assert kinds(shaped) == [OPAQUE]


def test_a_users_op_declares_one_dependence_per_input():
    op = gw.define_op(
        "test/scaled",
        lambda x, w, axis=0: x.cumsum(axis) * w,
        like=0,
        depends=("linear", "affine"),
    )
    rows = gw.define_op("test/rows", lambda x, axis=0: np.sort(x, axis), like=0, depends="rows")
    last = gw.define_op("test/last", lambda x: np.sort(x), like=0, depends="rows")
    assert [d.kind for d in kinds(op)] == ["linear", "affine"]
    assert kinds(rows, axis=1) == [Dependence("rows", 1)]
    assert kinds(last) == [Dependence("rows", -1)]


@pytest.mark.parametrize("depends", ["windows", "Linear", ("linear",), ("element",) * 3, 3, [[]]])
def test_what_is_not_understood_is_refused(depends):
    with pytest.raises(GraphError, match=r"depends=.* is not understood"):
        gw.define_op("test/pair", lambda a, b: a + b, depends=depends)
    assert "test/pair" not in OPS


def test_an_op_may_have_a_domain():
    def strict(x):
        if (x <= 0).any():
            raise ValueError("not above 0")
        return np.log(x)

    op = gw.define_op(
        "test/strict", strict, vjp=lambda g, y, x: g / x, samples=[np.array([0.5, 2.0])]
    )
    check_op(op)


def test_check_op_contradicts_a_false_claim():
    false = gw.define_op(
        "test/share",
        lambda x: x / x.sum(-1, keepdims=True),
        vjp=lambda g, y, x: (g - (g * y).sum(-1, keepdims=True)) / x.sum(-1, keepdims=True),
        depends="element",
        samples=[np.array([[1.0, 2.0], [3.0, 4.0]])],
    )
    with pytest.raises(AssertionError, match=r"depends\(0\) says element: input element \(0, 0\)"):
        check_op(false)
    true = gw.define_op(
        "test/share",
        lambda x: x / x.sum(-1, keepdims=True),
        vjp=lambda g, y, x: (g - (g * y).sum(-1, keepdims=True)) / x.sum(-1, keepdims=True),
        depends="rows",
        samples=[np.array([[1.0, 2.0], [3.0, 4.0]])],
    )
    check_op(true)
