"""What can be written as ONNX: every op's samples, and their gradients, beside ONNX Runtime."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import DTypeError, UnsupportedOpError
from gradwright.graph.expand import stand_in
from gradwright.op import OPS
from gradwright.ops.loading import load
from gradwright.spec import kind, known_spec
from gradwright.spec.containers import ContainerSpec, contents
from tests.formats.onnx_models import onnx

ort = pytest.importorskip("onnxruntime")
ort.set_default_logger_severity(4)
load()
OURS = [name for name, cls in OPS.items() if cls.__module__.startswith("gradwright.")]
"""Other tests declare ops, too."""

OPSET, DRAWN = 23, 21
"""ONNX Runtime draws random numbers up to opset 21 only."""

NOT_WRITTEN = {
    "spectra": {
        *("eigh", "eigvalsh", "eig", "eigvals", "svd", "svdvals", "pinv", "matrix_rank"),
        *("eigh_beside", "svd_beside", "gap_reciprocal", "adjugate_slope"),
    },
    "bytes of blocks, which opset 26 begins to see": {
        *("quantize_ggml", "dequantize_ggml", "ggml_matmul", "ggml_lora_matmul", "bit_cast"),
        *("ggml_grouped_matmul", "ggml_embedding"),
        *("packed_matmul_grad", "adam8bit_update"),
    },
    "draws of no fixed number, or that gradients read again": {
        *("poisson", "fold_in", "random_crop", "random_crop_grad", "xtc_filter"),
    },
    "places that a few programs of ours work out at once": {
        *("roi_taps", "ctc_curvature", "update_fp8_scale"),
    },
    "rows that a step of training names": {
        *("sum_rows", "take_rows", "put_rows", "update_rows"),
    },
    "gradients of sequences": {"add_items", "fill_items", "split_items"},
}
"""Reason -> ops of which no sample is written."""

THEIRS = {
    "types that its Python face does not take": {
        *("cast", "full", "quantize_linear", "dequantize_linear", "quantized_matmul"),
        *("quantize_fp8", "scaled_matmul", "matmul_integer", "truncated_normal", "laplace"),
        *("binomial", "normal", "uniform", "log_normal", "length", "optional_has_element"),
        "optional_get_element",
    },
    "kernels that it has not": {
        *("decode_image", "gcd", "lcm", "unique"),
        *("global_lp_pool", "roi_align", "local_response_norm"),
        *("conv_integer", "flex_attention", "adagrad_step", "adam_step", "momentum_step"),
        *("deform_conv2d", "grid_sample", "resize", "exponential", "gumbel", "bernoulli"),
        *("categorical", "label_cross_entropy", "attention"),
    },
    "scans, means and texts of nothing": {
        *("linear_scan", "cumprod", "cummax", "cummin", "logcumsumexp", "zero_fraction"),
        *("mixture_of_experts", "string_normalizer", "segment_prod", "unsorted_segment_prod"),
        *("scatter_mul", "scatter_div", "scatter_nd_mul", "dynamic_stitch"),
    },
    "layers with an empty sequence, or with coupled gates": {"rnn", "gru", "lstm"},
    "texts that are folded or split": {
        "string_split",
        "string_normalizer",
        "tokenize",
        "to_number",
    },
}
"""What ONNX Runtime 1.32 has not, or has otherwise -> ops some of whose samples differ by it."""


def samples(cls: type[gw.Op]) -> list[gw.Sample]:
    try:
        return list(cls.samples(np.random.default_rng(0)))
    except NotImplementedError:
        return []


def float_of(x: gw.Tensor) -> bool:
    return not isinstance(x.spec, ContainerSpec) and kind(x.dtype) == "f"


def built(
    cls: type[gw.Op], sample: gw.Sample, dtype: str, gradient: bool
) -> tuple[gw.Graph, list[gw.Tensor], dict[str, Any]] | None:
    """Return the graph of a sample, or of its gradients, in a dtype; None if it has none."""
    graph, feeds = gw.Graph("sample"), dict[str, Any]()
    tensors: list[gw.Tensor | None] = []
    for i, x in enumerate(sample.inputs):
        if x is None:
            tensors.append(None)
            continue
        array = np.asarray(x)
        with np.errstate(over="ignore"):
            array = array.astype(dtype) if array.dtype == np.float64 else array
        tensors.append(stand_in(graph, f"x{i}", known_spec(array)))
        feeds[f"x{i}"] = array
    try:
        with graph:
            found = cls(**sample.attrs)(*tensors)
    except DTypeError:  # a body states float64
        return None
    outs = list(found) if isinstance(found, tuple) else [found]
    if not gradient:
        return graph, outs, feeds
    xs = [x for x in tensors if x is not None and float_of(x)]
    ys = [y for y in outs if float_of(y)]
    if not xs or not ys:
        return None
    with graph:
        total = functools.reduce(gw.add, [(gw.cast(y, "float64") ** 2).sum() for y in ys])
        try:
            found = gw.gradients(total, xs)
        except gw.errors.GradwrightError:
            return None
    return graph, list(dict.fromkeys(found)), feeds


def fed(x: Any) -> Any:
    """Return what ONNX Runtime takes: pairs for complex numbers, objects for texts, lists."""
    if x.dtype == object and x.ndim == 0:
        held = contents(x)
        return list(held.items)
    if kind(x.dtype) == "c":
        return np.stack([x.real, x.imag], -1)
    return x.astype(object) if x.dtype.kind == "T" else x


def alike(a: Any, b: Any, rtol: float) -> None:
    if isinstance(b, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            alike(x, y, rtol)
        return
    if b is None:
        assert a is None
        return
    a, b = np.asarray(a), fed(np.asarray(b))
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    if b.dtype.kind == "O":
        assert a.tolist() == b.tolist()
    elif kind(b.dtype) == "f":
        few = b.dtype.itemsize < 4
        tolerance = {"rtol": 2e-2, "atol": 2e-2} if few else {"rtol": rtol, "atol": 5e-6}
        np.testing.assert_allclose(a.astype("float64"), b.astype("float64"), **tolerance)
    else:
        np.testing.assert_array_equal(a, b)


def outcome(cls: type[gw.Op], sample: gw.Sample, dtype: str, gradient: bool) -> str:
    """Write a sample, run it in ONNX Runtime, and tell how that went."""
    made = built(cls, sample, dtype, gradient)
    if made is None:
        return "none"
    graph, outs, feeds = made
    drawn = bool(cls.inputs) and next(iter(cls.inputs)).name == "rng"
    try:
        model = gw.onnx.to_model(graph, outs, opset=DRAWN if drawn else OPSET)
    except UnsupportedOpError:
        return "not written"
    onnx.checker.check_model(model, full_check=True)
    with gw.Session(graph) as session:
        expected = session.run(outs, feeds)
    try:
        theirs = ort.InferenceSession(model.SerializeToString())
        taken = {i.name for i in theirs.get_inputs()}
        given = {k: fed(v) for k, v in feeds.items() if k in taken}
        found = theirs.run([o.name for o in model.graph.output], given)
    except Exception:
        return "theirs"
    try:
        for a, b in zip(found, expected, strict=True):
            if drawn:
                assert np.shape(a) == np.shape(b)
            else:
                alike(a, b, 2e-4 if gradient else 5e-5)
    except AssertionError as error:
        return f"differs: {' '.join(str(error).split())[:200]}"
    return "same"


def outcomes(cls: type[gw.Op], gradient: bool) -> set[str]:
    """Return how samples went, each in the first dtype of two in which it is written and runs."""
    found = set()
    for sample in samples(cls):
        first = outcome(cls, sample, "float32", gradient)
        second = first if first in ("same", "none") else outcome(cls, sample, "float64", gradient)
        found.add(second if second in ("same", "none") else first)
    return found


SOME = set().union(*THEIRS.values())
OTHER = {
    *("mixture_of_experts", "quantize_fp8", "quantize_linear", "resize", "string_normalizer"),
    *("string_split", "tokenize", "unique", "zero_fraction", "gru", "lstm", "rnn"),
}
"""Those of which it gives other numbers; the others it refuses."""
NONE = set().union(*NOT_WRITTEN.values())


@pytest.mark.parametrize("part", range(8))
def test_samples_mean_the_same_to_onnx_runtime(part: int) -> None:
    wrong = []
    for name in OURS[part::8]:
        found = outcomes(OPS[name], gradient=False) - {"none"}
        written = not found or found != {"not written"}
        if written == (name in NONE):
            wrong.append(f"{name}: {found}, {'' if name in NONE else 'not '}in NOT_WRITTEN")
        bad = {o for o in found if o not in ("same", "not written")}
        if bad and (name not in SOME or (bad != {"theirs"} and name not in OTHER)):
            wrong.append(f"{name}: {bad}")
    assert not wrong, "\n".join(wrong)


NO_GRADIENT = {"roi_align", "condition_number", "det", "adjugate", "lstsq", "ctc_grad"}
"""Ops whose gradients are not written, beside those of which nothing is."""


@pytest.mark.parametrize("part", range(4))
def test_gradients_mean_the_same_to_onnx_runtime(part: int) -> None:
    wrong = []
    for name in OURS[part::4]:
        for sample in samples(OPS[name])[:1]:
            found = outcome(OPS[name], sample, "float32", gradient=True)
            excused = found.startswith(("theirs", "not")) and name in SOME | NONE | NO_GRADIENT
            if found not in ("same", "none") and not excused:
                wrong.append(f"{name}: {found}")
    assert not wrong, "\n".join(wrong)


def test_what_is_drawn_has_the_range_that_was_written() -> None:
    logits = np.random.default_rng(0).standard_normal((400, 9)).astype("float32")
    with gw.Graph() as g:
        x = g.placeholder("x", (400, 9))
        gw.nn.top_k_sample(x, k=3, name="k")
        gw.nn.top_p_sample(x, p=0.6, name="p")
        gw.nn.token_sample(x, temperature=0.0, name="best")
        gw.random.permutation(50, name="order")
        gw.random.randint((500,), -3, 4, name="whole")
        gw.random.binomial((2000,), n=10, p=0.3, name="hits")
        gw.random.truncated_normal((2000,), mean=1.0, std=2.0, name="cut")
        gw.random.laplace((4000,), loc=0.5, scale=2.0, name="wide")
    names = ["k", "p", "best", "order", "whole", "hits", "cut", "wide"]
    model = gw.onnx.to_model(g, names, opset=DRAWN)
    theirs = ort.InferenceSession(model.SerializeToString()).run(None, {"x": logits})
    ours = gw.onnx.load(model).output({"x": logits}, *names).values()
    rank = np.argsort(np.argsort(-logits, -1), -1)
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    ranked = -np.sort(-p, -1)
    before = np.take_along_axis(np.cumsum(ranked, -1) - ranked, rank, -1)
    for k, among, best, order, whole, hits, cut, wide in (theirs, ours):
        rows = np.arange(400)
        assert rank[rows, k].max() == 2
        assert before[rows, among].max() < 0.6
        np.testing.assert_array_equal(best, logits.argmax(-1))
        assert sorted(order.tolist()) == list(range(50)) != order.tolist()
        assert sorted(set(whole.tolist())) == list(range(-3, 4))
        assert abs(hits.mean() - 3) < 0.1 and abs(hits.std() - 2.1**0.5) < 0.1
        assert -3 <= cut.min() < -2.5 and 4.5 < cut.max() <= 5 and abs(cut.mean() - 1) < 0.15
        assert abs(np.median(wide) - 0.5) < 0.2 and abs(np.abs(wide - 0.5).mean() - 2) < 0.15
