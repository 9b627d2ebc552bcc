"""Random tensors by Philox4x32-10, the words being those of the CPU to the bit.

    words      philox(key = seed, counter = (block, stream, step))        4 words of 32 bits a block
    bernoulli  word < p·2³²          uniform  (word ≫ (32 − b))·2⁻ᵇ·(high − low) + low
    randint    ⌊words₆₄·(high − low)/2⁶⁴⌋ + low
    normal     r·cos φ, r·sin φ with r = √(−2 ln((a + 1)·2⁻³²)), φ = 2π·c·2⁻³² of words a and c

Where the dtype is float64, words are joined to 64 bits, of which 53 count. Bools, integers and
uniform numbers have the CPU's bits. Normals are rounded from float64 values whose logarithm and
circular functions may differ from numpy's in the last place, so at most one float32 in 10⁶ differs,
by its last bit.

Bytes moved for N elements of s bytes: N·s. A thread computes whole blocks, and neighbours are woven
in registers. Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

# Kernels are Triton's language, not Python: they are typed when they are compiled.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton
import triton.language as tl

from gradwright.cpu.draws import philox
from gradwright.program.lowering import Launch, lowering
from gradwright.spec import TensorSpec
from gradwright.spec.rounding import rounded

from ..fused.elements import DTYPES
from ..launch import accumulator, prepare

HALF_PI = tl.constexpr(philox.HALF_PI)
ODD = tl.constexpr(tuple((-1) ** n / math.factorial(2 * n + 1) for n in range(8, 0, -1)))
"""(sin(r)/r − 1)/r² in r², the highest power first."""
EVEN = tl.constexpr(tuple((-1) ** n / math.factorial(2 * n) for n in range(9, 1, -1)))
"""(cos(r) − 1 + r²/2)/r⁴ in r²."""
# 256 blocks are 1,024 words: ten rounds of 20 instructions each for eight words of a thread.
BLOCKS = 256


@triton.jit
def _words(rng_ptr, stream, BLOCKS: tl.constexpr):
    """Return the four words of each block of a program; rng_ptr: u64[2], seed and step."""
    block = (tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)).to(tl.uint32)
    step = tl.load(rng_ptr + 1)
    none = tl.zeros((BLOCKS,), tl.uint32)
    low, high = none + step.to(tl.uint32), none + (step >> 32).to(tl.uint32)
    stream = (none.to(tl.int64) + stream).to(tl.uint32)
    return tl.philox(tl.load(rng_ptr), block, stream, low, high)


@triton.jit
def _woven(a, b, c, d):
    """Return four words of each block one behind the other."""
    return tl.interleave(tl.interleave(a, c), tl.interleave(b, d))


@triton.jit
def _wide(a, b, c, d):
    """Return two words of 64 bits of each block, low halves first."""
    return (
        a.to(tl.uint64) | (b.to(tl.uint64) << 32),
        c.to(tl.uint64) | (d.to(tl.uint64) << 32),
    )


@triton.jit
def _keep(y_ptr, y, n):
    """Store what a program has drawn, as far as there are elements; y_ptr: [n]."""
    at = tl.program_id(0).to(tl.int64) * y.shape[0] + tl.arange(0, y.shape[0])
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=at < n)


@triton.jit
def _bernoulli_kernel(rng_ptr, y_ptr, n, stream, threshold, BLOCKS: tl.constexpr):
    """Ones where a word is below a threshold; rng_ptr: u64[2], y_ptr: [n]."""
    a, b, c, d = _words(rng_ptr, stream, BLOCKS)
    _keep(y_ptr, _woven(a, b, c, d).to(tl.int64) < threshold, n)


@triton.jit
def _uniform_kernel(
    rng_ptr,
    y_ptr,
    n,
    stream,
    BITS: tl.constexpr,
    LOW: tl.constexpr,
    SPAN: tl.constexpr,
    TOP: tl.constexpr,
    ACC: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """Multiples of 2⁻ᴮᴵᵀˢ, scaled, each step rounded to the dtype; rng_ptr: u64[2], y_ptr: [n]."""
    a, b, c, d = _words(rng_ptr, stream, BLOCKS)
    kind = y_ptr.dtype.element_ty
    if BITS > 32:
        a, b = _wide(a, b, c, d)
        x = (tl.interleave(a, b) >> (64 - BITS)).to(tl.int64).to(ACC)
    else:
        x = (_woven(a, b, c, d) >> (32 - BITS)).to(tl.int32).to(ACC)
    x = x * (1.0 / (1 << BITS))
    if LOW != 0.0 or SPAN != 1.0:
        x = ((x * SPAN).to(kind).to(ACC) + LOW).to(kind).to(ACC)
        x = tl.minimum(x, TOP)
    _keep(y_ptr, x, n)


@triton.jit
def _randint_kernel(rng_ptr, y_ptr, n, stream, low, span, BLOCKS: tl.constexpr):
    """Integers from low on, below low + span; rng_ptr: u64[2], y_ptr: [n]."""
    a, b, c, d = _words(rng_ptr, stream, BLOCKS)
    a, b = _wide(a, b, c, d)
    x = tl.interleave(a, b)
    y = tl.umulhi(x, (tl.zeros_like(x).to(tl.int64) + span).to(tl.uint64)).to(tl.int64) + low
    _keep(y_ptr, y, n)


@triton.jit
def _circular(x):
    """Return sine and cosine of angles in [0, 2π], by series on a quarter around 0.

    Those of libdevice have a path for huge angles, which takes a stack of every thread.
    """
    turn = tl.floor(x * 0.6366197723675814 + 0.5)
    r = x
    for i in tl.static_range(3):
        r = tl.fma(turn, -HALF_PI[i], r)
    z = r * r
    sine, cosine = tl.zeros_like(r), tl.zeros_like(r)
    for i in tl.static_range(8):
        sine = tl.fma(sine, z, ODD[i])
        cosine = tl.fma(cosine, z, EVEN[i])
    sine = tl.fma(r * z, sine, r)
    cosine = tl.fma(z * z, cosine, tl.fma(z, -0.5, 1.0))
    quarter = turn.to(tl.int32)
    is_turned = (quarter & 1) == 1
    s = tl.where(is_turned, cosine, sine)
    c = tl.where(is_turned, sine, cosine)
    s = tl.where((quarter & 2) == 2, -s, s)
    return s, tl.where(((quarter + 1) & 2) == 2, -c, c)


@triton.jit
def _pair(a, b, SCALE: tl.constexpr):
    """Return two normals of two words, in float64."""
    radius = tl.sqrt(-2.0 * tl.log((a.to(tl.float64) + 1.0) * SCALE))
    sine, cosine = _circular(b.to(tl.float64) * (2.0 * 3.141592653589793 * SCALE))
    return radius * cosine, radius * sine


@triton.jit
def _normal_kernel(
    rng_ptr,
    y_ptr,
    n,
    stream,
    MEAN: tl.constexpr,
    STD: tl.constexpr,
    ACC: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """Normals by Box and Muller, each step rounded to the dtype; rng_ptr: u64[2], y_ptr: [n]."""
    a, b, c, d = _words(rng_ptr, stream, BLOCKS)
    kind = y_ptr.dtype.element_ty
    if kind == tl.float64:
        a, b = _wide(a, b, c, d)
        SCALE: tl.constexpr = 1.0 / 9007199254740992.0  # 2⁻⁵³
        x = tl.interleave(*_pair((a >> 11).to(tl.int64), (b >> 11).to(tl.int64), SCALE))
    else:
        p, q = _pair(a, b, 1.0 / 4294967296.0)
        r, s = _pair(c, d, 1.0 / 4294967296.0)
        x = _woven(p, q, r, s)
    x = x.to(kind).to(ACC)
    _keep(y_ptr, (x * STD).to(kind).to(ACC) + MEAN, n)


@lowering("bernoulli", device="cuda")
def bernoulli(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Launch | None:
    """Launch a program for each 1,024 elements."""
    return _launch(_bernoulli_kernel, op, outs[0], 4, threshold=round(op.p * 2.0**32))


@lowering("uniform", device="cuda")
def uniform(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Launch | None:
    """Launch a program for each 1,024 elements, 512 of float64."""
    (y,) = outs
    low, high, span = rounded([op.low, op.high, op.high - op.low], y.dtype)
    bits = 53 if y.dtype.itemsize == 8 else {"float32": 24, "float16": 11}.get(y.dtype.name, 8)
    numbers = {"LOW": float(low), "SPAN": float(span), "TOP": float(np.nextafter(high, low))}
    wide = 2 if bits == 53 else 4
    return _launch(_uniform_kernel, op, y, wide, BITS=bits, ACC=accumulator(y), **numbers)


@lowering("randint", device="cuda")
def randint(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Launch | None:
    """Launch a program for each 512 elements; ranges of more than 2⁶³ are declined."""
    span = op.high - op.low
    if span >= 2**63 or not -(2**63) <= op.low < 2**63:
        return None
    return _launch(_randint_kernel, op, outs[0], 2, low=op.low, span=span)


@lowering("normal", device="cuda")
def normal(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Launch | None:
    """Launch a program for each 1,024 elements, 512 of float64."""
    (y,) = outs
    mean, std = (float(x) for x in rounded([op.mean, op.std], y.dtype))
    wide = 2 if y.dtype.itemsize == 8 else 4
    return _launch(_normal_kernel, op, y, wide, ACC=accumulator(y), MEAN=mean, STD=std)


def _launch(kernel: Any, op: Any, y: TensorSpec, a_block: int, **numbers: Any) -> Launch | None:
    """Return the launch of a draw; ``a_block`` elements come of a block of words."""
    if y.dtype.name not in DTYPES or y.size == 0:
        return None
    args = {"rng_ptr": np.dtype(np.uint64), "y_ptr": y.dtype, "n": y.size, "stream": op.stream}
    run: Callable[..., None] = prepare(
        kernel, triton.cdiv(y.size, a_block * BLOCKS), args | numbers | {"BLOCKS": BLOCKS}
    )
    return lambda xs, ys: run(*xs, *ys)
