"""Two files of models side by side: their graphs, and their tensors page by page."""

from __future__ import annotations

import itertools
from typing import Any

from gradwright.formats.comparing import TensorPair, compare_graphs, measured, paired
from gradwright.formats.registry import TensorRange
from gradwright.formats.stored import Files

from ..refused import RefusedError
from .asked import Asked, real
from .model import MAX_ROWS, matches, nbytes, ranges
from .outlines import outlined

MOST = 1 << 28
"""Bytes that are read for one answer; the page goes on where it ends."""


def compare(asked: Asked) -> dict[str, Any]:
    """Return a page of the tensors of two files, and with the first page their graphs."""
    start, n = asked.number("start", 0, 1 << 40), asked.number("n", 50, MAX_ROWS)
    a, b = ranges(asked, 0), ranges(asked, 1)
    words = asked.text("filter").lower().split()
    pairs = [p for p in paired(a, b) if _matches(p, a.get(p.name) or b[p.other], words)]
    rows: list[TensorPair] = []
    left = MOST
    with Files(asked.files[0], asked.open) as first, Files(asked.files[1], asked.open) as second:
        for pair in itertools.islice(pairs, start, start + n):
            cost = sum(nbytes(held[name]) for held, name in ((a, pair.name), (b, pair.other))
                       if name in held)  # fmt: skip
            if cost > left and rows:
                break
            every = max(1, -(-cost // MOST))
            rows.append(measured(pair, a, b, first, second, every))
            left -= cost
    after = start + len(rows)
    return {
        "a": asked.paths[0],
        "b": asked.paths[1],
        "stamps": list(asked.stamps),
        "total": len(pairs),
        "start": start,
        "next": after if rows and after < len(pairs) else None,
        "tensors": [_row(pair) for pair in rows],
        **({"structure": _structure(asked)} if start == 0 else {}),
    }


def _matches(pair: TensorPair, tensor: TensorRange, words: list[str]) -> bool:
    return matches(f"{pair.name} {pair.other}", tensor, words)


def _row(pair: TensorPair) -> dict[str, Any]:
    return {**pair.as_dict(), "max": real(pair.max), "relative": real(pair.relative)}


def _structure(asked: Asked) -> dict[str, Any] | None:
    """Return how the graphs differ, None where a file holds none."""
    try:
        graphs = [outlined(asked, k).graph for k in (0, 1)]
    except RefusedError as error:
        if error.code == "no-graph":
            return None
        raise
    return compare_graphs(*graphs).as_dict()
