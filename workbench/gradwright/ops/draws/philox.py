"""Philox4x32-10, the counter-based generator behind every random number here.

Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3" (SC'11). A word
is a pure function of key and counter, so any device computes any element on its own:

    key     = (seed mod 2³², seed div 2³²)
    counter = (block, stream, step mod 2³², step div 2³²)
    words   = philox(key, counter)                     4 words of 32 bits for each block

``step`` is the run's step, ``stream`` the number a random op was given when it was made. A 32-bit
draw takes word ``i mod 4`` of block ``i div 4`` for element ``i`` (row-major); a 64-bit draw joins
words ``2i`` (low half) and ``2i + 1``. One draw has at most 2³² blocks.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...errors import GraphError
from ...graph.doors import door
from ..core.special import finfo, normal_cdf, normal_quantile

Array = np.ndarray[Any, Any]

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_CHUNK = 1 << 14  # blocks at a time: ten rounds over 0.4 MB stay in the L2 cache
_LEAST, _ENOUGH = 512, 1 << 20
"""Numbers that machine code draws at least, and how many a process has drawn before it is asked."""


def philox(key: tuple[Any, Any], counter: Array) -> Array:
    """Return ``u32[n, 4]`` words for ``u32[n, 4]`` counters: ten rounds.

    ``key`` are two ints, or two arrays ``u64[n]`` where each counter has its own.

    >>> words = philox((0, 0), np.zeros((1, 4), np.uint32))[0]
    >>> [f"{w:08x}" for w in words]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    c0, c1, c2, c3 = (counter[:, i].astype(np.uint64) for i in range(4))
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c0 * _M0, c2 * _M1
        c0, c1 = (p1 >> _HALF) ^ c1 ^ np.uint64(k0), p1 & _LOW
        c2, c3 = (p0 >> _HALF) ^ c3 ^ np.uint64(k1), p0 & _LOW
        k0, k1 = (k0 + _W0) & 0xFFFFFFFF, (k1 + _W1) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], -1).astype(np.uint32)


def is_word(n: Any) -> bool:
    """Tell whether ``n`` is a whole number of 64 bits, as seeds and steps are; True is none.

    >>> is_word(2**64 - 1), is_word(-1), is_word(2**64), is_word(1.0)
    (True, False, False, False)
    """
    if type(n) is int:  # each step of a training asks; the line below takes 0.2 µs more
        return 0 <= n < 1 << 64
    return isinstance(n, (int, np.integer)) and not isinstance(n, bool) and 0 <= int(n) < 1 << 64


class _Count:
    """How many numbers the process has drawn, about: threads may miss some."""

    drawn = 0


