"""Kernels written by hand for the large ops, on awkward shapes; samples are in test_numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import IdError
from gradwright.op import find_op, run_forward
from gradwright.ops.core.pullback import Pullback
from gradwright.ops.quantised.blocks import FORMATS, packed_ggml
from gradwright.ops.quantised.products import PackedMatmulGrad

pytest.importorskip("triton", reason="Triton has wheels for Linux only")

from gradwright_kernels.heads import head_grad
from tests.kernels.test_numbers import TOLERANCES, agree, cast

Array = np.ndarray[Any, Any]
BOUNDS = {name: (8 * atol, 20 * rtol) for name, atol, rtol in TOLERANCES}


def drawn(name: str, *shapes: tuple[int, ...]) -> list[Array]:
    rng = np.random.default_rng(len(shapes))
    return [cast(rng.standard_normal(shape), name) for shape in shapes]


ATTENTION: list[Any] = [  # dtype, samples and heads, T, S, E, D, settings, mask
    ("float32", (1, 2, 1), (40, 70, 80, 5), {"is_causal": True, "left_window_size": 9}, (2, 1, 70)),
    ("float64", (1, 1, 1), (17, 40, 36, 65), {"right_window_size": 2, "offset": 5}, (17, 40)),
    ("bfloat16", (2, 4, 1), (70, 33, 16, 30), {"is_causal": True}, None),
    ("float16", (1, 2, 1), (18, 70, 130, 140), {"scale": 0.2, "unseen": "average"}, "bool"),
]


@pytest.mark.parametrize(("name", "heads", "sizes", "settings", "mask"), ATTENTION)
def test_attention_tile_by_tile(
    name: str, heads: Any, sizes: Any, settings: dict[str, Any], mask: Any
) -> None:
    (n, of_q, of_k), (t, s, e, d), (atol, rtol) = heads, sizes, BOUNDS[name]
    q, k, v = drawn(name, (n, t, of_q, e), (n, s, of_k, e), (n, s, of_k, d))
    given = [x.swapaxes(1, 2) for x in (q, k, v)]  # heads lie beside each other
    if mask == "bool":
        seen = np.random.default_rng(1).random((t, s)) < 0.5
        seen[3] = False
        given.append(seen)
    elif mask is not None:
        given += drawn(name, mask)
    agree(find_op("flash_attention")(**settings), given, atol, rtol)
    wide = [x if x.dtype == bool else x.astype(np.float64) for x in given]
    y, lse = run_forward(find_op("flash_attention")(**settings), wide)
    [g] = drawn(name, y.shape)
    kept = "float64" if name == "float64" else "float32"
    delta = (g.astype(np.float64) * y).sum(-1).astype(kept)
    slopes = [g, *given[:3], lse.astype(kept), delta, *given[3:]]
    agree(find_op("flash_attention_grad")(**settings), slopes, 4 * atol, rtol)
    if isinstance(mask, tuple):
        agree(find_op("flash_attention_mask_grad")(**settings), slopes, 8 * atol, rtol)


def test_attention_of_halves_is_kept_whole() -> None:
    op, (atol, rtol) = find_op("scaled_dot_product_attention")(is_causal=True), BOUNDS["float16"]
    xs = drawn("float16", *[(1, 2, 64, 20)] * 3, (64, 64))
    agree(op, xs, atol, rtol)
    for wrt in ((0, 1, 2, 3), (1,)):
        back = Pullback(op=op, n_inputs=4, wrt=wrt, present=(True,))
        agree(back, [*xs, *drawn("float16", (1, 2, 64, 20))], 4 * atol, rtol)


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_heads_in_several_runs_of_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_grad, "FEWEST", 16)
    monkeypatch.setattr(head_grad, "RUN", 1)
    n, words, width = 40, 70, 20
    h, w, b = drawn(name, (n, width), (words, width), (words,))
    ids = np.random.default_rng(0).integers(0, words, n)
    ids[::7] = -100
    settings = {"softcap": 4.0, "temperature": 0.8}
    agree(find_op("head_log_probs")(**settings), [h, w, ids, b], *BOUNDS[name])
    asked = drawn("float32", *[(n,)] * 4)
    atol, rtol = BOUNDS[name]
    agree(find_op("head_log_probs_grad")(**settings), [*asked, h, w, ids, b], 30 * atol, rtol)


def test_a_bias_may_rule_out_words() -> None:
    h, w = drawn("float32", (3, 6), (5, 6))
    b, ids = np.array([0, -np.inf, 1, -np.inf, 2], np.float32), np.array([0, 4, 2])
    agree(find_op("head_log_probs")(), [h, w, ids, b], 1e-5, 1e-5)
    agree(
        find_op("head_log_probs_grad")(), [*drawn("float32", *[(3,)] * 4), h, w, ids, b], 1e-5, 1e-5
    )


def test_heads_refuse_ids_that_are_no_words() -> None:
    g = gw.Graph()
    h, w, ids = (
        g.placeholder("h", (3, 4)),
        g.variable("w", (5, 4)),
        g.placeholder("i", (3,), "int64"),
    )
    with gw.Session(g, device="cuda-sim") as session:
        log_p = gw.nn.head_log_probs(h, w, ids, name="head")[0]
        feeds = {"h": np.ones((3, 4), "f4")}
        assert session.run(log_p, {**feeds, "i": [0, 4, -100]}).shape == (3,)
        with pytest.raises(IdError, match=r"5 at \[1\] is no class"):
            session.run(log_p, {**feeds, "i": [0, 5, 1]})


CONVOLUTIONS: list[Any] = [  # dtype, images, kernels, settings
    ("float32", (2, 6, 9, 8), (20, 3, 3, 2), {"groups": 2, "stride": (2, 1), "padding": (1, 2)}),
    ("float64", (1, 5, 17), (7, 5, 4), {"dilation": 2, "padding": ((3, -1),)}),
    ("bfloat16", (1, 5, 4, 5, 6), (6, 5, 2, 3, 2), {"stride": 2, "padding": "same"}),
    ("float16", (1, 3, 7, 9), (3, 1, 3, 3), {"groups": 3, "padding": 1}),
]


@pytest.mark.parametrize(("name", "image", "kernel", "settings"), CONVOLUTIONS)
def test_convolutions_and_what_goes_back(
    name: str, image: tuple[int, ...], kernel: tuple[int, ...], settings: dict[str, Any]
) -> None:
    atol, rtol = BOUNDS[name]
    x, w, b = drawn(name, image, kernel, kernel[:1])
    conv = find_op(f"conv{len(image) - 2}d")(**settings)
    agree(conv, [x, w, b], atol, rtol)
    last = np.moveaxis(x, 1, -1).copy()
    agree(conv, [np.moveaxis(last, -1, 1), w, np.repeat(b, 2)[::2]], atol, rtol)
    [g] = drawn(name, run_forward(conv, [x.astype("f8"), w.astype("f8")])[0].shape)
    agree(find_op("conv_input_grad")(**settings), [g, w, x], atol, rtol)
    agree(find_op("conv_weight_grad")(**settings), [x, g, w], 8 * atol, rtol)
    lead = g[:, : kernel[0]]
    if "padding" not in settings or settings["padding"] != "same":
        transposed = find_op(f"conv_transpose{len(image) - 2}d")(**settings)
        agree(transposed, [lead, w], atol, rtol)


def test_pools_of_ties_infinities_and_nan() -> None:
    x = np.array([[[-np.inf, -np.inf, 1.0, 1.0, np.nan, 2.0, np.nan, 0.0]]], np.float32)
    pool = find_op("max_pool1d")(kernel_size=3, stride=1, padding=1)
    agree(pool, [x], 0, 0)
    agree(find_op("max_pool1d")(kernel_size=2), [np.arange(9)[None, None, ::-1]], 0, 0)


@pytest.mark.parametrize("name", ["q5_1", "q8_0", "q4_k", "q5_k", "q6_k"])
def test_products_with_blocks_of_few_bits(name: str) -> None:
    n = FORMATS[name].size
    w = packed_ggml(np.random.default_rng(0).standard_normal((7, n)), name)
    op, (x, g) = find_op("ggml_matmul")(format=name), drawn("float32", (5, n), (5, 7))
    agree(op, [x, w], 2e-5, 2e-5)
    agree(PackedMatmulGrad(op=op), [g, x, w], 2e-5, 2e-5)


def test_products_of_two_dtypes_are_those_of_the_wider() -> None:
    (a,), (b,) = drawn("float32", (9, 40)), drawn("bfloat16", (40, 5))
    agree(find_op("matmul")(), [a, b], 1e-5, 1e-5)
    agree(find_op("linear")(), [a.reshape(3, 3, 40), b, *drawn("float32", (5,))], 1e-5, 1e-5)
