"""Blocks whose numbers are entries of a code book: the iq kinds of ggml, read here, not written.

    iq1_s     50 bytes: d, 32 bytes, 8 words of high bits, scales of 3 bits and a sign
    iq1_m     56 bytes: 32 + 16 bytes, 4 words of scales of 3 bits, whose top fours are d
    iq2_xxs   66 bytes: d, 8 × (4 bytes, a word of 4 × 7 bits of signs and a scale)
    iq2_xs    74 bytes: d, 32 words of 9 bits and 7 of signs, 8 bytes of scales
    iq2_s     82 bytes: d, 32 bytes, 32 of signs, 8 of high bits, 8 of scales
    iq3_xxs   98 bytes: d, 64 bytes, 8 words of signs and a scale
    iq3_s    110 bytes: d, 64 bytes, 8 of high bits, 32 of signs, 4 of scales
    iq4_nl    18 bytes: d, 16 bytes; 32 numbers
    iq4_xs   136 bytes: d, 2 + 4 bytes of scales, 128 bytes

Those of 1 to 3 bits take 8 (or 4) numbers at once from a grid, `grids.py`.
"""

from __future__ import annotations

import numpy as np

from .block import Array, Format, fields, floats, words
from .grids import grid

STEPS = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""The 16 numbers of iq4."""
_STEPS = np.array(STEPS, np.float32)
_TWO, _THREE = (8, 25, 43), (4, 12, 20, 28, 36, 44, 52, 62)
_ODD, _ONE = (1, 3, 5, 7, 9, 11, 13, 15), (-1, 0, 1)
SHIFT = np.float32(0.125)
"""By how much numbers of one bit are moved, up or down."""


def _signs(raw: Array) -> Array:
    """Return −1 for each bit that is set, else 1."""
    bits = np.unpackbits(raw, axis=1, bitorder="little")
    return np.where(bits, np.float32(-1), np.float32(1))


def _even(codes: Array) -> Array:
    """Return the signs of 7 bits each: the eighth makes the number of minuses even."""
    codes = codes.astype(np.uint8) & 127
    odd = np.bitwise_count(codes) & 1
    return _signs(codes | odd << 7)


def _in_words(raw: Array, words_of: Array) -> tuple[Array, Array]:
    """Return scales and signs from words of 4 × 7 bits of signs and 4 of a scale."""
    scale = floats(raw[:, :2]) * (np.float32(0.5) + (words_of >> 28).astype(np.float32))
    codes = words_of[:, :, None] >> np.array([0, 7, 14, 21], np.uint32)
    return scale, _even(codes.reshape(len(raw), 32))


def _by_grid(scale: Array, index: Array, book: Array, signs: Array) -> Array:
    """Return scale·grid·sign, where each scale is that of a part of the block."""
    n = len(scale)
    x = scale[:, :, None] * book[index].reshape(n, scale.shape[1], -1)
    return (x * signs.reshape(x.shape)).reshape(n, 256)


def _unpack_iq2_xxs(raw: Array) -> Array:
    pairs = words(raw[:, 2:], 4).reshape(len(raw), 8, 2)
    index = np.ascontiguousarray(pairs[:, :, 0]).view(np.uint8)
    scale, signs = _in_words(raw, pairs[:, :, 1])
    return _by_grid(scale * np.float32(0.25), index, grid("iq2_xxs", 8, _TWO), signs)


def _unpack_iq2_xs(raw: Array) -> Array:
    q = words(raw[:, 2:66], 2)
    scale = floats(raw[:, :2]) * (np.float32(0.5) + fields(raw[:, 66:], 4, 1))
    book = grid("iq2_xs", 8, _TWO)
    return _by_grid(scale * np.float32(0.25), q & 511, book, _even(q >> 9))


def _unpack_iq2_s(raw: Array) -> Array:
    scale = floats(raw[:, :2]) * (np.float32(0.5) + fields(raw[:, 74:], 4, 1))
    index = raw[:, 2:34].astype(np.uint16) | fields(raw[:, 66:74], 2, 1).astype(np.uint16) << 8
    book = grid("iq2_s", 8, _TWO)
    return _by_grid(scale * np.float32(0.25), index, book, _signs(raw[:, 34:66]))


def _unpack_iq3_xxs(raw: Array) -> Array:
    scale, signs = _in_words(raw, words(raw[:, 66:], 4))
    book = grid("iq3_xxs", 4, _THREE)
    return _by_grid(scale * np.float32(0.5), raw[:, 2:66], book, signs)


def _unpack_iq3_s(raw: Array) -> Array:
    scale = floats(raw[:, :2]) * (1 + 2 * fields(raw[:, 106:], 4, 1))
    high = np.unpackbits(raw[:, 66:74], axis=1, bitorder="little").astype(np.uint16)
    index = raw[:, 2:66] | high << 8
    return _by_grid(scale, index, grid("iq3_s", 4, _ODD), _signs(raw[:, 74:106]))


def _unpack_iq1_s(raw: Array) -> Array:
    high = words(raw[:, 34:], 2)
    scale = floats(raw[:, :2]) * (2 * (high >> 12 & 7) + 1)
    shift = np.where(high & 0x8000, -SHIFT, SHIFT)
    top = high[:, :, None] >> np.array([0, 3, 6, 9], np.uint16) & 7
    index = raw[:, 2:34] | top.reshape(len(raw), 32) << 8
    x = grid("iq1_s", 8, _ONE)[index].reshape(len(raw), 8, 32)
    found: Array = scale[:, :, None] * (x + shift[:, :, None])
    return found.reshape(len(raw), 256)


def _unpack_iq1_m(raw: Array) -> Array:
    held = words(raw[:, 48:], 2)
    tops = held & np.uint16(0xF000)
    bits = np.bitwise_or.reduce(tops >> np.array([12, 8, 4, 0], np.uint16), axis=1).astype("<u2")
    scales = (held[:, :, None] >> np.array([0, 3, 6, 9], np.uint16) & 7).reshape(len(raw), 16)
    scale = bits.view("<f2").astype(np.float32)[:, None] * (2 * scales + 1)
    high = fields(raw[:, 32:48], 4, 1)
    index = raw[:, :32] | (high & 7).astype(np.uint16) << 8
    shift = np.where(high & 8, -SHIFT, SHIFT).reshape(len(raw), 16, 2, 1)
    x = grid("iq1_s", 8, _ONE)[index].reshape(len(raw), 16, 2, 8)
    found: Array = scale[:, :, None, None] * (x + shift)
    return found.reshape(len(raw), 256)


def _unpack_iq4_nl(raw: Array) -> Array:
    return floats(raw[:, :2]) * _STEPS[fields(raw[:, 2:], 4, 16)]


def _unpack_iq4_xs(raw: Array) -> Array:
    top = words(raw[:, 2:4], 2) >> np.arange(0, 16, 2, dtype=np.uint16) & 3
    scales = fields(raw[:, 4:8], 4, 1) | top << 4
    d = floats(raw[:, :2]) * (scales.astype(np.float32) - 32)
    x = _STEPS[fields(raw[:, 8:], 4, 16)].reshape(len(raw), 8, 32)
    found: Array = d[:, :, None] * x
    return found.reshape(len(raw), 256)


CODEBOOKS = {
    "iq1_s": Format(256, 50, _unpack_iq1_s),
    "iq1_m": Format(256, 56, _unpack_iq1_m),
    "iq2_xxs": Format(256, 66, _unpack_iq2_xxs),
    "iq2_xs": Format(256, 74, _unpack_iq2_xs),
    "iq2_s": Format(256, 82, _unpack_iq2_s),
    "iq3_xxs": Format(256, 98, _unpack_iq3_xxs),
    "iq3_s": Format(256, 110, _unpack_iq3_s),
    "iq4_nl": Format(32, 18, _unpack_iq4_nl),
    "iq4_xs": Format(256, 136, _unpack_iq4_xs),
}
