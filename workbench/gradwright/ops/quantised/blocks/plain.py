"""Blocks of 32 numbers that share a scale d, and a minimum m.

The block begins with them, as float16; low and high halves of bytes hold elements j and j + 16:

    q4_0   18 bytes: d, 16 bytes                   x = (q − 8)·d
    q4_1   20 bytes: d, m, 16 bytes                x = q·d + m
    q5_0   22 bytes: d, fifth bits, 16 bytes       x = (q − 16)·d
    q5_1   24 bytes: d, m, fifth bits, 16 bytes    x = q·d + m
    q8_0   34 bytes: d, 32 int8                    x = q·d
    mxfp4  17 bytes: e, 16 bytes                   x = e2m1(q)·2^(e − 127)
    nvfp4  36 bytes: e4m3 scales of 4 parts of 16, 32 bytes; 64 numbers    x = e2m1(q)·scale
"""

from __future__ import annotations

import numpy as np

from .block import Array, Format, fields, floats, half, inverse, joined

E2M1 = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float32)
"""The 16 numbers of four bits, twice as large, so that a scale is half of what it says."""


def _fifth(q: Array) -> Array:
    """Return bit 4 of 32 numbers as four bytes."""
    return np.packbits(q >> 4 & 1, axis=1, bitorder="little")


def _with_fifth(bits: Array, raw: Array) -> Array:
    found: Array = fields(raw, 4, 16) | np.unpackbits(bits, axis=1, bitorder="little") << 4
    return found


def _signed(x: Array, steps: int) -> tuple[Array, Array]:
    """Return d and q of x = (q − steps)·d, where the largest number becomes −steps."""
    at = np.abs(x).argmax(1)[:, None]
    d = np.take_along_axis(x, at, 1) / np.float32(-steps)
    q = np.trunc(x.astype(np.float64) * inverse(d) + (steps + 0.5))
    return d, q.astype(np.uint8).clip(0, 2 * steps - 1)


def _affine(x: Array, steps: int) -> tuple[Array, Array, Array]:
    """Return d, m and q of x = q·d + m."""
    low, high = x.min(1, keepdims=True), x.max(1, keepdims=True)
    d = (high - low) / np.float32(steps)
    q = np.trunc((x - low) * inverse(d) + np.float32(0.5))
    return d, low, q.astype(np.uint8).clip(0, steps)


def _pack_q4_0(x: Array) -> Array:
    d, q = _signed(x, 8)
    return np.concatenate([half(d), joined(q, 4, 16)], axis=1)


def _pack_q4_1(x: Array) -> Array:
    d, m, q = _affine(x, 15)
    return np.concatenate([half(d), half(m), joined(q, 4, 16)], axis=1)


def _pack_q5_0(x: Array) -> Array:
    d, q = _signed(x, 16)
    return np.concatenate([half(d), _fifth(q), joined(q & 15, 4, 16)], axis=1)


def _pack_q5_1(x: Array) -> Array:
    d, m, q = _affine(x, 31)
    return np.concatenate([half(d), half(m), _fifth(q), joined(q & 15, 4, 16)], axis=1)


def _pack_q8_0(x: Array) -> Array:
    d = np.abs(x).max(1, keepdims=True) / np.float32(127)
    scaled = x * inverse(d)
    q = np.copysign(np.floor(np.abs(scaled) + np.float32(0.5)), scaled)  # halves away from 0
    return np.concatenate([half(d), q.astype(np.int8).view(np.uint8)], axis=1)


def _pack_mxfp4(x: Array) -> Array:
    """Choose 2^e so that the largest number is at most 6·2^e where it can be, and the nearest q."""
    largest = np.abs(x).max(1, keepdims=True)
    exponent = np.frexp(largest)[1] - 3 + 127  # ⌊log₂⌋ − 2, biased
    e = np.where(largest > 0, exponent, 0).clip(0, 254).astype(np.uint8)
    q = np.abs(_power(e)[:, :, None] * E2M1 - x[:, :, None]).argmin(2)
    return np.concatenate([e, joined(q, 4, 16)], axis=1)


def _power(e: Array) -> Array:
    """Return 2^(e − 128), the scale of numbers that are twice as large."""
    return np.ldexp(np.float32(1), e.astype(np.int32) - 128).astype(np.float32)


def _unpack_q4_0(raw: Array) -> Array:
    return (fields(raw[:, 2:], 4, 16).astype(np.float32) - 8) * floats(raw[:, :2])


def _unpack_q4_1(raw: Array) -> Array:
    return fields(raw[:, 4:], 4, 16) * floats(raw[:, :2]) + floats(raw[:, 2:4])


def _unpack_q5_0(raw: Array) -> Array:
    q = _with_fifth(raw[:, 2:6], raw[:, 6:])
    return (q.astype(np.float32) - 16) * floats(raw[:, :2])


def _unpack_q5_1(raw: Array) -> Array:
    q = _with_fifth(raw[:, 4:8], raw[:, 8:])
    return q * floats(raw[:, :2]) + floats(raw[:, 2:4])


def _unpack_q8_0(raw: Array) -> Array:
    q = np.ascontiguousarray(raw[:, 2:]).view(np.int8)
    return q.astype(np.float32) * floats(raw[:, :2])


def _unpack_mxfp4(raw: Array) -> Array:
    return _power(raw[:, :1]) * E2M1[fields(raw[:, 1:], 4, 16)]


def _unpack_nvfp4(raw: Array) -> Array:
    code = raw[:, :4].astype(np.int32)
    exponent, fraction = code >> 3 & 15, (code & 7).astype(np.float32)
    scale = np.where(
        exponent == 0,
        np.ldexp(fraction, -10),
        np.ldexp(1 + fraction / 8, exponent - 8),
    ).astype(np.float32)
    scale[(code == 0) | (code == 0x7F)] = 0  # the code of NaN is none
    q = E2M1[fields(raw[:, 4:], 4, 8)].reshape(len(raw), 4, 16)
    found: Array = (scale[:, :, None] * q).reshape(len(raw), 64)
    return found


PLAIN = {
    "q4_0": Format(32, 18, _unpack_q4_0, _pack_q4_0),
    "q4_1": Format(32, 20, _unpack_q4_1, _pack_q4_1),
    "q5_0": Format(32, 22, _unpack_q5_0, _pack_q5_0),
    "q5_1": Format(32, 24, _unpack_q5_1, _pack_q5_1),
    "q8_0": Format(32, 34, _unpack_q8_0, _pack_q8_0),
    "mxfp4": Format(32, 17, _unpack_mxfp4, _pack_mxfp4),
    "nvfp4": Format(64, 36, _unpack_nvfp4),
}
