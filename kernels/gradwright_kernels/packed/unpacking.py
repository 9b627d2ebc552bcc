"""Numbers of packed weights, each found by its row and column: what the formats say as indices."""

# Kernels are Triton's language, not Python: they are typed when they are compiled.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

from gradwright.ops.quantised.nf4 import NF4

(_0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15) = (
    tl.constexpr(float(x)) for x in NF4
)


@triton.jit
def byte(at, inside):
    """Load unsigned bytes as int32."""
    return tl.load(at, mask=inside, other=0).to(tl.int32) & 255


@triton.jit
def signed(at, inside):
    """Load signed bytes as float32, from memory of unsigned ones."""
    q = byte(at, inside)
    return (q - ((q & 128) << 1)).to(tl.float32)


@triton.jit
def half(at, inside):
    """Load the float16 of two bytes, as float32."""
    bits = byte(at, inside) | byte(at + 1, inside) << 8
    return bits.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def nf4(code):
    """Return the 16 numbers of NF4 by their codes: four bits choose among fifteen pairs."""
    b0, b1, b2 = (code & 1) != 0, (code & 2) != 0, (code & 4) != 0
    low = tl.where(b1, tl.where(b0, _3, _2), tl.where(b0, _1, _0))
    low = tl.where(b2, tl.where(b1, tl.where(b0, _7, _6), tl.where(b0, _5, _4)), low)
    high = tl.where(b1, tl.where(b0, _11, _10), tl.where(b0, _9, _8))
    high = tl.where(b2, tl.where(b1, tl.where(b0, _15, _14), tl.where(b0, _13, _12)), high)
    return tl.where((code & 8) != 0, high, low)


@triton.jit
def plain(block, j, inside, FORMAT: tl.constexpr):
    """Return elements j of blocks of 32 that begin there; see gradwright.ops.quantised.blocks."""
    d = half(block, inside)
    if FORMAT == "q8_0":
        return signed(block + 2 + j, inside) * d
    HAS_MIN: tl.constexpr = FORMAT == "q4_1" or FORMAT == "q5_1"
    FIVE: tl.constexpr = FORMAT == "q5_0" or FORMAT == "q5_1"
    START: tl.constexpr = (4 if HAS_MIN else 2) + (4 if FIVE else 0)
    q = byte(block + START + j % 16, inside) >> (j // 16 * 4) & 15
    if FIVE:
        q = q | (byte(block + START - 4 + j // 8, inside) >> (j % 8) & 1) << 4
    if HAS_MIN:
        return q.to(tl.float32) * d + half(block + 2, inside)
    return (q - (16 if FIVE else 8)).to(tl.float32) * d


@triton.jit
def in_parts(block, j, inside, FORMAT: tl.constexpr):
    """Return elements j of blocks of 256 that begin there."""
    if FORMAT == "q6_k":
        q = byte(block + j // 128 * 64 + j % 64, inside) >> (j % 128 // 64 * 4) & 15
        high = byte(block + 128 + j // 128 * 32 + j % 32, inside) >> (j % 128 // 32 * 2) & 3
        d = half(block + 208, inside) * signed(block + 192 + j // 16, inside)
        return ((q | high << 4) - 32).to(tl.float32) * d
    part = j // 32
    own = block + 4 + part % 4
    low, high, mixed = byte(own, inside), byte(own + 4, inside), byte(own + 8, inside)
    scale = tl.where(part < 4, low & 63, (mixed & 15) | (low >> 6) << 4)
    least = tl.where(part < 4, high & 63, mixed >> 4 | (high >> 6) << 4)
    START: tl.constexpr = 48 if FORMAT == "q5_k" else 16
    q = byte(block + START + j // 64 * 32 + j % 32, inside) >> (j % 64 // 32 * 4) & 15
    if FORMAT == "q5_k":
        q = q | (byte(block + 16 + j % 32, inside) >> part & 1) << 4
    d, m = half(block, inside), half(block + 2, inside)
    return q.to(tl.float32) * (d * scale.to(tl.float32)) - m * least.to(tl.float32)


@triton.jit
def number(
    w_ptr, scale_ptr, zero_ptr, f, d, inside, n_rows, width, FORMAT: tl.constexpr,
    SIZE: tl.constexpr, N_BYTES: tl.constexpr, EACH: tl.constexpr, SIGNED: tl.constexpr,
    ACC: tl.constexpr, INDEX: tl.constexpr,
):  # fmt: skip
    """Return numbers [f, d] of a weight [n_rows, width]: scaled integers in ACC, else float32.

    SIZE, N_BYTES: of a block, or how many numbers share a scale; EACH of "int": "all" of the
    weight, each "row", or each "block" of a row; SIGNED, the number of bits of one if signed.
    """
    row = f.to(INDEX)
    if FORMAT == "nf4":
        at = row * width + d
        code = byte(w_ptr + at // 2, inside) >> ((1 - (at % 2).to(tl.int32)) * 4) & 15
        return nf4(code) * tl.load(scale_ptr + at // SIZE, mask=inside, other=0.0).to(tl.float32)
    if FORMAT == "int":
        q = byte(w_ptr + row * width + d, inside)
        at = row * 0
        if EACH == "row":
            at = row
        if EACH == "block":
            at = row * ((width + SIZE - 1) // SIZE) + d // SIZE
        if SIGNED:
            q = (q << (32 - SIGNED)) >> (32 - SIGNED)
        value = q.to(tl.float32)
        if zero_ptr is not None:
            z = byte(zero_ptr + at, inside)
            if SIGNED:
                z = (z << (32 - SIGNED)) >> (32 - SIGNED)
            value -= z.to(tl.float32)
        return value.to(ACC) * tl.load(scale_ptr + at, mask=inside, other=0.0).to(ACC)
    if FORMAT == "awq":
        shift = (f % 8 % 2 * 4 + f % 8 // 2) * 4
        group = d // SIZE
        q = tl.load(w_ptr + (d.to(INDEX) * (n_rows // 8) + f // 8), mask=inside, other=0)
        z = tl.load(zero_ptr + (group.to(INDEX) * (n_rows // 8) + f // 8), mask=inside, other=0)
        value = ((q >> shift & 15) - (z >> shift & 15)).to(tl.float32)
        at = group.to(INDEX) * n_rows + f
        return value.to(ACC) * tl.load(scale_ptr + at, mask=inside, other=0.0).to(ACC)
    block = w_ptr + (row * (width // SIZE) + d // SIZE) * N_BYTES
    if SIZE == 256:
        return in_parts(block, d % SIZE, inside, FORMAT)
    return plain(block, d % SIZE, inside, FORMAT)
