"""Quantised numbers beside PyTorch: its own quantisers, and formats unpacked bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwright.ops.quantised.blocks import FORMATS, WRITTEN
from gradwright.ops.quantised.nf4 import NF4, dynamic_map, packed_nf4
from tests.oracle.rows import Array, Row, ints, normal, uniform


def along(scale: Any, x: Any, axis: int) -> Any:
    """Return scales as they broadcast against x."""
    if not scale.dim():
        return scale
    return scale.reshape([-1 if i == axis else 1 for i in range(x.dim())])


def quantize(t: Any, x: Any, scale: Any, zero: Any, axis: int = 1) -> Any:
    info = t.iinfo(zero.dtype)
    y = t.round(x / along(scale, x, axis)) + along(zero, x, axis)
    return y.clamp(info.min, info.max).to(zero.dtype)


def dequantize(t: Any, x: Any, scale: Any, zero: Any, axis: int = 1, block_size: int = 0) -> Any:
    if block_size:
        scale, zero = (v.repeat_interleave(block_size, axis) for v in (scale, zero))
        scale, zero = (v.narrow(axis, 0, x.shape[axis]) for v in (scale, zero))
    else:
        scale, zero = along(scale, x, axis), along(zero, x, axis)
    return (x.to(scale.dtype) - zero.to(scale.dtype)) * scale


def fake(t: Any, x: Any, scale: Any, zero: Any, low: int, high: int, axis: int = 1) -> Any:
    """Rounding has the gradient 1, clipping its own: those of Esser et al. 2020 follow."""
    scale, zero = along(scale, x, axis), along(zero, x, axis)
    at = x / scale
    at = at + (t.round(at) - at).detach()
    return ((at + zero).clamp(low, high) - zero) * scale


def product(t: Any, a: Any, b: Any, a_zero: Any, b_zero: Any) -> Any:
    a = a.long() - (a_zero.long()[:, None] if a_zero.dim() else a_zero.long())
    return (a @ (b.long() - b_zero.long())).int()


def requantize(t: Any, y: Any, scale: Any, zero: Any) -> Any:
    low, high = (0, 255) if zero.dtype == t.uint8 else (-128, 127)
    return (t.round(y.double() * scale.double()) + zero).clamp(low, high).to(zero.dtype)


def qlinear(t: Any, a: Any, sa: Any, za: Any, b: Any, sb: Any, zb: Any, sy: Any, zy: Any) -> Any:
    y = product(t, a, b, za, zb)
    return requantize(t, y, sa.double() * sb.double() / sy.double(), zy)


def conv(t: Any, x: Any, w: Any, x_zero: Any, w_zero: Any, **attrs: Any) -> Any:
    w = w.double() - w_zero.double().reshape(-1, *[1] * (w.dim() - 1))
    run = {3: t.conv1d, 4: t.conv2d, 5: t.conv3d}[x.dim()]
    return run(x.double() - x_zero, w, **attrs).int()


def qconv(t: Any, x: Any, sx: Any, zx: Any, w: Any, sw: Any, zw: Any, sy: Any, zy: Any) -> Any:
    y = conv(t, x, w, zx, zw)
    return requantize(t, y, (sx.double() * sw.double() / sy.double())[:, None, None], zy)


def dynamic(t: Any, x: Any) -> Any:
    low, high = x.amin().clamp(max=0), x.amax().clamp(min=0)
    scale = (high - low) / 255
    zero = t.round(-low / scale).clamp(0, 255)
    return (t.round(x / scale) + zero).clamp(0, 255).byte(), scale, zero.byte()


# -- packed formats --------------------------------------------------------------------------------


def ggml(t: Any, raw: Any, format: str) -> Any:
    """Unpack a row of blocks number by number, from the layout that ggml documents."""
    form = FORMATS[format]
    rows = []
    for block in raw.reshape(-1, form.n_bytes):
        b = [int(v) for v in block]
        d, m = block[:4].numpy().copy().view(np.float16).astype(float)
        if format == "q8_0":
            found = [(v - 256 if v > 127 else v) * d for v in b[2:]]
        elif format == "mxfp4":
            e2m1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
            q = [v & 15 for v in b[1:]] + [v >> 4 for v in b[1:]]
            found = [2.0 ** (b[0] - 127) * e2m1[v & 7] * (-1 if v & 8 else 1) for v in q]
        elif format == "q6_k":
            (d,) = block[208:].numpy().copy().view(np.float16).astype(float)
            found = []
            for i in range(256):
                half, at = divmod(i, 128)
                low = b[64 * half + at % 64] >> 4 * (at // 64) & 15
                q = low | (b[128 + 32 * half + at % 32] >> 2 * (at // 32) & 3) << 4
                scale = b[192 + i // 16]
                found.append((scale - 256 if scale > 127 else scale) * d * (q - 32))
        elif format in ("q4_k", "q5_k"):
            start, found = (48 if format == "q5_k" else 16), []
            for part in range(8):
                if part < 4:
                    scale, least = b[4 + part] & 63, b[8 + part] & 63
                else:
                    scale = (b[8 + part] & 15) | (b[part] >> 6) << 4
                    least = b[8 + part] >> 4 | (b[4 + part] >> 6) << 4
                body = b[start + 32 * (part // 2) : start + 32 + 32 * (part // 2)]
                q = [(v >> 4 * (part % 2)) & 15 for v in body]
                if format == "q5_k":
                    q = [v | (b[16 + j] >> part & 1) << 4 for j, v in enumerate(q)]
                found += [v * (d * scale) - m * least for v in q]
        else:
            fifth = 0
            if format[1] == "5":
                at = 2 if format == "q5_0" else 4
                fifth = int.from_bytes(bytes(b[at : at + 4]), "little")
            body = b[-16:]
            q = [(v & 15) | (fifth >> j & 1) << 4 for j, v in enumerate(body)]
            q += [v >> 4 | (fifth >> (j + 16) & 1) << 4 for j, v in enumerate(body)]
            shift = {"q4_0": 8, "q5_0": 16}.get(format)
            found = [v * d + m if shift is None else (v - shift) * d for v in q]
        rows += found
    return t.tensor(rows, dtype=t.float32).reshape(*raw.shape[:-1], -1)


def pack_ggml(t: Any, x: Any, format: str) -> Any:
    """Pack by the formula of the format's definition, block by block."""
    rows = []
    for block in x.float().reshape(-1, 32):
        v = block.numpy()
        if format == "q8_0":
            d = np.abs(v).max() / np.float32(127)
            q = [int(np.floor(abs(e / d) + 0.5) * np.sign(e)) & 255 for e in v]
            rows += [*np.float16(d).tobytes(), *q]
        else:
            d = v[np.abs(v).argmax()] / np.float32(-8)
            q = [min(15, int(float(e) * float(np.float32(1) / d) + 8.5)) for e in v]
            rows += [*np.float16(d).tobytes(), *(q[j] | q[j + 16] << 4 for j in range(16))]
    return t.tensor(rows, dtype=t.uint8).reshape(*x.shape[:-1], -1)


