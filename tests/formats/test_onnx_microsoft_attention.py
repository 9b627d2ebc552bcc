"""Attention of ``com.microsoft`` in all its forms, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, GradwrightError
from tests.formats.microsoft import check, compare, node_model, run_ours, run_theirs

onnx = pytest.importorskip("onnx", reason="no onnx: pip install -e '.[onnx]'")
from onnx import helper  # noqa: E402

DRAW = np.random.default_rng(8)
B, T, S, N, E = 2, 3, 5, 2, 4
SIZES = {2: "B", 3: "T", 5: "S", 7: "total"}


def f32(*shape: int) -> Any:
    return DRAW.standard_normal(shape).astype(np.float32)


def i32(*values: Any) -> Any:
    return np.array(values, np.int32)


# -- projections in one weight -------------------------------------------------------------------

X, WEIGHT, BIAS = f32(B, T, 6), f32(6, 3 * N * E) / 2, f32(3 * N * E)
KEYS = i32([1, 1, 0], [1, 1, 1])
TRIANGLE = np.tril(np.ones((B, T, T), np.int32))
TRIANGLE[1, 2, 0] = 0


@pytest.mark.parametrize(
    ("mask", "attrs"),
    [
        (None, {}),
        (None, {"unidirectional": 1}),
        (None, {"scale": 0.3}),
        (KEYS, {}),
        (KEYS, {"unidirectional": 1}),
        (KEYS, {"mask_filter_value": -3.0}),
        (TRIANGLE, {}),
        (i32(2, 3), {}),
        (i32(2, 1), {}),
        (i32(3, 2, 1, 0), {}),
    ],
)
def test_attention(mask: Any, attrs: Any) -> None:
    inputs = [X, WEIGHT, BIAS, mask]
    check("Attention", inputs, {"num_heads": N, **attrs}, stored=(1, 2), sizes={3: "T"})


def test_attention_of_values_of_another_width() -> None:
    weight, bias = f32(6, 8 + 8 + 6), f32(22)
    attrs = {"num_heads": N, "qkv_hidden_sizes": [8, 8, 6]}
    check("Attention", [X, weight, bias, KEYS], attrs, stored=(1, 2), sizes=SIZES)


def test_attention_with_biases_of_scores() -> None:
    for more in (f32(B, N, T, T), f32(1, N, T, T), f32(1, 1, T, T)):
        check("Attention", [X, WEIGHT, BIAS, None, None, more], {"num_heads": N})


@pytest.mark.parametrize("mask", [None, np.array([[0] + [1] * 6, [1] * 7], np.int32)])
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention_with_a_past(mask: Any, unidirectional: int) -> None:
    past = f32(2, B, N, 4, E)
    attrs = {"num_heads": N, "unidirectional": unidirectional}
    check("Attention", [X, WEIGHT, BIAS, mask, past], attrs, n=2, stored=(1, 2))


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("mask", [None, i32(2, 3), KEYS])
@pytest.mark.parametrize("past", [False, True])
def test_qattention(past: bool, mask: Any, by_column: bool) -> None:
    """To the rounding of floats: the codes are multiplied exactly."""
    width = 3 * N * E
    shape = (width,) if by_column else ()
    cache = f32(2, B, N, 2, E) if past else None
    if past and mask is not None:
        mask = np.ones((B, T + 2), np.int32)
    inputs = [
        DRAW.integers(0, 256, (B, T, 6)).astype(np.uint8),
        DRAW.integers(-128, 128, (6, width)).astype(np.int8),
        f32(width), np.float32(0.02), DRAW.uniform(0.01, 0.02, shape).astype(np.float32),
        mask, np.uint8(128), np.zeros(shape, np.int8), cache,
    ]  # fmt: skip
    attrs = {"num_heads": N, "unidirectional": int(past)}
    check("QAttention", inputs, attrs, n=2, stored=(1, 2, 3, 4, 6, 7))


# -- queries, keys and values apart --------------------------------------------------------------

Q, K, V = f32(B, T, N * E), f32(B, S, N * E), f32(B, S, N * 3)
ADDED = f32(N * E + N * E + N * 3)
SEEN = i32([1, 1, 1, 0, 0], [1, 1, 1, 1, 1])


@pytest.mark.parametrize(
    ("others", "attrs"),
    [
        ([], {}),
        ([ADDED], {}),
        ([ADDED, SEEN], {}),
        ([ADDED, i32(3, 5)], {"mask_filter_value": -50.0}),
        ([None, SEEN, f32(B, N, T, S)], {"scale": 0.4}),
        ([None, None, f32(1, 1, T, S)], {}),
        ([None, np.ones((B, T, S), np.int32)], {}),
    ],
)
def test_multi_head_attention(others: Any, attrs: Any) -> None:
    attrs = {"num_heads": N, **attrs}
    check("MultiHeadAttention", [Q, K, V, *others], attrs, sizes={3: "T", 5: "S"})


def test_multi_head_attention_of_the_past_alone() -> None:
    attrs = {"num_heads": N, "unidirectional": 1}
    check("MultiHeadAttention", [Q, Q, Q], attrs, sizes=SIZES)
    check("MultiHeadAttention", [Q, Q, Q, f32(24)], {**attrs, "scale": 0.2}, sizes=SIZES)


def test_multi_head_attention_with_a_past() -> None:
    past = [f32(B, N, 4, E), f32(B, N, 4, E)]
    for attrs in ({}, {"unidirectional": 1}):
        more = None if attrs else f32(B, N, T, T + 4)
        inputs = [Q, Q, Q, None, None, more, *past]
        check("MultiHeadAttention", inputs, {"num_heads": N, **attrs}, n=3)


def test_multi_head_attention_of_packed_heads() -> None:
    """ONNX Runtime has these on graphics cards alone: held against heads that are apart."""
    q, k, v = (f32(B, T, N, E) for _ in range(3))
    apart, feeds = node_model(
        "MultiHeadAttention", [x.reshape(B, T, -1) for x in (q, k, v)], {"num_heads": N}
    )
    (expected,) = run_ours(apart, feeds)
    for inputs in (
        [np.stack([q, k, v], 3)],
        [q.reshape(B, T, -1), np.stack([k, v], 3)],
        [q.reshape(B, T, -1), k.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3)],
    ):
        proto, feeds = node_model("MultiHeadAttention", inputs, {"num_heads": N})
        np.testing.assert_allclose(run_ours(proto, feeds)[0], expected, rtol=1e-5, atol=1e-6)


def test_keys_and_values_of_another_node() -> None:
    """Cross attention of decoders: keys and values have their heads apart already."""
    k, v = f32(B, N, S, E), f32(B, N, S, E)
    check("MultiHeadAttention", [Q, k, v], {"num_heads": N}, sizes={3: "T", 5: "S"})
    check("MultiHeadAttention", [Q, k, v, f32(24)], {"num_heads": N})


# -- rotary positions ----------------------------------------------------------------------------

ANGLES = DRAW.uniform(-3, 3, (16, E // 2))
COS, SIN = np.cos(ANGLES).astype(np.float32), np.sin(ANGLES).astype(np.float32)
AT = np.array([[3, 4, 9], [0, 1, 2]])


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("at", [AT, np.array([5])])
@pytest.mark.parametrize("x", [f32(B, T, N * E), f32(B, N, T, E)])
def test_rotary_embedding(x: Any, at: Any, interleaved: int) -> None:
    attrs = {"interleaved": interleaved}
    check("RotaryEmbedding", [x, at, COS, SIN], attrs, stored=(2, 3), sizes={3: "T"})


def test_rotary_embedding_of_some_features() -> None:
    attrs = {"rotary_embedding_dim": 4, "num_heads": 2}
    check("RotaryEmbedding", [f32(B, T, 2 * 6), AT, COS, SIN], attrs, stored=(2, 3))


# -- grouped heads and caches --------------------------------------------------------------------

HEADS, SHARED, W = 4, 2, 16
GROUPED: dict[str, Any] = {"num_heads": HEADS, "kv_num_heads": SHARED}


def grouped(n_new: int, past: int, room: int, ends: Any, **others: Any) -> list[Any]:
    """Return inputs: new positions, caches of ``room``, the ends of rows; the rest by name."""
    b = len(ends)
    q, k, v = f32(b, n_new, HEADS * W), f32(b, n_new, SHARED * W), f32(b, n_new, SHARED * W)
    caches = [f32(b, SHARED, room, W) for _ in range(2)]
    for cache in caches:
        cache[:, :, past:] = 0
    total = np.array(past + n_new, np.int32)
    names = ("cos", "sin", "position_ids", "bias", "sink", None, None, "q_norm", "k_norm")
    rest = [others.get(name or "") for name in names]
    return [q, k, v, *caches, np.array(ends, np.int32) - 1, total, *rest]


def check_grouped(inputs: list[Any], attrs: Any = None, rows: Any = None, **others: Any) -> None:
    """Compare outputs and caches of the positions that a row has."""
    attrs = {**GROUPED, **(attrs or {})}
    stored = [i for i in (7, 8) if inputs[i] is not None]
    for where in (stored, [*stored, 6]):
        proto, feeds = node_model("GroupQueryAttention", inputs, attrs, n=3, stored=where, **others)
        ours, theirs = run_ours(proto, feeds), run_theirs(proto, feeds)
        for a, b in zip(ours, theirs, strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
        for i, end in enumerate(inputs[5] + 1):
            n = inputs[0].shape[1] if rows is None else rows[i]
            np.testing.assert_allclose(ours[0][i, :n], theirs[0][i, :n], rtol=1e-4, atol=1e-5)
            for a, b in zip(ours[1:], theirs[1:], strict=True):
                np.testing.assert_allclose(a[i, :, :end], b[i, :, :end], rtol=1e-5, atol=1e-6)


ROTARY: dict[str, Any] = {"do_rotary": 1}
TURNS = DRAW.uniform(-3, 3, (16, W // 2))
TABLES = {"cos": np.cos(TURNS).astype(np.float32), "sin": np.sin(TURNS).astype(np.float32)}


@pytest.mark.parametrize("attrs", [{}, {"scale": 0.3}, {"softcap": 2.0}, {"local_window_size": 2}])
@pytest.mark.parametrize("turned", [None, 0, 1])
def test_first_prompt(attrs: Any, turned: Any) -> None:
    tables = {} if turned is None else TABLES
    more = {} if turned is None else {**ROTARY, "rotary_interleaved": turned}
    check_grouped(grouped(5, 0, 0, [5, 5], **tables), {**attrs, **more})


@pytest.mark.parametrize("room", [6, 12])
@pytest.mark.parametrize("n_new", [1, 3])
@pytest.mark.parametrize("attrs", [{}, {"softcap": 3.0, "local_window_size": 3}])
def test_after_a_past(room: int, n_new: int, attrs: Any) -> None:
    """Caches that grow, and caches with room."""
    check_grouped(grouped(n_new, 6, room, [6 + n_new], **TABLES), {**ROTARY, **attrs})


def test_rows_of_other_lengths() -> None:
    """A first prompt that is padded on the right, and one new position for each row."""
    check_grouped(grouped(5, 0, 8, [5, 3], **TABLES), ROTARY, rows=(5, 3))
    check_grouped(grouped(1, 6, 8, [7, 4], **TABLES), ROTARY)


def test_positions_that_are_stated() -> None:
    inputs = grouped(1, 6, 8, [7, 4], **TABLES, position_ids=np.array([[9], [2]]))
    check_grouped(inputs, ROTARY)


def test_biases_of_scores() -> None:
    check_grouped(grouped(3, 4, 4, [7], bias=f32(1, HEADS, 3, 7)))
    check_grouped(grouped(1, 6, 9, [7, 7], bias=f32(2, 1, 1, 7)))


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("attrs", [{}, {"local_window_size": 3}, {"softcap": 2.0}])
def test_softmax_with_a_sink(smooth: bool, attrs: Any) -> None:
    sink = None if smooth else f32(HEADS)
    more = {"smooth_softmax": 1} if smooth else {}
    check_grouped(grouped(3, 4, 9, [7], sink=sink, **TABLES), {**ROTARY, **attrs, **more})
    check_grouped(grouped(1, 6, 9, [7, 5], sink=sink, **TABLES), {**ROTARY, **attrs, **more})
    if not smooth:
        check_grouped(grouped(2, 2, 4, [4], sink=sink, bias=f32(1, 1, 2, 4)), attrs)


def test_norms_of_heads() -> None:
    """ONNX Runtime has these on graphics cards alone: held against queries that are normed."""
    inputs = grouped(3, 4, 9, [7], q_norm=f32(W), k_norm=f32(W), **TABLES)
    attrs = {**GROUPED, **ROTARY}
    proto, feeds = node_model(
        "GroupQueryAttention", inputs, {**attrs, "qk_norm_epsilon": 1e-3}, n=3
    )
    for i, scale in ((0, inputs[-2]), (1, inputs[-1])):
        x = inputs[i].reshape(1, 3, -1, W)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3) * scale
        inputs[i] = x.reshape(1, 3, -1)
    normed, fed = node_model("GroupQueryAttention", inputs[:-2], attrs, n=3)
    np.testing.assert_allclose(
        run_ours(proto, feeds)[0], run_theirs(normed, fed)[0], rtol=1e-4, atol=1e-5
    )


def test_queries_keys_and_values_in_one() -> None:
    inputs = grouped(3, 4, 9, [7], **TABLES)
    inputs[:3] = [np.concatenate(inputs[:3], axis=2), None, None]
    check_grouped(inputs, ROTARY)


def test_halves() -> None:
    inputs = [x.astype("f2") if getattr(x, "dtype", None) == np.float32 else x
              for x in grouped(3, 4, 9, [7], sink=f32(HEADS), **TABLES)]  # fmt: skip
    attrs = {**GROUPED, **ROTARY, "softcap": 4.0}
    proto, feeds = node_model("GroupQueryAttention", inputs, attrs, n=3, stored=(6,))
    ours, theirs = run_ours(proto, feeds), run_theirs(proto, feeds)
    assert all(a.dtype == b.dtype == np.float16 for a, b in zip(ours, theirs, strict=True))
    np.testing.assert_allclose(ours[0], theirs[0], rtol=2**-9, atol=2**-9)
    np.testing.assert_allclose(ours[1][:, :, :7], theirs[1][:, :, :7], rtol=2**-9, atol=2**-9)


def test_without_a_cache() -> None:
    inputs = grouped(4, 0, 0, [4, 4], **TABLES)
    inputs[3:5] = [None, None]
    check_grouped(inputs, ROTARY)


def test_not_causal() -> None:
    check_grouped(grouped(3, 4, 9, [7]), {"causal": 0})


def test_a_step_as_exporters_write_it() -> None:
    """The ends of rows and the number of keys come from a mask of unknown length."""
    nodes = [
        helper.make_node("ReduceSum", ["mask", "one"], ["sum"], keepdims=0),
        helper.make_node("Sub", ["sum", "one"], ["less"]),
        helper.make_node("Cast", ["less"], ["last"], to=6),
        helper.make_node("Shape", ["mask"], ["shape"]),
        helper.make_node("Gather", ["shape", "at"], ["long"], axis=0),
        helper.make_node("Cast", ["long"], ["total"], to=6),
        helper.make_node(
            "GroupQueryAttention", ["q", "k", "v", "pk", "pv", "last", "total", "cos", "sin"],
            ["y", "keys", "values"], domain="com.microsoft", **GROUPED, **ROTARY,
        ),
    ]  # fmt: skip
    info = helper.make_tensor_value_info
    inputs = [
        info("mask", 7, ["batch", "total_length"]),
        info("q", 1, ["batch", "new_length", HEADS * W]),
        *(info(name, 1, ["batch", "new_length", SHARED * W]) for name in "kv"),
        *(info(name, 1, ["batch", SHARED, "past_length", W]) for name in ("pk", "pv")),
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in ("y", "keys", "values")]
    stored = {"one": np.array([1]), "at": np.array(1), **TABLES}
    tensors = [onnx.numpy_helper.from_array(v, k) for k, v in stored.items()]
    graph = helper.make_graph(nodes, "step", inputs, outputs, tensors)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=8)
    read = gw.onnx.load(proto)
    assert not any(node.op.name == "onnx_op" for node in read.nodes)  # all is settled at once
    for n_new, past in ((4, 0), (1, 4), (1, 5)):
        feeds = {
            "mask": np.ones((B, past + n_new), np.int64), "q": f32(B, n_new, HEADS * W),
            "k": f32(B, n_new, SHARED * W), "v": f32(B, n_new, SHARED * W),
            "pk": f32(B, SHARED, past, W), "pv": f32(B, SHARED, past, W),
        }  # fmt: skip
        for ours, theirs in zip(run_ours(proto, feeds), run_theirs(proto, feeds), strict=True):
            compare(ours, theirs, 1e-4, 1e-5)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"k_quant_type": "PER_TENSOR"}, "k_quant_type='PER_TENSOR' is not read"),
        ({"sliding_window_cache": 1}, "sliding_window_cache=1 is not read"),
        ({"qk_output": 1}, "qk_output=1 is not read"),
        ({"num_heads": 3}, "changes the number of elements"),
        ({"kv_num_heads": 0}, "not a valid node"),
    ],
)
def test_what_is_not_read_is_told(attrs: Any, message: str) -> None:
    inputs = grouped(2, 2, 4, [4, 4])
    proto, feeds = node_model("GroupQueryAttention", inputs, {**GROUPED, **attrs}, n=3, stored=(6,))
    with pytest.raises(GradwrightError, match=message):
        run_ours(proto, feeds)


def test_masks_of_other_forms_are_refused() -> None:
    for mask in (np.ones((B, 1, 8, 8), np.int32), np.ones(3 * B + 2, np.int32)):
        proto, _ = node_model("Attention", [X, WEIGHT, BIAS, mask], {"num_heads": N})
        with pytest.raises(ArchiveError, match="mask"):
            gw.onnx.load(proto)
