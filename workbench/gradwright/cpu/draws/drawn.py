"""Draws: random numbers by machine code, in threads, to the bits that numpy draws them."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np

from ...ops.draws import philox
from ..llvm.blas import blas
from ..places import address
from .philox import GROUP, function

Array = np.ndarray[Any, Any]
APART = 1 << 18
"""Numbers from which each thread draws so many: 0.3 to 0.8 ms, where a thread starts in 0.1."""
DTYPES = {"words": np.uint32, "bernoulli": np.bool_}
"""What is drawn where it is not float32."""


def drawn(
    kind: str, rng: Array, stream: int, n: int, numbers: tuple[float, ...] | int
) -> Array | None:
    """Return ``n`` numbers of a kind; None where there is no compiler.

    ``numbers`` are scale, offset and factor, of truncated normals also the probability below, that
    within, and the bounds; or the threshold below which a word is True.
    """
    from ..llvm.compiler import available  # llvmlite, which no import of ours may load

    if not available():
        return None
    seed, step = int(rng[0]), int(rng[1])
    groups = n // GROUP
    out: Array = np.empty(n, DTYPES.get(kind, np.float32))
    rest = np.empty(GROUP, out.dtype)
    flags = np.zeros(groups + 1, np.uint8)
    given = numbers if isinstance(numbers, tuple) else ()
    last = [struct.unpack("q", struct.pack("d", x))[0] for x in given] or [numbers]
    fixed = [seed & 0xFFFFFFFF, seed >> 32, stream, step & 0xFFFFFFFF, step >> 32, *last]
    library = blas()
    parts = max(1, min(n // APART, 1 if library is None else library.get_threads()))
    cuts = itertools.pairwise(groups * i // parts for i in range(parts + 1))
    pieces = [(address(out[start * GROUP :]), start, stop) for start, stop in cuts]
    if n % GROUP:
        pieces.append((address(rest), groups, groups + 1))
    blocks = [
        np.array([at, address(flags) + start, stop - start, start * (GROUP // 4), *fixed], np.int64)
        for at, start, stop in pieces
    ]
    call = function(kind)
    # Each thread holds what it reads and writes: Ctrl-C may end the wait for it.
    others = [Thread(target=_draw, args=(call, block, out, flags)) for block in blocks[1:parts]]
    for thread in others:
        thread.start()
    for block in blocks[:1] + blocks[parts:]:
        call(address(block))
    for thread in others:
        thread.join()
    out[groups * GROUP :] = rest[: n % GROUP]
    for group in np.flatnonzero(flags).tolist():
        here = out[group * GROUP : (group + 1) * GROUP]
        words = philox.plain_words(rng, stream, GROUP, group * (GROUP // 4))
        wide = philox.truncated_of(words, *given[5:]) if given[3:] else philox.normal_of(words)
        here[:] = philox.scaled(wide.astype(out.dtype), *given[:3])[: here.size]
    return out


def _draw(call: Callable[[int], None], block: Array, *held: Array) -> None:
    call(address(block))