def nf4(t: Any, packed: Any, absmax: Any, shape: tuple[int, ...], block_size: int = 64) -> Any:
    code = t.stack([packed.flatten() >> 4, packed.flatten() & 15], 1).flatten()
    n = int(np.prod(shape))
    y = t.tensor(NF4)[code[:n].long()] * absmax.repeat_interleave(block_size)[:n]
    return y.reshape(shape).float()


def nearest(t: Any, x: Any, table: Array, block_size: int) -> tuple[Any, Any]:
    """Return codes by distance to all numbers of a table, and the largest size of each block."""
    flat = x.float().flatten()
    absmax = t.stack([b.abs().max() for b in flat.split(block_size)])
    scaled = flat / absmax.repeat_interleave(block_size)[: len(flat)]
    return (scaled[:, None] - t.tensor(table)).abs().argmin(1).byte(), absmax


def quantize_nf4(t: Any, x: Any, block_size: int = 64) -> Any:
    code, absmax = nearest(t, x, NF4, block_size)
    code = t.cat([code, t.full((len(code) % 2,), 7, dtype=t.uint8)])
    return (code[::2] * 16 + code[1::2])[:, None], absmax


def blockwise(t: Any, x: Any, block_size: int = 256) -> Any:
    code, absmax = nearest(t, x, dynamic_map(), block_size)
    return code.reshape(x.shape), absmax


def deblockwise(t: Any, code: Any, absmax: Any, block_size: int = 256) -> Any:
    y = t.tensor(dynamic_map())[code.flatten().long()].to(absmax.dtype)
    y = y * absmax.repeat_interleave(block_size)[: len(y)]
    return y.reshape(code.shape).float()


def awq(t: Any, x: Any, q: Any, zeros: Any, scales: Any) -> Any:
    def unpack(v: Any) -> Any:
        nibbles = [(v.long() >> 4 * k) & 15 for k in range(8)]
        order = (0, 2, 4, 6, 1, 3, 5, 7)
        found = [nibbles[order.index(c)] for c in range(8)]
        return t.stack(found, -1).reshape(v.shape[0], -1)

    group = len(q) // len(scales)
    z, s = (v.repeat_interleave(group, 0) for v in (unpack(zeros), scales))
    return x @ ((unpack(q) - z) * s).to(x.dtype)


