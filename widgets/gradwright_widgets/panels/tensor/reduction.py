"""Arrays made small enough to look at: cells of a picture, statistics, a histogram.

Arrays are read in pieces of at most ``CHUNK`` elements, so nothing is copied as a whole, and sums
are float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]
Real = Callable[[Array], Array]

CHUNK = 1 << 18  # float64 elements, 2 MB: stays in the cache
QUANTILES = (0.01, 0.25, 0.5, 0.75, 0.99)
FIELDS = ("min", "max", "mean", "nan", "+inf", "-inf")
SORTED = 1_000_000  # quantiles are exact up to here; sorting more takes longer than one wants
BARS = 64
KINDS = ("NaN", "+Inf", "-Inf")


def real_part(dtype: np.dtype[Any], part: str) -> Real:
    """Return the function that turns a piece of an array into float64: the part that is drawn.

    >>> real_part(np.dtype("complex64"), "abs")(np.array([3 + 4j], "complex64"))
    array([5.])
    """
    if dtype.kind != "c":
        return lambda piece: piece.astype(np.float64)
    takes: dict[str, Real] = {"real": np.real, "imag": np.imag, "abs": np.abs, "angle": np.angle}
    take = takes[part]
    return lambda piece: take(piece.astype(np.complex128)).astype(np.float64)


class Stream(Protocol):
    """Numbers that come in flat pieces, for they are too many to be held."""

    @property
    def size(self) -> int:
        """How many numbers come."""

    def pieces(self) -> Iterator[Array]:
        """Yield them, each time from the first on."""


def pieces(array: Array | Stream) -> Iterator[Array]:
    """Give the elements in C order, in flat pieces; strided arrays are copied piece by piece.

    >>> [piece.tolist() for piece in pieces(np.arange(6).reshape(2, 3).T)]
    [[0, 3, 1, 4, 2, 5]]
    """
    if not isinstance(array, np.ndarray):
        yield from array.pieces()
    elif array.flags.c_contiguous:
        flat = array.reshape(-1)
        for start in range(0, flat.size, CHUNK):
            yield flat[start : start + CHUNK]
    elif array.size <= CHUNK:
        yield array.reshape(-1)
    else:
        rows = max(1, CHUNK // max(1, array[0].size))
        for start in range(0, len(array), rows):
            yield from pieces(array[start] if rows == 1 else array[start : start + rows])


def sample(array: Array, most: int) -> tuple[Array, int]:
    """Return a strided view of at most about ``most`` elements, and of how many it keeps one.

    >>> view, every = sample(np.zeros((100, 100)), 2500)
    >>> view.shape, every
    ((50, 50), 4)
    """
    steps = [1] * array.ndim
    while math.prod(-(-n // s) for n, s in zip(array.shape, steps, strict=True)) > most:
        longest = max(range(array.ndim), key=lambda k: array.shape[k] / steps[k])
        steps[longest] += 1
    entries: tuple[Any, ...] = (
        ...,
        *(slice(None, None, s) for s in steps),
    )  # a number stays an array
    view = array[entries]
    return view, max(1, round(array.size / max(1, view.size)))


# -- the cells of a picture ------------------------------------------------------------------------


def edges(length: int, cells: int) -> Array:
    """Return where the cells begin, and the end: as even as whole numbers allow.

    >>> edges(10, 4).tolist()
    [0, 2, 5, 7, 10]
    """
    return np.arange(cells + 1) * length // max(1, cells)


def reduce_planes(
    planes: Sequence[Array], rows: int, columns: int, real: Real, *, most: int | None = None
) -> tuple[Array, int]:
    """Reduce every plane to ``rows`` by ``columns`` cells: f64[6, planes, rows, columns].

    The fields of a cell are ``FIELDS``: minimum, maximum and mean of its finite values (NaN where
    it has none), and how many NaN, +Inf and -Inf it holds. Planes with more than ``most`` elements
    in all are sampled; the second result says of how many values one was read.
    """
    out = np.empty((len(FIELDS), len(planes), rows, columns))
    height, width = planes[0].shape
    skip = 1
    if most is not None and len(planes) * height * width > most:
        per = max(most // len(planes), rows * columns)
        skip = max(1, math.isqrt(height * width // per))
        skip = max(1, min(skip, height // rows if height > rows else skip, width // columns or 1))
    planes = [plane[::skip, ::skip] for plane in planes]
    height, width = planes[0].shape
    tops, lefts = edges(height, rows), edges(width, columns)
    size = max(1, height * width)
    many, tall = max(1, CHUNK // size), max(1, CHUNK * rows // size)
    for first in range(0, len(planes), many):
        some = planes[first : first + many]
        for top in range(0, rows, tall):
            bottom = min(rows, top + tall)
            block = real(np.stack([plane[tops[top] : tops[bottom]] for plane in some]))
            starts = tops[top:bottom] - tops[top]
            out[:, first : first + len(some), top:bottom] = _cells(block, starts, lefts[:-1])
    return out, skip * skip


def _cells(values: Array, rows: Array, columns: Array) -> Array:
    def fold(ufunc: np.ufunc, array: Array) -> Array:
        by_rows = ufunc.reduceat(array, rows, axis=1)
        return np.asarray(ufunc.reduceat(by_rows, columns, axis=2))

    good = np.isfinite(values)
    clean = bool(good.all())
    low = fold(np.minimum, values if clean else np.where(good, values, np.inf))
    high = fold(np.maximum, values if clean else np.where(good, values, -np.inf))
    scale = _scale(float(low.min()), float(high.max()))
    total = fold(np.add, (values if clean else np.where(good, values, 0.0)) * scale)
    height = np.diff([*rows, values.shape[1]])[:, None] * np.diff([*columns, values.shape[2]])
    none = np.zeros(low.shape)
    if clean:
        count, bad = np.broadcast_to(height, low.shape), [none] * 3
    else:
        count = fold(np.add, good.astype(np.int64))
        masks = (np.isnan(values), np.isposinf(values), np.isneginf(values))
        bad = [fold(np.add, mask.astype(np.int64)) for mask in masks]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.clip(total / count / scale, low, high)
    empty = count == 0
    for known in (low, high, mean):
        known[empty] = np.nan
    return np.stack([low, high, mean, *bad])


def _scale(low: float, high: float) -> float:
    """Return a power of two that keeps sums of values near the largest float64 finite."""
    return 2.0**-60 if max(abs(low), abs(high)) > 1e290 else 1.0


# -- numbers about all values ----------------------------------------------------------------------


@dataclass
class Summary:
    """What is known about the values of an array; ``every`` is 1 unless they were sampled."""

    size: int
    every: int = 1
    read: int = 0
    finite: int = 0
    zeros: int = 0
    low: float = math.nan
    high: float = math.nan
    mean: float = math.nan
    std: float = math.nan
    norm: float = math.nan
    quantiles: tuple[float, ...] = (math.nan,) * len(QUANTILES)
    quantiles_of: int = 0
    bad: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    first_bad: dict[str, int] = field(default_factory=dict)
    """Position of the first of each kind in what was read, in C order."""


def summarize(
    array: Array | Stream, real: Real, *, every: int = 1, size: int | None = None
) -> Summary:
    """Return the statistics of an array; those of the values are of the finite ones.

    >>> found = summarize(np.array([0.0, 3.0, np.nan, np.inf]), real_part(np.dtype("f8"), "real"))
    >>> found.mean, found.std, found.bad, found.first_bad
    (1.5, 1.5, {'NaN': 1, '+Inf': 1, '-Inf': 0}, {'NaN': 2, '+Inf': 3})
    """
    out = Summary(array.size if size is None else size, every)
    mean = spread = 0.0
    few: list[Array] = []
    for piece in pieces(array):
        if not isinstance(array, np.ndarray):  # it comes once
            few.append(piece[:: max(1, -(-array.size // SORTED))].copy())
        values = real(piece)
        good = np.isfinite(values)
        if not good.all():
            masks = (np.isnan(values), np.isposinf(values), np.isneginf(values))
            for kind, mask in zip(KINDS, masks, strict=True):
                if count := int(mask.sum()):
                    out.first_bad.setdefault(kind, out.read + int(mask.argmax()))
                    out.bad[kind] += count
            values = values[good]
        out.read += piece.size
        if not (n := values.size):
            continue
        low, high = float(values.min()), float(values.max())
        scale = _scale(low, high)
        with np.errstate(over="ignore", invalid="ignore"):
            # Chan, Golub & LeVeque, "Updating Formulae and a Pairwise Algorithm", 1979.
            center = float((values * scale).mean()) / scale
            away = center - mean
            both = out.finite + n
            offsets = values - center
            spread += float(offsets @ offsets) + away * away * out.finite * n / both
            mean += away * n / both
        out.low, out.high = float(np.fmin(out.low, low)), float(np.fmax(out.high, high))
        out.zeros += n - int(np.count_nonzero(values))
        out.finite = both
    if out.finite:
        out.mean, out.std = min(max(mean, out.low), out.high), math.sqrt(spread / out.finite)
        out.norm = math.sqrt(spread + out.finite * mean * mean)
        if isinstance(array, np.ndarray):
            few = list(pieces(sample(array, SORTED)[0]))
        values = np.concatenate([real(piece) for piece in few])
        values = values[np.isfinite(values)]
        if values.size:
            with np.errstate(over="ignore", invalid="ignore"):
                out.quantiles = tuple(np.quantile(values, QUANTILES).tolist())
            out.quantiles_of = int(values.size)
    return out


def histogram(array: Array | Stream, real: Real, low: float, high: float, *, whole: bool) -> Array:
    """Count the finite values in even bars from ``low`` to ``high``; the last includes its end.

    Few different integers (``whole``) get one bar each.

    >>> histogram(np.array([1, 2, 2, 4]), real_part(np.dtype("i8"), "real"), 1, 4, whole=True)
    array([1, 2, 0, 1])
    """
    if not math.isfinite(low) or not array.size:
        return np.zeros(0, np.int64)
    if whole and high - low < BARS:
        bars, start, stop = int(high - low) + 1, low - 0.5, high + 0.5
    else:
        bars, start, stop = BARS, low, high
    counts = np.zeros(bars, np.int64)
    # Halves, because the width of all float64 numbers together is not one.
    width = stop / 2 - start / 2
    for piece in pieces(array):
        values = real(piece)
        values = values[np.isfinite(values)]
        place = (values / 2 - start / 2) / width * bars if width > 0 else np.zeros(values.size)
        counts += np.bincount(np.clip(place, 0, bars - 1).astype(np.int64), minlength=bars)
    return counts
