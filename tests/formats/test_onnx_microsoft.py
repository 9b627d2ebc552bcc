"""Activations, norms, products and arrays of ``com.microsoft``, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.formats.microsoft import check, compare, node_model, run_ours, run_theirs

DRAW = np.random.default_rng(11)


def f32(*shape: int) -> Any:
    return DRAW.standard_normal(shape).astype(np.float32)


X, BIAS = f32(2, 3, 8), f32(8)
SIZES = {2: "B", 3: "T"}


@pytest.mark.parametrize(
    ("op_type", "inputs", "attrs"),
    [
        ("Gelu", [X], {}),
        ("FastGelu", [X], {}),
        ("FastGelu", [X, BIAS], {}),
        ("BiasGelu", [X, BIAS], {}),
        ("QuickGelu", [X], {}),
        ("QuickGelu", [X], {"alpha": 0.7}),
    ],
)
def test_activations(op_type: str, inputs: Any, attrs: Any) -> None:
    check(op_type, inputs, attrs, sizes=SIZES)


SKIP, SCALE, SHIFT = f32(2, 3, 8), f32(8), f32(8)


@pytest.mark.parametrize("inputs", [[SCALE], [SCALE, SHIFT], [SCALE, SHIFT, BIAS]])
@pytest.mark.parametrize("skip", [SKIP, SKIP[:1], SKIP[0]])
def test_skip_layer_norm(inputs: Any, skip: Any) -> None:
    check("SkipLayerNormalization", [X, skip, *inputs], {"epsilon": 1e-5}, sizes=SIZES)


def test_the_sum_that_was_normalised_is_an_output() -> None:
    for op_type, inputs in (
        ("SkipLayerNormalization", [X, SKIP, SCALE, SHIFT, BIAS]),
        ("SkipSimplifiedLayerNormalization", [X, SKIP, SCALE, BIAS]),
    ):
        proto, feeds = node_model(op_type, inputs, {"epsilon": 1e-6}, n=4)
        del proto.graph.output[1:3]
        proto.graph.node[0].output[1:3] = ["", ""]
        for ours, theirs in zip(run_ours(proto, feeds), run_theirs(proto, feeds), strict=True):
            compare(ours, theirs, 1e-5, 1e-6)


@pytest.mark.parametrize("inputs", [[SCALE], [SCALE, BIAS]])
def test_skip_simplified(inputs: Any) -> None:
    check("SkipSimplifiedLayerNormalization", [X, SKIP, *inputs], {"epsilon": 1e-6}, sizes=SIZES)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("axis", [-1, 1])
def test_simplified_in_the_domain_of_onnx(n: int, axis: int) -> None:
    scale = SCALE if axis == -1 else f32(3, 8)
    attrs = {"axis": axis, "epsilon": 1e-6, "stash_type": 1}
    check("SimplifiedLayerNormalization", [X, scale], attrs, n=n, domain="", sizes={2: "B"})


def test_layer_norm_before_onnx_had_it() -> None:
    check("LayerNormalization", [X, SCALE, SHIFT], {"epsilon": 1e-3}, domain="", opset=14)


IDS = DRAW.integers(0, 9, (2, 3)).astype(np.int32)
TABLES = [f32(9, 8), f32(6, 8), f32(2, 8)]
MASK = np.array([[1, 1, 0], [1, 1, 1]], np.int32)


@pytest.mark.parametrize(
    ("segments", "mask", "at"),
    [
        (IDS % 2, MASK, None),
        (IDS % 2, None, None),
        (None, MASK, None),
        (IDS % 2, MASK, np.array([[3, 4, 5], [0, 1, 2]], np.int32)),
        (IDS % 2, MASK, np.array([[3, 1, 5]], np.int32)),
    ],
)
def test_embed_layer_norm(segments: Any, mask: Any, at: Any) -> None:
    words, positions, kinds = TABLES
    if segments is None:
        kinds = None
    inputs = [IDS, segments, words, positions, kinds, SCALE, SHIFT, mask, at]
    stored = (2, 3, 4, 5, 6)
    check("EmbedLayerNormalization", inputs, {"epsilon": 1e-5}, n=3, sizes=SIZES, stored=stored)


A, B = f32(2, 3, 4), f32(2, 4, 5)


@pytest.mark.parametrize(
    ("a", "b", "attrs"),
    [
        (A, B, {}),
        (A, B, {"alpha": 0.125}),
        (A.mT, B, {"transA": 1}),
        (A, B.mT, {"transB": 1, "alpha": 2.0}),
        (A.transpose(1, 0, 2), B, {"transBatchA": 1}),
        (A.transpose(2, 0, 1), B.transpose(2, 0, 1), {"transBatchA": 1, "transA": 1,
                                                      "transBatchB": 1, "transB": 1}),
        (A[0], B[0].T, {"transB": 1}),
    ],
)  # fmt: skip
def test_fused_matmul(a: Any, b: Any, attrs: Any) -> None:
    check("FusedMatMul", [np.ascontiguousarray(a), np.ascontiguousarray(b)], attrs)


@pytest.mark.parametrize(
    "attrs",
    [
        {"activation": "Relu"},
        {"activation": "LeakyRelu", "activation_alpha": 0.2, "transB": 1},
        {"activation": "Sigmoid", "alpha": 0.5, "beta": 2.0},
        {"activation": "Tanh", "transA": 1},
        {"activation": "HardSigmoid", "activation_alpha": 0.3, "activation_beta": 0.4},
        {"activation": "Elu", "activation_alpha": 1.5},
    ],
)
def test_fused_gemm(attrs: Any) -> None:
    a = A[0].T if attrs.get("transA") else A[0]
    b = B[0].T if attrs.get("transB") else B[0]
    check("FusedGemm", [np.ascontiguousarray(a), np.ascontiguousarray(b), f32(5)], attrs)


IMAGE, KERNEL = f32(2, 3, 6, 5), f32(4, 3, 3, 3)


@pytest.mark.parametrize(
    "attrs",
    [
        {"activation": "Relu", "pads": [1, 1, 1, 1]},
        {"activation": "LeakyRelu", "activation_params": [0.2], "strides": [2, 1]},
        {"activation": "Clip", "activation_params": [-0.5, 1.0]},
        {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]},
        {"activation": "Tanh", "auto_pad": "SAME_UPPER"},
    ],
)
def test_fused_conv(attrs: Any) -> None:
    check("FusedConv", [IMAGE, KERNEL, f32(4)], {"kernel_shape": [3, 3], **attrs})


def test_fused_conv_adds_what_comes_another_way() -> None:
    attrs = {"kernel_shape": [3, 3], "activation": "Relu"}
    check("FusedConv", [IMAGE, KERNEL, f32(4), f32(2, 4, 4, 3)], attrs, stored=(1, 2))


def test_transposed_convolution_with_padding_as_an_input() -> None:
    pads = np.array([1, 0, 0, 1])
    for stored in ((1, 2), (1,)):
        check(
            "ConvTransposeWithDynamicPads",
            [IMAGE, f32(3, 4, 3, 3), pads, f32(4)],
            {"strides": [2, 2]},
            stored=stored,
            written=2 in stored,
        )


@pytest.mark.parametrize(
    ("op_type", "inputs", "attrs", "stored"),
    [
        ("Inverse", [f32(2, 4, 4)], {}, ()),
        ("CDist", [f32(3, 4), f32(5, 4)], {"metric": "sqeuclidean"}, ()),
        ("CDist", [f32(3, 4), f32(5, 4)], {"metric": "euclidean"}, ()),
        ("GatherND", [f32(3, 4), np.array([[0, 1], [2, 3]])], {}, ()),
        ("Trilu", [f32(2, 3, 4), np.array(1)], {"upper": 0}, (1,)),
        ("Trilu", [f32(3, 4)], {}, ()),
        ("Pad", [f32(2, 3), np.array([0, 1, 1, 0]), np.array([2.0], "f4")], {}, (1, 2)),
        ("Pad", [f32(2, 3), np.array([0, 1, 1, 0])], {"mode": "edge"}, ()),
        ("ExpandDims", [f32(2, 3), np.array([1], "i4")], {}, (1,)),
        ("Range", [np.array(1, "i4"), np.array(7, "i4")], {}, ()),
        ("Range", [np.array(1.0, "f4"), np.array(2.0, "f4"), np.array(0.25, "f4")], {}, ()),
        ("GridSample", [f32(1, 2, 4, 4), f32(1, 3, 3, 2)], {"align_corners": 1}, ()),
        ("CropAndResize", [f32(2, 3, 6, 5), np.array([[0, 0, 0.5, 1]], "f4"), np.array([1], "i4"),
                           np.array([3, 4], "i4")], {}, (3,)),
    ],
)  # fmt: skip
def test_arrays(op_type: str, inputs: Any, attrs: Any, stored: Any) -> None:
    """Where attributes are fed there is nothing to write."""
    fed = op_type in ("Pad", "Range") and not stored
    check(op_type, inputs, attrs, stored=stored, written=not fed)


HALF, HALVES = X.astype("f2"), [v.astype("f2") for v in (SKIP, SCALE, SHIFT, BIAS)]


@pytest.mark.parametrize(
    ("op_type", "inputs", "domain"),
    [
        ("SkipLayerNormalization", [HALF, *HALVES], "com.microsoft"),
        ("SkipSimplifiedLayerNormalization", [HALF, *HALVES[:2]], "com.microsoft"),
        ("SimplifiedLayerNormalization", [HALF, HALVES[1]], ""),
        ("LayerNormalization", [HALF, *HALVES[1:3]], ""),
        ("FastGelu", [HALF, HALVES[3]], "com.microsoft"),
        ("BiasGelu", [HALF, HALVES[3]], "com.microsoft"),
        ("QuickGelu", [HALF], "com.microsoft"),
        ("FusedMatMul", [HALF, f32(8, 4).astype("f2")], "com.microsoft"),
    ],
)
def test_halves(op_type: str, inputs: Any, domain: str) -> None:
    """To two of their last places: some kernels there round between their steps."""
    check(op_type, inputs, {}, domain=domain, opset=14, rtol=2**-9, atol=2**-9)
