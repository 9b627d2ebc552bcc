"""Matrix products as calls of numpy's own BLAS from machine code, with its numbers.

numpy takes 0.6 to 0.8 µs to find out what to call; here that is found out once. Batches run in one
call, a batch against one matrix is one product where memory allows, vectors go to gemv as in numpy.
Arrays that BLAS cannot read as they lie stay with numpy, which copies them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...shared import Bounded
from ..call import Call, Cut, layout_of, moved
from ..threads.alike import Product, keeps_bits
from .batched import bind_batched
from .blas import PLAIN, ROW_MAJOR, TRANSPOSED, blas

Array = np.ndarray[Any, Any]
MAX_BATCH_LOOPS = 3
_COUNTS, _NUMBERS = 4, 16
"""Where in the block the sizes of the batch stand, and what BLAS is told."""
_PER_NS = 50
"""Multiplications and additions that a core does in a ns."""
_SMALL = 1_100_000
"""Multiplications from which on OpenBLAS computes a product as it does large ones, so that pieces
that have as many may come out to the bit as in the whole."""
ROWS, FEW_ROWS, COLUMNS = 8, 24, 32
"""Multiples at which a product is cut. Kernels for AVX2 take 12 rows at a time, others 4 or 8."""


def bind_matmul(
    xs: Sequence[Array], ys: Sequence[Array], *, adds: bool = False
) -> Sequence[Call] | None:
    """Return the call of ``ys[0] = xs[0] @ xs[1]`` for these arrays; None: numpy must do it.

    With ``adds`` the product is added to what is there.

    >>> a, b, y = np.ones((2, 3), "f4"), np.ones((3, 4), "f4"), np.empty((2, 4), "f4")
    >>> from gradwright.cpu.llvm.compiler import available
    >>> calls = bind_matmul([a, b], [y]) if available() else None
    >>> calls is None or [operand for _, operand in calls[0].slots] == [0, 1, 2]
    True
    """
    arrays = [*xs, ys[0]]
    key = adds, *map(layout_of, arrays)
    found = CALLS.find(key)
    if found is None:
        found = [_bound(xs, ys, adds)]
        CALLS.keep(key, found)
    (call,) = found
    return None if call is None else [moved(call, arrays)]


CALLS = Bounded[list[Call | None]](1024)
"""Calls of products by layouts: where layers are alike, that is found out once."""


def _bound(xs: Sequence[Array], ys: Sequence[Array], adds: bool) -> Call | None:
    """Return the call for arrays as these lie."""
    library, (a, b), c = blas(), xs, ys[0]
    if library is None or a.dtype.char not in "fd" or a.dtype != b.dtype or not c.size:
        return None
    if min(a.ndim, b.ndim) < 2 or not a.shape[-1]:
        return None
    if b.ndim == 2 and a.ndim > 2:  # one large product instead of one per batch
        flat_a, flat_c = _rows(a), _rows(c)
        if flat_a is not None and flat_c is not None:
            a, c = flat_a, flat_c
    batch = _batch(a, b, c)
    left, right, out = _matrix(a), _matrix(b), _matrix(c)
    if batch is None or left is None or right is None or out is None or out.is_transposed:
        return None
    m, k, n = c.shape[-2], a.shape[-1], c.shape[-1]
    if not adds and (small := bind_batched(a, b, c, *batch)) is not None:
        return small
    if max(m, n, k, left.lead, right.lead, out.lead) >= 2**31:
        return None
    vector = _vector(a, b, c, left, right, m, n, k)
    if vector is not None:
        is_swapped, numbers = vector
        kind, function = "v", library.gemv
        first, second = (1, 0) if is_swapped else (0, 1)
    else:
        kind, function, first, second = "m", library.gemm, 0, 1
        numbers = [
            TRANSPOSED if left.is_transposed else PLAIN,
            TRANSPOSED if right.is_transposed else PLAIN,
            m, n, k, left.lead, right.lead, out.lead,
        ]  # fmt: skip
    counts, strides = batch
    char = a.dtype.char
    addresses = [xs[first].ctypes.data, xs[second].ctypes.data, ys[0].ctypes.data]
    block = [
        *addresses,
        function[char],
        *counts,
        *strides[first],
        *strides[second],
        *strides[2],
        *numbers,
    ]
    slots = ((0, first), (1, second), (2, 2))
    size, sides = a.itemsize, []
    if kind == "m":
        down = size if left.is_transposed else size * left.lead
        along = size * right.lead if right.is_transposed else size
        sides = [[(0, down), (2, size * out.lead)], [(1, along), (2, size)]]
    leads = [
        x.lead - (wide if x.is_transposed else narrow)
        for x, wide, narrow in ((left, m, k), (right, k, n), (out, m, n))
    ]
    turned = left.is_transposed, right.is_transposed
    product = Product(char, turned, adds, (m, n, k), tuple(leads))
    cut = _cut(counts, [strides[first], strides[second], strides[2]], product, sides)
    how = f"{kind}{char} {left.is_transposed:d}{right.is_transposed:d}{adds:d}"
    sizes = [1 << (size - 1).bit_length() for size in (math.prod(counts), m, k, n)]
    label = f"product {how} up to {'x'.join(map(str, sizes))}"
    cost = math.prod(counts) * m * n * k / _PER_NS
    table = np.array(block, np.int64)
    return Call(_driver(kind, char, adds), table, slots, cut=cut, cost=cost, label=label)


def _cut(
    counts: Sequence[int],
    strides: Sequence[Sequence[int]],
    product: Product,
    sides: Sequence[Sequence[tuple[int, int]]],
) -> Cut | None:
    """Return how a product is cut: by batch, else over the longer side, rows or columns.

    Each piece reads all of the other operand, which is the smaller one. Where pieces of that side
    have other bits, rows may be cut at other places, or the shorter side. A vector has no sides.
    """
    m, n, k = product.sizes
    batch, most = math.prod(counts), max(counts)
    if most > 1:
        loop = counts.index(most)
        steps = [(operand, stride[loop]) for operand, stride in enumerate(strides)]
        return Cut(_COUNTS + loop, most, steps, _SMALL // 4 * most // (batch * m * n * k) + 1)
    if not sides:
        return None
    ways = [(0, ROWS), (0, FEW_ROWS), (1, COLUMNS)]
    cut = None
    for axis, grain in reversed(ways if m >= n else [ways[2], *ways[:2]]):
        length, other = (m, n) if axis == 0 else (n, m)
        keeps = functools.partial(keeps_bits, product, axis)
        least = _SMALL // (other * k) + 1
        slot = _NUMBERS + 2 + axis
        cut = Cut(slot, length, sides[axis], least, grain, keeps=keeps, instead=cut)
    return cut


@dataclass(frozen=True)
class _Matrix:
    """How BLAS reads the last two axes: the distance of rows in elements, of columns if swapped."""

    is_transposed: bool
    lead: int


def _matrix(x: Array) -> _Matrix | None:
    """Return how BLAS reads a matrix, or None if neither rows nor columns are dense."""
    if not x.flags.aligned:
        return None
    size = x.itemsize
    (rows, columns), (down, right) = x.shape[-2:], x.strides[-2:]
    down = size * columns if rows == 1 else down
    right = size if columns == 1 else right
    if right == size and down % size == 0 and down >= size * columns:
        return _Matrix(False, down // size)
    down, right = x.strides[-2], x.strides[-1]
    down = size if rows == 1 else down
    right = size * rows if columns == 1 else right
    if down == size and right % size == 0 and right >= size * rows:
        return _Matrix(True, right // size)
    return None


def _vector(
    a: Array, b: Array, c: Array, left: _Matrix, right: _Matrix, m: int, n: int, k: int
) -> tuple[bool, list[int]] | None:
    """Return whether the matrix is the right operand, and the arguments of gemv, if one fits."""
    size = a.itemsize
    if n == 1 and m > 1 and k > 1:  # y = A·x
        steps = b.strides[-2], c.strides[-2]
        rows, columns, how = (k, m, TRANSPOSED) if left.is_transposed else (m, k, PLAIN)
        lead, swapped = left.lead, False
    elif m == 1 and n > 1 and k > 1:  # yᵀ = Bᵀ·xᵀ
        steps = a.strides[-1], c.strides[-1]
        rows, columns, how = (n, k, PLAIN) if right.is_transposed else (k, n, TRANSPOSED)
        lead, swapped = right.lead, True
    else:
        return None
    if any(s <= 0 or s % size for s in steps):
        return None
    return swapped, [how, rows, columns, lead, steps[0] // size, steps[1] // size]


def _rows(x: Array) -> Array | None:
    """Return a batch of matrices as one tall matrix, where that is a view."""
    flat = x.reshape(-1, x.shape[-1])
    return flat if np.may_share_memory(flat, x) else None


def _batch(a: Array, b: Array, c: Array) -> tuple[list[int], list[list[int]]] | None:
    """Return the sizes of the loops over the batch, and the strides of a, b and c in bytes."""
    sizes = c.shape[:-2]
    steps = []
    for x in (a, b, c):
        lead = len(sizes) - (x.ndim - 2)
        own = [
            0 if n == 1 else s for n, s in zip(x.shape[:-2], x.strides[:-2], strict=True)
        ]  # what is broadcast stands still
        steps.append([0] * lead + own)
    counts: list[int] = []
    loops: list[list[int]] = []
    for axis, size in enumerate(sizes):
        if size == 1:
            continue
        here = [s[axis] for s in steps]
        if counts and loops[-1] == [size * step for step in here]:
            counts[-1] *= size
            loops[-1] = here
        else:
            counts.append(size)
            loops.append(here)
    missing = MAX_BATCH_LOOPS - len(counts)
    if missing < 0:
        return None
    padded = [[0, 0, 0]] * missing + loops
    return [1] * missing + counts, [[step[i] for step in padded] for i in range(3)]


# -- machine code ---------------------------------------------------------------------------------


@functools.cache
def _driver(kind: str, char: str, adds: bool) -> int:
    from .compiler import compile_text  # llvmlite, which no import of ours may load

    library = blas()
    assert library is not None
    return compile_text(_source(kind, char, adds, library.int_bits))


def _source(kind: str, char: str, adds: bool, bits: int) -> str:
    """Return the text of a driver: it loops over the batch and calls BLAS by its address."""
    real, number = {"f": "float", "d": "double"}[char], f"i{bits}"
    beta = f"{real} {float(adds)}"
    if kind == "m":
        names = ["ta", "tb", "m", "n", "k", "lda", "ldb", "ldc"]
        arguments = (
            f"i32 {ROW_MAJOR}, i32 %ta, i32 %tb, {number} %m, {number} %n, {number} %k, "
            f"{real} 1.0, ptr %a, {number} %lda, ptr %b, {number} %ldb, "
            f"{beta}, ptr %c, {number} %ldc"
        )
    else:
        names = ["ta", "m", "n", "lda", "incx", "incy"]
        arguments = (
            f"i32 {ROW_MAJOR}, i32 %ta, {number} %m, {number} %n, {real} 1.0, ptr %a, "
            f"{number} %lda, ptr %b, {number} %incx, {beta}, ptr %c, {number} %incy"
        )
    fixed = ["a0", "b0", "c0", "function", "n0", "n1", "n2"]
    strides = [f"{x}s{i}" for x in "abc" for i in range(3)]
    lines = ["define void @k(ptr %block) {", "entry:"]
    for slot, name in enumerate([*fixed, *strides, *names]):
        kept = "ptr" if name == "function" else "i64"
        if name in ("ta", "tb"):
            kept = "i32"
        elif name in names:
            kept = number
        lines.append(f"  %at.{name} = getelementptr i64, ptr %block, i64 {slot}")
        lines.append(f"  %{name} = load {kept}, ptr %at.{name}")  # little-endian: the low part
    lines += [
        "  br label %start",
        "start:",
        "  %some = mul i64 %n0, %n1",
        "  %total = mul i64 %some, %n2",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %start ], [ %next, %loop ]",
        "  %i2 = urem i64 %i, %n2",
        "  %rest = udiv i64 %i, %n2",
        "  %i1 = urem i64 %rest, %n1",
        "  %i0 = udiv i64 %rest, %n1",
    ]
    for x in "abc":
        at = f"%{x}0"
        for i in range(3):
            lines.append(f"  %{x}p{i} = mul i64 %i{i}, %{x}s{i}")
            lines.append(f"  %{x}t{i} = add i64 {at}, %{x}p{i}")
            at = f"%{x}t{i}"
        lines.append(f"  %{x} = inttoptr i64 {at} to ptr")
    lines += [
        f"  call void %function({arguments})",
        "  %next = add i64 %i, 1",
        "  %more = icmp ult i64 %next, %total",
        "  br i1 %more, label %loop, label %end",
        "end:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)