def fp8(t: Any, a: Any, b: Any, dtype: str = "float8_e4m3fn") -> Any:
    kind = getattr(t, dtype)

    def rounded(x: Any) -> tuple[Any, Any]:
        scale = (x.detach().abs().max() / t.finfo(kind).max).to(x.dtype)
        y = x / scale
        # float32 first, as everywhere: float64 would be rounded differently at a tie
        return y + (y.detach().to(kind).to(x.dtype) - y.detach()), scale

    (p, s), (q, r) = rounded(a), rounded(b)
    return (p @ q) * (s * r)


def smooth(t: Any, x: Any, w: Any, alpha: float = 0.5) -> Any:
    s = x.abs().flatten(0, -2).amax(0) ** alpha / w.abs().amax(1) ** (1 - alpha)
    return x / s, w * s[:, None], s


def packed_ggml(format: str, *shape: int) -> Array:
    form = FORMATS[format]
    x = normal(*shape).astype("f4")
    return form.pack(x.reshape(-1, form.size)).reshape(*shape[:-1], -1)


def packed_rows(*shape: int) -> tuple[Array, Array]:
    return packed_nf4(normal(*shape), 64)


def lora(t: Any, x: Any, w: Any, a: Any, b: Any, format: str, scale: float) -> Any:
    return x @ (ggml(t, w, format).to(x.dtype) + scale * (b @ a)).T