def _native(
    kind: str, rng: Array, stream: int, n: int, numbers: tuple[float, ...] | int = 0
) -> Array | None:
    """Return what machine code draws; None: it is not worth it, or there is no compiler.

    Bits are the same, so it may begin at any time: when a million are drawn, 50 ms on numpy.
    """
    if -(-n // 4) > 1 << 32 or not 0 <= stream < 1 << 32:
        raise GraphError(
            f"cannot draw {n} words of stream {stream}", need="at most 2**34, 0 <= stream < 2**32"
        )
    _Count.drawn += n
    if n < _LEAST or _Count.drawn < _ENOUGH:
        return None
    found: Array | None = door("draws")(kind, rng, stream, n, numbers)
    return found


def words(rng: Array, stream: int, n: int) -> Array:
    """Return ``n`` 32-bit words of a stream; ``rng`` is ``u64[2]``: seed and step."""
    found = _native("words", rng, stream, n)
    return plain_words(rng, stream, n) if found is None else found


def plain_words(rng: Array, stream: int, n: int, first: int = 0) -> Array:
    """Return words from a block on, on numpy: what machine code is held to.

    >>> key = np.array([1, 2], np.uint64)
    >>> plain_words(key, 0, 2, 3).tolist() == words(key, 0, 14)[12:].tolist()
    True
    """
    seed, step = int(rng[0]), int(rng[1])
    n_blocks = -(-n // 4)
    out = np.empty((n_blocks, 4), np.uint32)
    for start in range(0, n_blocks, _CHUNK):
        stop = min(start + _CHUNK, n_blocks)
        counter = np.empty((stop - start, 4), np.uint32)
        counter[:, 0] = np.arange(first + start, first + stop, dtype=np.uint64)
        counter[:, 1:] = stream, step & 0xFFFFFFFF, step >> 32
        out[start:stop] = philox((seed & 0xFFFFFFFF, seed >> 32), counter)
    return out.reshape(-1)[:n]


def upper_half(words: Array, factor: np.uint64) -> Array:
    """Return ⌊words·factor/2⁶⁴⌋, from products of 32 bits.

    >>> upper_half(np.array([1 << 63], np.uint64), np.uint64(10)).tolist()
    [5]
    """
    a, b, c, d = words >> _HALF, words & _LOW, factor >> _HALF, factor & _LOW
    middle = a * d + ((b * d) >> _HALF)
    low = b * c + (middle & _LOW)
    return a * c + (middle >> _HALF) + (low >> _HALF)  # type: ignore[no-any-return]


def words64(rng: Array, stream: int, n: int) -> Array:
    """Return ``n`` 64-bit words of a stream."""
    pairs = words(rng, stream, 2 * n).astype(np.uint64)
    return pairs[0::2] | pairs[1::2] << _HALF


FOLD = (1 << 32) - 1
"""The stream that makes new keys; no graph gives it to an op."""


def fold_in(rng: Array, number: int) -> Array:
    """Return the key of one step of a loop: seed' and step' are the words of block ``number``.

    In plain integers: one block takes 4 us, and 60 as arrays.

    >>> fold_in(np.array([0, 0], np.uint64), 0).dtype
    dtype('uint64')
    """
    seed, step = int(rng[0]), int(rng[1])
    low, m0, m1 = 0xFFFFFFFF, int(_M0), int(_M1)
    c0, c1, c2, c3 = number & low, FOLD, step & low, step >> 32
    k0, k1 = seed & low, seed >> 32
    for _ in range(10):
        p0, p1 = c0 * m0, c2 * m1
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & low, (p0 >> 32) ^ c3 ^ k1, p0 & low
        k0, k1 = (k0 + _W0) & low, (k1 + _W1) & low
    return np.array([c1 << 32 | c0, c3 << 32 | c2], np.uint64)


def fold_in_each(rngs: Array, number: int) -> Array:
    """Return what ``fold_in`` does of each of ``u64[n, 2]``, 1 us each where they are many.

    >>> rngs = np.array([[1, 2], [3, 4]], np.uint64)
    >>> (fold_in_each(rngs, 5)[1] == fold_in(rngs[1], 5)).tolist()
    [True, True]
    """
    seed, step = rngs[:, 0], rngs[:, 1]
    counter = np.empty((len(rngs), 4), np.uint32)
    counter[:, 0], counter[:, 1] = number, FOLD
    counter[:, 2], counter[:, 3] = step & _LOW, step >> _HALF
    found = philox((seed & _LOW, seed >> _HALF), counter).astype(np.uint64)
    return found[:, 1::2] << _HALF | found[:, 0::2]


AS_DRAWN = (1.0, -0.0, 1.0)
"""Scale, offset and factor that leave every number as it is, the sign of zero included."""
Scaling = tuple[float, float, float]


def scaled(x: Array, scale: float, offset: float, factor: float) -> Array:
    """Return (x·scale + offset)·factor, written over x, each step rounded.

    >>> scaled(np.array([0.5, 1.0]), 2.0, -1.0, 3.0).tolist()
    [0.0, 3.0]
    """
    if scale != 1.0:
        x *= scale
    if offset or math.copysign(1.0, offset) > 0:
        x += offset
    if factor != 1.0:
        x *= factor
    return x


def uniform(
    rng: Array, stream: int, n: int, dtype: np.dtype[Any], scaling: Scaling = AS_DRAWN
) -> Array:
    """Return ``n`` multiples of 2⁻ᵖ in [0, 1), where the dtype has p significant bits, scaled."""
    bits = 53 if dtype == np.float64 else finfo(dtype).nmant + 1
    if dtype == np.float32 and (found := _native("uniform", rng, stream, n, scaling)) is not None:
        return found
    if bits > 32:
        wide = (words64(rng, stream, n) >> np.uint64(64 - bits)) * 2.0**-bits
        return scaled(wide, *scaling)
    small = (words(rng, stream, n) >> np.uint32(32 - bits)).astype(np.float32)
    return scaled((small * np.float32(2.0**-bits)).astype(dtype), *scaling)


def normal(
    rng: Array, stream: int, n: int, dtype: np.dtype[Any], scaling: Scaling = AS_DRAWN
) -> Array:
    """Return ``n`` standard normals by Box and Muller 1958, computed in float64, scaled.

    Words come in pairs (a, b) of 32 bits, of 64 for float64:
    r = √(−2 ln((a + 1)/2³²)), z₂ᵢ = r·cos(2πb/2³²), z₂ᵢ₊₁ = r·sin(2πb/2³²).
    """
    even = n + n % 2
    if dtype == np.float64:
        wide = normal_of(words64(rng, stream, even) >> np.uint64(11), 2.0**-53)
        return scaled(wide[:n], *scaling)
    found = _native("normal", rng, stream, n, scaling if dtype == np.float32 else AS_DRAWN)
    if found is None:
        found = normal_of(words(rng, stream, even))[:n]
    elif dtype == np.float32:
        return found
    return scaled(found.astype(dtype), *scaling)


def normal_of(drawn: Array, scale: float = 2.0**-32) -> Array:
    """Return normals of pairs of words, in float64."""
    unit = drawn.astype(np.float64)
    radius = np.sqrt(-2.0 * np.log((unit[0::2] + 1.0) * scale))
    angle = unit[1::2] * (2.0 * np.pi * scale)
    out = np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1)
    return out.reshape(-1)


def truncated_normal(
    rng: Array,
    stream: int,
    n: int,
    dtype: np.dtype[Any],
    lower: float,
    upper: float,
    scaling: Scaling = AS_DRAWN,
) -> Array:
    """Return ``n`` standard normals conditioned on [lower, upper], by inversion, scaled.

    A range above 0 is drawn as its mirror image, for probabilities near 1 have no digits left.
    """
    if lower > 0:
        scale, offset, factor = scaling
        return truncated_normal(rng, stream, n, dtype, -upper, -lower, (-scale, offset, factor))
    if dtype == np.float64:
        unit = ((words64(rng, stream, n) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
        return scaled(_quantiles(unit, lower, upper), *scaling)
    if dtype == np.float32:
        low, high = map(float, normal_cdf(np.array([lower, upper])))
        numbers = (*scaling, low, high - low, lower, upper)
        if (found := _native("truncated", rng, stream, n, numbers)) is not None:
            return found
    wide = truncated_of(words(rng, stream, n), lower, upper)
    return scaled(wide.astype(dtype), *scaling)


def truncated_of(drawn: Array, lower: float, upper: float) -> Array:
    """Return truncated normals of words, in float64."""
    return _quantiles((drawn.astype(np.float64) + 0.5) * 2.0**-32, lower, upper)


def _quantiles(unit: Array, lower: float, upper: float) -> Array:
    low, high = normal_cdf(np.array([lower, upper]))
    clipped: Array = np.clip(normal_quantile(low + (high - low) * unit), lower, upper)
    return clipped


def bernoulli(rng: Array, stream: int, n: int, p: float) -> Array:
    """Return ``n`` bools, True where a 32-bit word is below p·2³²."""
    threshold = round(p * 2.0**32)
    found = _native("bernoulli", rng, stream, n, threshold)
    return words(rng, stream, n) < np.uint64(threshold) if found is None else found
