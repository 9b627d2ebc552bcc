"""Whether pieces of a product have the bits of the whole, found out by computing both.

BLAS adds up an element in an order that depends on where it lies: OpenBLAS's kernels for AVX2 take
24 rows at a time, then 12, then fewer, each in an order of its own, and what they take depends on
the columns, too; its doubles for AVX-512 do likewise, other kernels only at the ends. Which sizes
go where is nowhere promised, so nothing is concluded from names: both are computed, once a process,
for numbers that show any other order, in the time of 2.5 to 3.5 products of the size.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..llvm.blas import PLAIN, ROW_MAJOR, TRANSPOSED, Blas, Limit, blas

Array = np.ndarray[Any, Any]
LONG = 1024
"""Sizes from twice this on are tried by what they leave: OpenBLAS's blocks are shorter."""
PAD = 64
"""Likewise elements between two lines."""


@dataclass(frozen=True)
class Product:
    """A product ``[m, k] @ [k, n]`` as BLAS is told: dtype, which operands lie transposed, sizes.

    ``pads`` are elements behind each line of a, b and the result; with ``adds`` it is added.
    """

    char: str
    turned: tuple[bool, bool]
    adds: bool
    sizes: tuple[int, int, int]
    pads: tuple[int, int, int]


def keeps_bits(product: Product, axis: int, found: Sequence[int]) -> bool:
    """Tell whether pieces of rows (axis 0) or columns (1) between these indices have its bits.

    >>> product = Product("f", (False, False), False, (64, 32, 8), (0, 0, 0))
    >>> blas() is None or keeps_bits(product, 0, [0, 64])
    True
    """
    m, n, k = (s if i == axis else _left(s, LONG) for i, s in enumerate(product.sizes))
    pads = tuple(_left(pad, PAD) for pad in product.pads)
    tried = Product(product.char, product.turned, product.adds, (m, n, k), pads)  # type: ignore
    return _keeps(tried, axis, tuple(found))


def _left(size: int, unit: int) -> int:
    return size if size < 2 * unit else unit + size % unit


@functools.lru_cache(maxsize=4096)
def _keeps(product: Product, axis: int, found: tuple[int, ...]) -> bool:
    library = blas()
    assert library is not None, "pieces of a product are calls of OpenBLAS"
    m, n, k = product.sizes
    of_a, of_b, of_c = product.pads
    a = _numbers((k, m) if product.turned[0] else (m, k), of_a, product.char)
    b = _numbers((n, k) if product.turned[1] else (k, n), of_b, product.char)
    there = _numbers if product.adds else _unwritten
    whole, pieces = (there((m, n), of_c, product.char) for _ in range(2))
    if product.turned[0]:
        a = a.T
    if product.turned[1]:
        b = b.T
    run = _gemm(library, product.char)
    with Limit(1):
        run(product, a, b, whole)
        for start, stop in itertools.pairwise(found):
            here = slice(start, stop)
            if axis == 0:
                run(product, a[here], b, pieces[here])
            else:
                run(product, a, b[:, here], pieces[:, here])
            part = (slice(None),) * axis + (here,)
            if not np.array_equal(pieces[part], whole[part]):
                return False
    return True


def _numbers(shape: tuple[int, int], pad: int, char: str) -> Array:
    """Return numbers around 0 whose sums are rounded, in lines with a distance."""
    size = shape[0] * (shape[1] + pad)
    return np.resize(_drawn(char), size).reshape(shape[0], -1)[:, : shape[1]]


def _unwritten(shape: tuple[int, int], pad: int, char: str) -> Array:
    """Return lines with a distance for what is not read before it is written."""
    return np.empty((shape[0], shape[1] + pad), char)[:, : shape[1]]


@functools.cache
def _drawn(char: str) -> Array:
    """Return as many numbers as lines never have: a prime."""
    return (np.random.default_rng(0).random(65_537) - 0.5).astype(char)


def _gemm(library: Blas, char: str) -> Callable[[Product, Array, Array, Array], None]:
    """Return a function that stores ``a @ b`` in ``c``, or adds it, as machine code would."""
    number, pointer = library.int_type, ctypes.c_void_p
    real = ctypes.c_float if char == "f" else ctypes.c_double
    matrix = pointer, number
    kinds = [*[ctypes.c_int] * 3, *[number] * 3, real, *matrix, *matrix, real, *matrix]
    function = ctypes.CFUNCTYPE(None, *kinds)(library.gemm[char])

    def run(product: Product, a: Array, b: Array, c: Array) -> None:
        (m, k), n = a.shape, b.shape[1]
        of_a, of_b = product.turned
        hows = (TRANSPOSED if turned else PLAIN for turned in product.turned)
        function(
            ROW_MAJOR, *hows, m, n, k,
            1.0, a.ctypes.data, a.strides[of_a] // a.itemsize,
            b.ctypes.data, b.strides[of_b] // b.itemsize,
            float(product.adds), c.ctypes.data, c.strides[0] // c.itemsize,
        )  # fmt: skip

    return run