BYTES = ints(0, 256, 4, 6, dtype="uint8")
SCALES = uniform(0.05, 0.2, 3)
ROWS: dict[str, Row] = {
    "quantize_linear": Row(
        quantize,
        [
            (normal(4, 3).astype("f4"), np.float32(0.03), ints(0, 9, dtype="uint8")),
            (normal(2, 3, 2).astype("f4"), SCALES.astype("f4"), ints(-5, 5, 3, dtype="int8")),
        ],
        fixed=(0, 1),
    ),
    "dequantize_linear": Row(
        dequantize,
        [
            (BYTES, uniform(0.1, 0.2), np.array(7, "u1")),
            (ints(-9, 9, 2, 3, 2, dtype="int8"), SCALES, ints(-5, 5, 3, dtype="int8")),
            (
                ints(-9, 9, 2, 5, dtype="int16"),
                normal(2, 3),
                ints(-5, 5, 2, 3, dtype="int16"),
                {"block_size": 2},
            ),
        ],
    ),
    "dynamic_quantize_linear": Row(
        dynamic, [(normal(5, 3).astype("f4"),), (uniform(1, 2, 4),)], fixed=(0,)
    ),
    "fake_quantize": Row(
        fake,
        [
            (normal(5, 3), np.array(0.2), np.array(2, "i4"), {"low": 0, "high": 7}),
            (normal(5, 3), SCALES, ints(-2, 2, 3, dtype="int32"), {"low": -8, "high": 7}),
        ],
    ),
    "matmul_integer": Row(
        product,
        [
            (
                BYTES,
                ints(-128, 128, 6, 3, dtype="int8"),
                np.array(7, "u1"),
                np.arange(3, dtype="i1"),
            ),
            (BYTES[None], BYTES.T, ints(0, 9, 4, dtype="uint8"), np.array(3, "u1")),
        ],
    ),
    "qlinear_matmul": Row(
        qlinear,
        [
            (
                *(BYTES, uniform(0.1, 0.2), np.array(7, "u1")),
                *(BYTES.T, uniform(0.1, 0.2, 4), ints(0, 9, 4, dtype="uint8")),
                *(np.array(90.0), np.array(30, "u1")),
            )
        ],
        fixed=(1, 4, 6),
    ),
    "conv_integer": Row(
        conv,
        [
            (
                ints(0, 256, 2, 4, *size, dtype="uint8"),
                ints(-128, 128, 6, 4 // attrs.get("groups", 1), *kernel, dtype="int8"),
                np.array(120, "u1"),
                ints(-9, 9, 6, dtype="int8"),
                attrs,
            )
            for size, kernel, attrs in (
                ((7,), (3,), {"dilation": 2}),
                ((5, 6), (2, 3), {"groups": 2, "stride": 2, "padding": 1}),
                ((3, 3, 4), (2, 2, 2), {}),
            )
        ],
    ),
    "qlinear_conv": Row(
        qconv,
        [
            (
                *(ints(0, 256, 2, 3, 5, 4, dtype="uint8"), uniform(0.1, 0.2), np.array(9, "u1")),
                *(ints(0, 256, 2, 3, 2, 2, dtype="uint8"), uniform(0.1, 0.2, 2)),
                *(ints(0, 9, 2, dtype="uint8"), np.array(40.0), np.array(100, "u1")),
            )
        ],
        fixed=(1, 4, 6),
    ),
    "quantize_ggml": Row(
        pack_ggml,
        [(normal(3, 64).astype("f4"), {"format": name}) for name in ("q4_0", "q8_0")],
        fixed=(0,),
    ),
    "dequantize_ggml": Row(
        ggml, [(packed_ggml(name, 2, 256), {"format": name}) for name in WRITTEN]
    ),
    "ggml_matmul": Row(
        lambda t, x, w, format: x @ ggml(t, w, format).to(x.dtype).T,
        [
            (normal(2, 3, 256), packed_ggml(name, 5, 256), {"format": name})
            for name in ("q8_0", "q4_k")
        ],
    ),
    "ggml_embedding": Row(
        lambda t, ids, w, format: ggml(t, w, format)[ids],
        [
            (np.array([[3, 0], [1, 1]]), packed_ggml(name, 4, 256), {"format": name})
            for name in WRITTEN
        ],
    ),
    "ggml_grouped_matmul": Row(
        lambda t, x, w, sizes, format: t.einsum(
            "md,mfd->mf",
            x,
            ggml(t, w, format).to(x.dtype)[t.repeat_interleave(t.arange(len(w)), sizes)],
        ),
        [(normal(6, 64), packed_ggml("q4_0", 3, 5, 64), np.array([2, 0, 4]), {"format": "q4_0"})],
    ),
    "ggml_lora_matmul": Row(
        lora,
        [
            (
                *(normal(4, 64), packed_ggml("q4_0", 3, 64), normal(2, 64), normal(3, 2)),
                {"format": "q4_0", "scale": 0.7},
            )
        ],
    ),
    "quantize_nf4": Row(
        quantize_nf4, [(normal(9, 15),), (normal(4, 4), {"block_size": 8})], fixed=(0,)
    ),
    "dequantize_nf4": Row(nf4, [(*packed_rows(9, 15), {"shape": (9, 15)})], fixed=(1,)),
    "nf4_matmul": Row(
        lambda t, x, p, s, out_features: (
            x @ nf4(t, p, s, (out_features, x.shape[-1])).to(x.dtype).T
        ),
        [(normal(4, 24), *packed_rows(7, 24), {"out_features": 7})],
        fixed=(2,),
    ),
    "quantize_blockwise": Row(
        blockwise, [(normal(9, 40),), (normal(9), {"block_size": 4})], fixed=(0,)
    ),
    "dequantize_blockwise": Row(
        deblockwise, [(ints(0, 256, 9, 40, dtype="uint8"), normal(2).astype("f4"))], fixed=(1,)
    ),
    "quantized_matmul": Row(
        lambda t, x, w, s, z, block_size=0: (
            x @ dequantize(t, w, s, z, 1 if block_size else 0, block_size).T
        ),
        [
            (
                normal(2, 4, 5),
                ints(-9, 9, 3, 5, dtype="int8"),
                SCALES,
                ints(-3, 3, 3, dtype="int8"),
            ),
            (
                *(normal(4, 5), ints(-9, 9, 3, 5, dtype="int8"), normal(3, 3)),
                *(ints(-3, 3, 3, 3, dtype="int8"), {"block_size": 2}),
            ),
        ],
        fixed=(2,),
    ),
    "awq_matmul": Row(
        awq,
        [
            (
                *(normal(3, 8), ints(-(2**31), 2**31, 8, 3, dtype="int32")),
                *(ints(-(2**31), 2**31, 2, 3, dtype="int32"), uniform(0.1, 0.2, 2, 24)),
            )
        ],
        fixed=(3,),
    ),
    "fake_cast": Row(
        lambda t, x, dtype: x + (x.clamp(-448, 448).to(getattr(t, dtype)).to(x.dtype) - x).detach(),
        [(normal(50) * 200, {"dtype": "float8_e4m3fn"})],
    ),
    "fp8_matmul": Row(fp8, [(normal(3, 5), normal(5, 4)), (normal(2, 3, 5), normal(5, 4))]),
    "smooth_quant": Row(
        smooth, [(normal(2, 3, 4), normal(4, 5)), (normal(6, 4), normal(4, 2), {"alpha": 0.8})]
    ),
}

ELSEWHERE = dict.fromkeys(
    ("quantize_fp8", "scaled_matmul", "fp8_product", "update_fp8_scale"),
    "float32 alone: held against ml_dtypes, torch and numpy in test_fp8.py",
)
