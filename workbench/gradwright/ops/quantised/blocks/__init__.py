"""Blocks of quantised numbers as ggml and GGUF files store them, byte for byte.

A row of n numbers is n/size blocks, one after the other. Each file of this folder describes its
kinds: `plain` those of 32 numbers, `k` those of 256 with scales of parts, `ternary` those of three
values, `codebooks` those whose numbers are looked up in `grids` (ggml-quants, 2023; Rouhani et al.
2023 for mxfp4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ....errors import DTypeError, ShapeError
from ....spec import TensorSpec
from .block import Array, Format
from .codebooks import CODEBOOKS
from .k import K
from .plain import PLAIN
from .ternary import TERNARY

FORMATS: Mapping[str, Format] = {**PLAIN, **K, **TERNARY, **CODEBOOKS}
"""Name of a format -> how its blocks are stored."""
WRITTEN = tuple(name for name, form in FORMATS.items() if form.pack is not None)
"""Names of the formats that numbers can be packed in."""
PIECE = 1 << 18
"""Numbers that are packed at a time: what lies between is some times as large."""


def packed_ggml(x: Array, name: str) -> Array:
    """Return f32[…, n] as rows of bytes; the block size divides n, and the format is written.

    >>> packed_ggml(np.zeros((2, 64), "f4"), "q4_0").shape
    (2, 36)
    """
    form = FORMATS[name]
    assert form.pack is not None
    blocks = x.astype(np.float32, copy=False).reshape(x.size // form.size, form.size)
    found = np.empty((len(blocks), form.n_bytes), np.uint8)
    step = PIECE // form.size
    for start in range(0, len(blocks), step):
        found[start : start + step] = form.pack(blocks[start : start + step])
    return found.reshape(*x.shape[:-1], x.shape[-1] // form.size * form.n_bytes)


def unpacked(raw: Array, name: str) -> Array:
    """Return rows of bytes as float32."""
    form = FORMATS[name]
    shape = *raw.shape[:-1], raw.shape[-1] // form.n_bytes * form.size
    if not raw.size:
        return np.empty(shape, np.float32)
    return form.unpack(raw.reshape(-1, form.n_bytes)).reshape(shape)


def columns(w: TensorSpec, name: str) -> Any:
    """Return how many numbers a row of bytes holds; raise unless it is whole blocks."""
    form = FORMATS[name]
    if w.dtype != np.dtype("uint8") or not w.rank:
        raise DTypeError(f"{name} blocks are {w}", need="u8[…, bytes]")
    n = w.shape[-1]
    if isinstance(n, int) and n % form.n_bytes:
        raise ShapeError(f"{n} bytes are no blocks of {name}", need=f"a multiple of {form.n_bytes}")
    return n // form.n_bytes * form.size
