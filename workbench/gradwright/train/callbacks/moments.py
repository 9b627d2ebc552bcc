"""Moments and norms of many arrays at once, in float64 and in blocks that stay in cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

BLOCK = 131_072
"""Elements; small arrays share a block, large ones take several. All numbers of two million float32
parameters, their gradients and updates take 10 ms (AMD EPYC, 1 MB L2), 13 ms in blocks of 32,768;
those of 5,000 arrays with 100 elements each 30 ms, and 0.2 s one by one."""


def value_statistics(arrays: Sequence[Array]) -> Array:
    """Return mean, std, norm, least, largest and fraction of zeros of each array, as f64[n, 6].

    The standard deviation is that of all elements, not an estimate. Of a complex array the real and
    imaginary parts are elements. An array without elements has norm 0 and else NaN.

    >>> import numpy as np
    >>> value_statistics([np.array([0.0, 3.0, -3.0, 4.0]), np.array(2.0)]).round(3).tolist()
    [[1.0, 2.739, 5.831, -3.0, 4.0, 0.25], [2.0, 0.0, 2.0, 2.0, 2.0, 0.0]]
    """
    flat = [_elements(a) for a in arrays]
    n = len(flat)
    count, mean, m2, squares, zeros = np.zeros((5, n))
    least, most = np.full(n, np.inf), np.full(n, -np.inf)
    with np.errstate(all="ignore"):
        for x, who, sizes, starts in _blocks(flat):
            part = np.add.reduceat(x, starts) / sizes
            least[who] = np.minimum(least[who], np.minimum.reduceat(x, starts))
            most[who] = np.maximum(most[who], np.maximum.reduceat(x, starts))
            if np.count_nonzero(x) < x.size:
                zeros[who] += np.add.reduceat(x == 0, starts, dtype=np.int64)
            squares[who] += np.add.reduceat(x * x, starts)
            x -= part[0] if len(who) == 1 else np.repeat(part, sizes)
            np.multiply(x, x, x)
            total = count[who] + sizes  # Chan et al. 1979: exact for a large mean, too
            apart = part - mean[who]
            m2[who] += np.add.reduceat(x, starts) + apart * apart * (count[who] * sizes / total)
            mean[who] += apart * (sizes / total)
            count[who] = total
        peak = np.where(count == 0, 0.0, np.maximum(np.abs(least), np.abs(most)))
        norm = _roots(squares, peak, lambda i: flat[i].astype(np.float64))
        out = np.stack([mean, np.sqrt(m2 / count), norm, least, most, zeros / count], axis=1)
    out[np.ix_(count == 0, [0, 1, 3, 4, 5])] = np.nan
    return out


def norms(arrays: Sequence[Array], minus: Sequence[Array] = ()) -> tuple[Array, Array]:
    """Return ‖x‖ and max |x| of each array, or of each difference ``array - minus``, as f64[n].

    >>> import numpy as np
    >>> norms([np.array([3.0, 4.0]), np.array([1e-300, 0.0])])
    (array([5.e+000, 1.e-300]), array([4.e+000, 1.e-300]))
    """
    flat, other = [_elements(a) for a in arrays], [_elements(a) for a in minus]
    squares, peak = np.zeros((2, len(flat)))

    def elements(i: int) -> Array:
        x = flat[i].astype(np.float64)
        return x - other[i] if other else x

    with np.errstate(all="ignore"):
        for pair in zip(_blocks(flat), _blocks(other) if other else _nothing(), strict=False):
            x, who, _, starts = pair[0]
            if pair[1] is not None:
                x -= pair[1][0]
            np.abs(x, x)
            peak[who] = np.maximum(peak[who], np.maximum.reduceat(x, starts))
            np.multiply(x, x, x)
            squares[who] += np.add.reduceat(x, starts)
        return _roots(squares, peak, elements), peak


def _roots(squares: Array, peak: Array, elements: Callable[[int], Array]) -> Array:
    """Return the norms; sums of squares beyond float64's range are summed again, scaled."""
    out = np.sqrt(squares)
    beyond = ((squares < 1e-280) | np.isinf(squares)) & (peak > 0) & np.isfinite(peak)
    for i in np.flatnonzero(beyond).tolist():
        out[i] = peak[i] * np.sqrt(np.sum(np.square(elements(i) / peak[i])))
    return out


def _elements(array: Array) -> Array:
    flat = array.reshape(-1)
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat


def _nothing() -> Iterator[None]:
    while True:
        yield None


def _blocks(arrays: Sequence[Array]) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Yield all elements in blocks: float64 copies, which array each run is of, sizes and starts.

    No array has two runs in a block. The next block reuses the buffer of the one before.
    """
    room = min(BLOCK, sum(a.size for a in arrays))
    buffer = np.empty(room)
    runs: list[tuple[int, int, int]] = []
    filled = 0
    for i, array in enumerate(arrays):
        at, size = 0, array.size
        while at < size:
            n = min(size - at, room - filled)
            buffer[filled : filled + n] = array[at : at + n]
            runs.append((i, n, filled))
            filled, at = filled + n, at + n
            if filled == room:
                yield buffer, *np.array(runs).T
                runs, filled = [], 0
    if filled:
        yield buffer[:filled], *np.array(runs).T
