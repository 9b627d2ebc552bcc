"""Coded tensors and packed weights of ``com.microsoft``, beside ONNX Runtime.

Products of codes are exact. Where codes come out, both round the same numbers, which may differ
in their last bit before: one step then lies between them at most.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from gradwright.errors import ArchiveError
from tests.formats.microsoft import check, node_model, run_ours

DRAW = np.random.default_rng(5)
SIZES = {2: "B", 3: "T"}


def f32(*shape: int) -> Any:
    return DRAW.standard_normal(shape).astype(np.float32)


def codes(dtype: str, *shape: int) -> Any:
    info = np.iinfo(dtype)
    return DRAW.integers(info.min, info.max + 1, shape).astype(dtype)


def scale(*shape: int) -> Any:
    return DRAW.uniform(0.01, 0.03, shape).astype(np.float32)


def zero(dtype: str, *shape: int) -> Any:
    return DRAW.integers(-5, 5, shape).astype(dtype) + np.asarray(
        120 if dtype[0] == "u" else 0, dtype
    )


A = f32(2, 3, 8)


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_dynamic_quantize_matmul(kind: str, by_column: bool, bias: bool) -> None:
    shape = (6,) if by_column else ()
    b = [codes(kind, 8, 6), scale(*shape), zero(kind, *shape)]
    check("DynamicQuantizeMatMul", [A, *b, f32(6) if bias else None], sizes=SIZES, stored=(1, 2, 3))


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("zeros", [False, True])
def test_matmul_integer_to_float(by_column: bool, zeros: bool) -> None:
    shape = (6,) if by_column else ()
    points = [zero("uint8"), zero("int8", *shape)] if zeros else [None, None]
    inputs = [codes("uint8", 2, 3, 8), codes("int8", 8, 6), scale(), scale(*shape), *points, f32(6)]
    check("MatMulIntegerToFloat", inputs, sizes=SIZES)


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_qgemm(coded: bool, turned: bool) -> None:
    a, b, c = codes("uint8", 3, 8), codes("int8", 8, 6), codes("int16", 6).astype("i4")
    if turned:
        a, b = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)
    inputs = [a, scale(), zero("uint8"), b, scale(), zero("int8"), c]
    if coded:
        inputs += [np.float32(0.9), zero("uint8")]
    attrs = {"transA": int(turned), "transB": int(turned), "alpha": 0.5}
    check("QGemm", inputs, attrs, steps=1, stored=(3, 4, 5, 6))


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_pairs_of_codes(op_type: str, kind: str) -> None:
    a, b = codes(kind, 2, 3, 8), codes(kind, 3, 1)
    ends = [np.float32(0.05), zero(kind)]
    check(op_type, [a, scale(), zero(kind), b, scale(), zero(kind), *ends], steps=1, sizes=SIZES)
    check(op_type, [a, scale(), zero(kind), b, scale(), zero(kind), ends[0]], steps=1)


@pytest.mark.parametrize(
    ("op_type", "attrs", "shape"),
    [
        ("QLinearSigmoid", {}, (2, 3, 8)),
        ("QLinearLeakyRelu", {"alpha": 0.3}, (2, 3, 8)),
        ("QLinearLeakyRelu", {}, (2, 3, 8)),
        ("QLinearSoftmax", {"axis": -1, "opset": 13}, (2, 3, 8)),
        ("QLinearSoftmax", {"axis": 1, "opset": 12}, (2, 3, 8)),
        ("QLinearSoftmax", {"axis": 1, "opset": 13}, (2, 3, 8)),
        ("QLinearGlobalAveragePool", {"channels_last": 0}, (2, 3, 4, 5)),
        ("QLinearGlobalAveragePool", {"channels_last": 1}, (2, 4, 5, 3)),
        ("QLinearAveragePool", {"kernel_shape": [2, 2], "strides": [2, 1]}, (2, 3, 4, 5)),
        ("QLinearAveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, (2, 3, 4, 5)),
        ("QLinearAveragePool", {"kernel_shape": [2, 2], "channels_last": 1}, (2, 4, 5, 3)),
    ],
)
@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_from_codes_to_codes(op_type: str, attrs: Any, shape: Any, kind: str) -> None:
    x = codes(kind, *shape)
    inputs = [x, scale(), zero(kind), np.float32(1 / 200), zero(kind)]
    check(op_type, inputs, attrs, steps=1)


def test_concat_of_codes() -> None:
    parts: list[Any] = []
    for n in (2, 3):
        parts += [codes("uint8", 2, n, 4), scale(), zero("uint8")]
    check("QLinearConcat", [np.float32(0.04), zero("uint8"), *parts], {"axis": 1}, steps=1)


def test_where_of_codes() -> None:
    a, b = codes("uint8", 3, 4), codes("uint8", 3, 4)
    ends = [np.float32(0.04), zero("uint8")]
    inputs = [a > 99, a, scale(), zero("uint8"), b, scale(), zero("uint8"), *ends]
    check("QLinearWhere", inputs, steps=1)


@pytest.mark.parametrize("last", [0, 1])
def test_convolution_of_codes(last: int) -> None:
    x, w = codes("uint8", 2, 3, 6, 5), codes("int8", 4, 3, 3, 3)
    if last:
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    inputs = [x, scale(), zero("uint8"), w, scale(4), np.zeros(4, "i1"), np.float32(2.0),
              zero("uint8"), codes("int16", 4).astype("i4")]  # fmt: skip
    attrs = {"kernel_shape": [3, 3], "pads": [1, 0, 1, 0], "channels_last": last}
    check("QLinearConv", inputs, attrs, steps=1, stored=(3, 4, 5, 8))


def test_max_pool_of_codes_with_channels_last() -> None:
    attrs = {"kernel_shape": [2, 2], "strides": [2, 2]}
    check("NhwcMaxPool", [codes("uint8", 2, 4, 6, 3)], attrs)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_there_and_back(dtype: str, shape: Any) -> None:
    attrs = {"axis": 1} if shape else {}
    points = [np.full(shape, 0.5, "f4"), codes(dtype, *shape)]
    check("QuantizeLinear", [100 * f32(2, 3, 4), *points], attrs, steps=1)
    check("DequantizeLinear", [codes(dtype, 2, 3, 4), *points], attrs)


def test_matmul_of_16_bits() -> None:
    """ONNX has no operator that it could be written as."""
    inputs = [codes("int16", 3, 4) // 64, codes("int16", 4, 5) // 64]
    check("MatMulInteger16", inputs, written=False)


# -- layers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_gate", [False, True])
@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_dynamic_quantize_lstm(direction: str, kind: str, by_gate: bool) -> None:
    """To 2 % of the range of the states, which are codes of 8 bits there and floats here."""
    d, h, n = (2 if direction[0] == "b" else 1), 5, 4
    shape = (d, 4 * h) if by_gate else (d,)
    weights = [codes(kind, d, n, 4 * h), codes(kind, d, h, 4 * h), f32(d, 8 * h)]
    start = [None, f32(d, 2, h) / 4, f32(d, 2, h) / 4, None]
    middle = np.full(shape, 128 if kind == "uint8" else 0, kind) if by_gate else zero(kind, d)
    points = [scale(*shape) / 2, middle, scale(*shape) / 2, middle]
    check(
        "DynamicQuantizeLSTM",
        [f32(6, 2, n), *weights, *start, *points],
        {"hidden_size": h, "direction": direction},
        n=3,
        atol=0.04,
        stored=(1, 2, 3, *range(8, 12)),
    )


@pytest.mark.parametrize("mask", [None, np.array([[1, 1, 0], [1, 1, 1]], np.int32)])
def test_embeddings_of_codes(mask: Any) -> None:
    ids = DRAW.integers(0, 9, (2, 3)).astype(np.int32)
    tables = [codes("uint8", *s) for s in ((9, 8), (6, 8), (2, 8), (8,), (8,))]
    scales, points = [scale() for _ in range(5)], [zero("uint8") for _ in range(5)]
    inputs = [ids, ids % 2, *tables, mask, *scales, *points]
    check("QEmbedLayerNormalization", inputs, {"epsilon": 1e-5}, n=2, stored=range(2, 7))


# -- packed weights ------------------------------------------------------------------------------


def packed(values: Any, bits: int) -> Any:
    """Return whole numbers in bytes, the lowest bits first; the last byte of a row is filled."""
    per = 8 // bits
    short = -values.shape[-1] % per
    filled = np.pad(values, [*[(0, 0)] * (values.ndim - 1), (0, short)]).astype(np.uint8)
    groups = filled.reshape(*values.shape[:-1], -1, per)
    shifts = np.arange(per, dtype=np.uint8) * np.uint8(bits)
    return np.bitwise_or.reduce(groups << shifts, axis=-1).astype(np.uint8)


@pytest.mark.parametrize(("k", "size"), [(64, 32), (40, 16), (33, 32), (128, 128)])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", [None, "packed", "floats"])
def test_matmul_n_bits(k: int, size: int, bits: int, zeros: Any) -> None:
    """Also where the columns are no whole number of blocks."""
    n, blocks = 7, -(-k // size)
    weight = DRAW.integers(0, 2**bits, (n, blocks, size))
    points: Any = None
    if zeros == "packed":
        points = packed(DRAW.integers(0, 2**bits, (n, blocks)), bits)
    elif zeros == "floats":
        points = DRAW.integers(0, 2**bits, (n, blocks)).astype(np.float32)
    x, factors, bias = f32(2, 3, k), scale(n, blocks), f32(n)
    inputs = [x, packed(weight, bits), factors, points, None, bias]
    attrs = {"K": k, "N": n, "bits": bits, "block_size": size}
    if zeros == "floats" and bits == 8:  # which ONNX Runtime does not have
        real = ((weight - points[..., None]) * factors[..., None]).reshape(n, -1)[:, :k]
        proto, feeds = node_model("MatMulNBits", inputs, attrs, stored=(1, 2, 3, 5))
        np.testing.assert_allclose(run_ours(proto, feeds)[0], x @ real.T + bias, atol=1e-3)
        return
    check("MatMulNBits", inputs, attrs, sizes=SIZES, stored=(1, 2, 3, 5), atol=1e-4)


def test_matmul_n_bits_of_rows_in_one_line() -> None:
    """Older exporters flatten scales and zero points."""
    attrs = {"K": 64, "N": 6, "bits": 4, "block_size": 32}
    weight, points = DRAW.integers(0, 16, (6, 2, 32)), DRAW.integers(0, 16, (6, 2))
    inputs = [f32(5, 64), packed(weight, 4), scale(12), packed(points, 4).reshape(-1)]
    check("MatMulNBits", inputs, attrs, stored=(1, 2, 3))


def test_matmul_n_bits_whose_columns_name_their_blocks() -> None:
    attrs = {"K": 32, "N": 4, "bits": 4, "block_size": 16}
    weight, factors = DRAW.integers(0, 16, (4, 2, 16)), scale(4, 2)
    groups = DRAW.permutation(np.arange(32) // 16).astype(np.int32)
    x = f32(3, 32)
    proto, feeds = node_model(
        "MatMulNBits", [x, packed(weight, 4), factors, None, groups], attrs, stored=(1, 2, 4)
    )
    real = (weight.reshape(4, 32) - 8) * factors[:, groups]
    np.testing.assert_allclose(run_ours(proto, feeds)[0], x @ real.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [0, 1])
def test_matmul_bnb4(kind: int) -> None:
    inputs = [f32(3, 32), codes("uint8", 32 * 6 // 2), scale(12)]
    attrs = {"K": 32, "N": 6, "block_size": 16, "quant_type": kind}
    check("MatMulBnb4", inputs, attrs, stored=(1, 2))


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_gather_block_quantized(bits: int, zeros: bool) -> None:
    values = DRAW.integers(0, 2**bits, (9, 64))
    points = packed(DRAW.integers(0, 2**bits, (9, 4)), bits) if zeros else None
    places = np.array([[0, 8], [3, 3]])
    attrs = {"gather_axis": 0, "quantize_axis": 1, "block_size": 16, "bits": bits}
    inputs = [packed(values, bits), places, scale(9, 4), points]
    check("GatherBlockQuantized", inputs, attrs, stored=(0, 2, 3))


def test_gather_block_quantized_of_4_bits() -> None:
    values = DRAW.integers(-8, 8, (9, 32)).astype(ml_dtypes.int4)
    points = DRAW.integers(-8, 8, (9, 2)).astype(ml_dtypes.int4)
    attrs = {"gather_axis": 0, "quantize_axis": 1, "block_size": 16}
    check("GatherBlockQuantized", [values, np.array([1, 5]), scale(9, 2), points], attrs,
          stored=(0, 2, 3))  # fmt: skip


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"bits": 3}, "with 3 bits is not read"),
        ({"block_size": 0}, "block_size is 0"),
        ({"K": None}, "lacks its attribute 'K'"),
        ({"weight_prepacked": 1}, "with weight_prepacked=1 is not read"),
        ({"N": 5}, "not a valid node"),
    ],
)
def test_what_is_wrong_is_told(attrs: Any, message: str) -> None:
    given = {"K": 32, "N": 4, "bits": 4, "block_size": 16, **attrs}
    given = {key: value for key, value in given.items() if value is not None}
    inputs = [f32(3, 32), packed(DRAW.integers(0, 16, (4, 2, 16)), 4), scale(4, 2)]
    proto, feeds = node_model("MatMulNBits", inputs, given, stored=(1, 2))
    with pytest.raises(ArchiveError, match=message):
        run_ours(proto, feeds)
