"""Blocks of 256 numbers in parts, whose scales (and minima) are small integers times d (and m).

q2_k   84 bytes: 16 of (scale, minimum) of 16 parts in 4 bits each, 64 bytes, d, m
q3_k  110 bytes: third bits (32), 64 bytes, 12 bytes of 16 scales in 6 bits, d
q4_k  144 bytes: d, m, 12 bytes of scales and minima of 8 parts in 6 bits, 128 bytes
q5_k  176 bytes: d, m, 12 bytes as in q4_k, fifth bits (32), 128 bytes
q6_k  210 bytes: low fours of bits (128), high twos (64), 16 int8 scales, d

x = q·(d·scale) − m·minimum in q2_k, q4_k and q5_k;  x = (q − offset)·(d·scale) in the others
"""

from __future__ import annotations

import numpy as np

from .block import Array, Format, fields, floats, half, inverse, joined

WIDER = (-1.0, -0.6, -0.2, 0.2, 0.6)
"""By how many steps the range of a part is taken to be wider, to look for a better scale. Of normal
numbers q4_k loses 5 % less than by the range alone; the 21 that ggml tries win 0.5 % more."""


def _six_bits(raw: Array) -> tuple[Array, Array]:
    """Return scales and minima of 8 parts from 12 bytes."""
    low, high, mixed = np.split(raw, 3, axis=1)
    scales = np.concatenate([low & 63, (mixed & 15) | (low >> 6) << 4], axis=1)
    minima = np.concatenate([high & 63, mixed >> 4 | (high >> 6) << 4], axis=1)
    return scales, minima


def _as_six_bits(scales: Array, minima: Array) -> Array:
    (s, t), (u, v) = (np.split(k, 2, axis=1) for k in (scales, minima))
    bits = [s | (t >> 4) << 6, u | (v >> 4) << 6, (t & 15) | (v & 15) << 4]
    return np.concatenate(bits, axis=1)


def _spread(q: Array, d: Array, m: Array | None = None) -> Array:
    """Return q·d − m, where parts have each a d and, if at all, an m."""
    n, parts = d.shape
    found: Array = q.reshape(n, parts, -1) * d[:, :, None]
    if m is not None:
        found -= m[:, :, None]
    return found.reshape(n, 256)


def _unpack_q2_k(raw: Array) -> Array:
    d = floats(raw[:, 80:82]) * (raw[:, :16] & 15)
    return _spread(fields(raw[:, 16:80], 2, 32), d, floats(raw[:, 82:]) * (raw[:, :16] >> 4))


def _unpack_q3_k(raw: Array) -> Array:
    scales = fields(raw[:, 96:104], 4, 8) | fields(raw[:, 104:108], 2, 4) << 4
    d = floats(raw[:, 108:]) * (scales.astype(np.float32) - 32)
    q = fields(raw[:, 32:96], 2, 32) | fields(raw[:, :32], 1, 32) << 2
    return _spread(q.astype(np.float32) - 4, d)


def _unpack_q4_k(raw: Array) -> Array:
    scales, minima = _six_bits(raw[:, 4:16])
    d, m = floats(raw[:, :2]) * scales, floats(raw[:, 2:4]) * minima
    return _spread(fields(raw[:, 16:], 4, 32), d, m)


def _unpack_q5_k(raw: Array) -> Array:
    scales, minima = _six_bits(raw[:, 4:16])
    d, m = floats(raw[:, :2]) * scales, floats(raw[:, 2:4]) * minima
    return _spread(fields(raw[:, 48:], 4, 32) | fields(raw[:, 16:48], 1, 32) << 4, d, m)


def _unpack_q6_k(raw: Array) -> Array:
    scales = np.ascontiguousarray(raw[:, 192:208]).view(np.int8)
    d = floats(raw[:, 208:]) * scales.astype(np.float32)
    q = fields(raw[:, :128], 4, 64) | fields(raw[:, 128:192], 2, 32) << 4
    return _spread(q.astype(np.float32) - 32, d)


# -- writing ---------------------------------------------------------------------------------------


