"""Packed weights: bytes as files hold them, memory that they spare, and who has no gradient."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradientError
from gradwright.ops.quantised.blocks import FORMATS, WRITTEN, packed_ggml
from gradwright.ops.quantised.nf4 import dynamic_map, packed_nf4


def bytes_of(rng: np.random.Generator, name: str, rows: int, n: int) -> np.ndarray:
    return packed_ggml(rng.standard_normal((rows, n)).astype("f4"), name)


# -- blocks that were packed by hand ---------------------------------------------------------------

RAMP = np.arange(32, dtype="f4")[None]


def test_a_block_of_q8_0_by_hand():
    # d = 31/127 = 0.24409, as float16 0x33d0; q = round(x/d)
    q = [round(float(v) * 127 / 31) for v in RAMP[0]]
    assert FORMATS["q8_0"].pack(RAMP)[0].tolist() == [0xD0, 0x33, *q]


def test_a_block_of_q4_0_by_hand():
    # The largest number, 31, becomes −8: d = −3.875, as float16 0xc3c0; q = ⌊x/d + 8.5⌋.
    q = [int(v / -3.875 + 8.5) for v in RAMP[0]]
    assert FORMATS["q4_0"].pack(RAMP)[0].tolist() == [
        *(0xC0, 0xC3),
        *(q[j] | q[j + 16] << 4 for j in range(16)),
    ]


def test_a_block_of_q5_1_by_hand():
    # From 0 to 31 in 31 steps: d = 1, m = 0, q = x; bit 4 is set from element 16 on.
    halves = [v | v << 4 for v in range(16)]
    assert FORMATS["q5_1"].pack(RAMP)[0].tolist() == [0, 0x3C, 0, 0, 0, 0, 0xFF, 0xFF, *halves]


@pytest.mark.parametrize("name", WRITTEN)
def test_numbers_that_a_format_holds_come_back(name, rng):
    form = FORMATS[name]
    raw = bytes_of(rng, name, 5, 256)
    exact = form.unpack(raw.reshape(-1, form.n_bytes))
    again = form.unpack(form.pack(exact))
    np.testing.assert_allclose(again, exact, atol=0.02 * np.abs(exact).max())
    zeros = np.zeros((3, form.size), "f4")
    assert np.array_equal(form.unpack(form.pack(zeros)), zeros)


@pytest.mark.parametrize(("name", "error"), [("q4_0", 0.1), ("q4_k", 0.08), ("q5_0", 0.05)])
def test_errors_are_those_of_the_number_of_bits(name, error, rng):
    x = rng.standard_normal((64, 256)).astype("f4")
    form = FORMATS[name]
    y = form.unpack(form.pack(x.reshape(-1, form.size))).reshape(x.shape)
    assert np.sqrt(np.mean((y - x) ** 2)) < error


def test_nf4_puts_the_first_number_high_and_ties_low():
    # 0 is code 7, 1 is code 15; 0.03979 is the middle of codes 7 and 8.
    tie = (0.0 + 0.07958029955625534) / 2
    packed, absmax = packed_nf4(np.array([0.0, 1.0, tie], "f4"), 64)
    assert packed.tolist() == [[0x7F], [0x77]] and absmax.tolist() == [1.0]


def test_nf4_error_is_that_of_normal_numbers(rng):
    x = rng.standard_normal(1 << 16).astype("f4")
    g = gw.Graph()
    packed, absmax = gw.quant.quantize_nf4(g.placeholder("x", x.shape))
    y = gw.quant.dequantize_nf4(packed, absmax, shape=x.shape, name="y")
    error = g.output({"x": x}, y)["y"] - x
    assert 0.09 < np.sqrt(np.mean(error**2)) < 0.095


def test_double_quantisation_is_a_composition(rng):
    x = rng.standard_normal((512, 64)).astype("f4")
    g = gw.Graph()
    packed, absmax = gw.quant.quantize_nf4(g.placeholder("x", x.shape))
    offset = absmax.mean()
    code, scale = gw.quant.quantize_blockwise(absmax - offset)
    back = gw.quant.dequantize_blockwise(code, scale) + offset
    y = gw.quant.dequantize_nf4(packed, back, shape=x.shape, name="y")
    error = g.output({"x": x}, y)["y"] - x
    assert np.sqrt(np.mean(error**2)) < 0.1


def test_the_dynamic_map_has_256_numbers():
    found = dynamic_map()
    assert found.size == np.unique(found).size == 256
    assert (found[0], found[-1]) == (np.float32(-0.99296874), 1) and (found == 0).sum() == 1


# -- products --------------------------------------------------------------------------------------


def test_products_hold_a_part_of_the_weight_as_floats(rng):
    raw = bytes_of(rng, "q4_0", 1536, 2048)  # 12 MB as float32
    g = gw.Graph()
    x = g.placeholder("x", (2, 2048))
    y = gw.nn.ggml_matmul(x, g.constant(raw, name="w"), format="q4_0")
    (dx,) = gw.gradients(y, [x])
    feeds = {"x": rng.standard_normal((2, 2048)).astype("f4")}
    with gw.Session(g) as session:
        session.run([y, dx], feeds)
        tracemalloc.start()
        session.run([y, dx], feeds)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 6 << 20


def test_weights_of_several_blocks_of_rows_are_one_product(rng, monkeypatch):
    from gradwright.ops.quantised import products

    raw = bytes_of(rng, "q8_0", 7, 64)
    x = rng.standard_normal((3, 64))
    whole = products.GgmlMatmul(format="q8_0").forward(x, raw)
    monkeypatch.setattr(products, "BLOCK", 130)
    np.testing.assert_allclose(products.GgmlMatmul(format="q8_0").forward(x, raw), whole)


def test_packed_weights_say_why_they_have_no_gradient(rng):
    packed, absmax = packed_nf4(rng.standard_normal((4, 8)), 64)
    g = gw.Graph()
    x, s = g.placeholder("x", (2, 8)), g.placeholder("s", absmax.shape)
    y = gw.nn.nf4_matmul(x, g.constant(packed), s, out_features=4)
    with pytest.raises(GradientError, match="packed weights are frozen; train adapters"):
        gw.gradients(y, [s])
    with pytest.raises(GradientError, match="rounding has no slope"):
        gw.gradients(gw.quant.quantize_nf4(x)[1], [x])


def test_qlora_trains_its_adapters_only(rng):
    g = gw.Graph()
    x = g.placeholder("x", ("B", 64))
    w = g.constant(bytes_of(rng, "q4_0", 8, 64), name="w")
    a = g.variable("a", (2, 64), init=rng.standard_normal((2, 64)).astype("f4"))
    b = g.variable("b", (8, 2), init=0.0)
    y = gw.nn.ggml_lora_matmul(x, w, a, b, format="q4_0", scale=0.5)
    grads = gw.gradients((y * y).sum(), g.trainable)
    with gw.Session(g) as session:
        da, db = session.run(grads, {"x": rng.standard_normal((5, 64)).astype("f4")})
    assert not da.any() and np.abs(db).max() > 0


# -- training with rounding ------------------------------------------------------------------------


def test_fake_quantize_learns_its_scale(rng):
    """The gradient points to a scale that loses less (Esser et al. 2020)."""
    x = rng.standard_normal(1000).astype("f4")
    g = gw.Graph()
    scale = g.placeholder("scale", ())
    y = gw.quant.fake_quantize(g.constant(x), scale, low=-2, high=1)
    loss = ((y - x) ** 2).mean()
    (slope,) = gw.gradients(loss, [scale])
    with gw.Session(g) as session:
        value = np.float32(3.0)
        first = session.run(loss, {"scale": value})
        for _ in range(50):
            value = value - np.float32(0.3) * session.run(slope, {"scale": value})
        assert session.run(loss, {"scale": value}) < 0.6 * first


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("zero", [None, 3])
def test_fake_quantize_stops_the_gradient_just_where_it_clips(dtype, zero):
    """Also on the borders, where halves go to the even number (as torch's fake_quantize does)."""
    low, high, step = -8, 7, 0.25
    at = np.arange(-13, 12.5, 0.5) * step
    q = np.rint(at / step) + (zero or 0)
    g = gw.Graph()
    x = g.placeholder("x", at.shape, dtype)
    more = () if zero is None else (g.constant(zero, dtype="int32"),)
    y = gw.quant.fake_quantize(x, g.constant(step, dtype=dtype), *more, low=low, high=high)
    (dx,) = gw.gradients(y.sum(), [x])
    with gw.Session(g) as session:
        found = session.run(dx, {"x": at.astype(x.dtype)})
    np.testing.assert_array_equal(found.astype(float), (q >= low) & (q <= high))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float6_e2m3fn", "float4_e2m1fn"])
def test_rounding_to_narrow_floats_keeps_nan(dtype):
    g = gw.Graph()
    y = gw.quant.fake_cast(g.constant([np.nan, 1.0]), dtype=dtype)
    (found,) = g.output({}, y).values()
    np.testing.assert_array_equal(found, [np.nan, 1.0])


@pytest.mark.parametrize("scale", [0.5, [0.5]])
def test_one_scale_fits_one_number(scale):
    g = gw.Graph()
    x, s = g.constant(1.3), g.constant(scale)
    q = gw.quant.quantize_linear(x, s, dtype="int8")
    made = q, gw.quant.dequantize_linear(q, s), gw.quant.fake_quantize(x, s)
    found = list(g.output({}, *made).values())
    assert [a.shape for a in found] == [(), (), ()]
    assert [float(a) for a in found] == [3, 1.5, 1.5]


def test_a_product_with_a_vector_of_integers_is_a_vector():
    g = gw.Graph()
    a, b = (g.constant(v, dtype="uint8") for v in ([1, 2, 3], [[1], [2], [3]]))
    y = gw.quant.matmul_integer(a, b, g.constant([1], dtype="uint8"))
    (found,) = g.output({}, y).values()
    assert found.tolist() == [8]


def test_second_derivatives_of_products_in_float8_are_those_of_the_rounded_product(rng):
    a, b = (rng.standard_normal(s) for s in ((2, 3), (3, 2)))
    g = gw.Graph()
    x, w = g.placeholder("x", a.shape, "float64"), g.placeholder("w", b.shape, "float64")
    y = gw.nn.fp8_matmul(x, w)
    (dx,) = gw.gradients((y * y).sum(), [x])
    (dw,) = gw.gradients(dx.sum(), [w])
    with gw.Session(g) as session:
        found, again = session.run([dx, dw], {"x": a, "w": b})
    assert found.shape == a.shape and np.isfinite(again).all() and np.abs(again).max() > 0