def _fitted(parts: Array, steps: int) -> tuple[Array, Array]:
    """Return d and m >= 0 of each part, so that q·d − m is near x for q of 0 to ``steps``.

    Of some widths of the range, each followed by weighted least squares for d and m given q, the
    one of the least weighted error is taken; large numbers weigh more, as in ggml.
    """
    size = np.sqrt(np.mean(parts * parts, axis=2, keepdims=True))
    weight = size + np.abs(parts)
    low, high = np.minimum(parts.min(2, keepdims=True), 0), parts.max(2, keepdims=True)
    sw, sx = weight.sum(2), (weight * parts).sum(2)
    best_d, best_m = (high - low)[:, :, 0] / np.float32(steps), -low[:, :, 0]
    least = np.full(sw.shape, np.inf, np.float32)
    for change in WIDER:
        q = np.rint((parts - low) * inverse(high - low) * np.float32(steps + change))
        q = q.clip(0, steps)
        wq = weight * q
        sl, sll, sxl = wq.sum(2), (wq * q).sum(2), (wq * parts).sum(2)
        det = sw * sll - sl * sl
        d = (sw * sxl - sx * sl) * inverse(det)
        m = (sl * sxl - sll * sx) * inverse(det)
        d, m = np.where(m < 0, sxl * inverse(sll), d), np.maximum(m, 0)
        error = (weight * (q * d[:, :, None] - m[:, :, None] - parts) ** 2).sum(2)
        better = (det > 0) & (d > 0) & (error < least)
        best_d, best_m = np.where(better, d, best_d), np.where(better, m, best_m)
        least = np.where(better, error, least)
    return best_d, best_m


def _affine(x: Array, steps: int) -> tuple[Array, Array]:
    """Return the first 16 bytes of a block, and q."""
    parts = x.reshape(len(x), 8, 32)
    d, m = _fitted(parts, steps)
    unit, offset = (v.max(1, keepdims=True) / np.float32(63) for v in (d, m))
    scales, minima = (
        np.clip(np.rint(v * inverse(u)), 0, 63).astype(np.uint8)
        for v, u in ((d, unit), (m, offset))
    )
    raw_d, raw_m = half(unit), half(offset)
    d, m = floats(raw_d) * scales, floats(raw_m) * minima
    q = np.rint((parts + m[:, :, None]) * inverse(d)[:, :, None]).clip(0, steps).astype(np.uint8)
    head = np.concatenate([raw_d, raw_m, _as_six_bits(scales, minima)], axis=1)
    return head, q.reshape(len(x), 256)


def _pack_q4_k(x: Array) -> Array:
    head, q = _affine(x, 15)
    return np.concatenate([head, joined(q, 4, 32)], axis=1)


def _pack_q5_k(x: Array) -> Array:
    head, q = _affine(x, 31)
    return np.concatenate([head, joined(q >> 4, 1, 32), joined(q & 15, 4, 32)], axis=1)


def _pack_q6_k(x: Array) -> Array:
    """Pack with scales by weighted least squares; those of parts are rounded to int8."""
    parts = x.reshape(len(x), 16, 16)
    at = np.abs(parts).argmax(2)[:, :, None]
    largest = np.take_along_axis(parts, at, 2)
    weight = parts * parts
    best, least = largest[:, :, 0] / np.float32(-32), np.full(parts.shape[:2], np.inf, np.float32)
    for change in WIDER:
        q = np.rint(parts * inverse(largest) * np.float32(-32 - change)).clip(-32, 31)
        wq = weight * q
        d = (wq * parts).sum(2) * inverse((wq * q).sum(2))
        error = (weight * (q * d[:, :, None] - parts) ** 2).sum(2)
        best, least = np.where(error < least, d, best), np.minimum(error, least)
    peak = np.take_along_axis(best, np.abs(best).argmax(1)[:, None], 1)
    raw_d = half(peak / np.float32(-128))
    scales = np.rint(best * inverse(floats(raw_d))).clip(-128, 127).astype(np.int8)
    d = floats(raw_d) * scales
    q = np.rint(parts * inverse(d)[:, :, None]).clip(-32, 31).astype(np.int8) + 32
    q = q.astype(np.uint8).reshape(len(x), 256)
    low, high = joined(q & 15, 4, 64), joined(q >> 4, 2, 32)
    return np.concatenate([low, high, scales.view(np.uint8), raw_d], axis=1)


K = {
    "q2_k": Format(256, 84, _unpack_q2_k),
    "q3_k": Format(256, 110, _unpack_q3_k),
    "q4_k": Format(256, 144, _unpack_q4_k, _pack_q4_k),
    "q5_k": Format(256, 176, _unpack_q5_k, _pack_q5_k),
    "q6_k": Format(256, 210, _unpack_q6_k, _pack_q6_k),
}
