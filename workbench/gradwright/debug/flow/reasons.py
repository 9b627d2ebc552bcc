"""Reasons, in words: why an op lets little of a gradient through, or much."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .level import Array, Edge, norm
from .measured import Measured, Slopes
from .numbers import about, at_share, cancelled, fits, near, span, where

LITTLE, MUCH = 0.1, 10.0
"""Gains beyond which an op is worth a word."""


@dataclass(frozen=True)
class Reason:
    """Why a cotangent is what it is behind an op."""

    kind: str = ""
    text: str = ""
    """A clause about the op."""
    zero: int | None = None
    """The input whose being 0 it comes from."""


def reason(edge: Edge, names: Sequence[str]) -> Reason:
    """Return what an op does to a cotangent, if that is worth a word.

    ``names`` are what the tensors that come in are called.
    """
    if edge.i in edge.vjp.refused:
        return Reason("detached", f"states no gradient: {edge.vjp.refused[edge.i]}")
    if not edge.x.size:
        return Reason("flat", "nothing comes in: x has no element")
    found = Measured(edge)
    if not math.isfinite(edge.norm_in):
        return Reason()
    slopes = found.slopes
    whole = _Whole(edge, found, names)
    if slopes is None:
        return next(whole.reasons(), Reason())
    return next(_Elements(edge, found, names, slopes).reasons(), whole.cancelled() or Reason())


class _Told:
    """One edge, with what was measured and the names of what comes in."""

    def __init__(self, edge: Edge, found: Measured, names: Sequence[str]) -> None:
        self.edge, self.found, self.names = edge, found, names

    def others(self) -> Iterator[tuple[int, str, Array]]:
        """Yield number, name and value of the other inputs."""
        for i, (name, x) in enumerate(zip(self.names, self.edge.xs, strict=True)):
            if x is not None and i != self.edge.i and x.size:
                yield i, name, x


class _Elements(_Told):
    """An op that works element by element: its slopes tell all."""

    def __init__(self, edge: Edge, found: Measured, names: Sequence[str], slopes: Slopes) -> None:
        super().__init__(edge, found, names)
        self.slopes = slopes
        with np.errstate(all="ignore"):
            self.passed = np.where(slopes.live, slopes.values * slopes.g, 0.0)
        self.gain = norm(self.passed) / norm(slopes.g)
        """Of the slopes alone, whatever sums come after."""

    def reasons(self) -> Iterator[Reason]:
        """Yield what there is to tell, if anything."""
        gain, share = self.gain, self.slopes.share
        if not math.isfinite(gain):
            yield self._infinite()
        elif share > 0.5 or (share and gain < LITTLE) or self.slopes.dead_columns > 0.25:
            yield self._masked() or self._flat()
        elif self.found.is_linear and not LITTLE <= gain <= MUCH:
            at, factor = self._extreme(largest=gain > MUCH)
            yield Reason("factor", f"multiplies by {factor}{where(self._values(at, False))}")
        elif gain < LITTLE:
            yield self._saturated()
        elif gain > MUCH:
            at, slope = self._extreme(largest=True)
            yield Reason("steep", f"its slope is {slope}{where(self._values(at))}")

    def _infinite(self) -> Reason:
        slopes = self.slopes
        at = tuple(int(i) for i in np.argwhere(slopes.live & ~np.isfinite(slopes.values))[0])
        slope = float(slopes.values[at])
        return Reason("nonfinite", f"its slope is {slope}{where(self._values(at))}")

    def _masked(self) -> Reason | None:
        """Return which other input makes slopes 0, as a factor or a choice."""
        flat, at = self.slopes.flat, at_share(self.slopes.flat, self.slopes.live)
        for i, name, x in self.others():
            if not fits(x, flat.shape):
                continue
            there = np.broadcast_to(x, flat.shape)[flat]
            if x.dtype.kind == "b" and (there.all() or not there.any()):
                word = "true" if there.all() else "false"
                return Reason("masked", f"masked: {name!r} is {word} {at}")
            if x.dtype.kind in "fciu" and not there.any() and self.found.is_linear:
                zero = None if x.any() else i
                return Reason("zero factor", f"multiplied by {name!r}, which is 0 {at}", zero)
        return None

    def _flat(self) -> Reason:
        slopes = self.slopes
        x, at = slopes.x[slopes.flat], at_share(slopes.flat, slopes.live)
        low, high = self.found.bounds
        if low > high and self.found.reach[0].size:
            return Reason("flat", f"its slope is 0 everywhere, {at}: a step function")
        text = f"its slope is 0 {at}: x lies {span(x)}"
        ends = [f"above {near(low)}"] if np.isfinite(low) else []
        ends += [f"below {near(high)}"] if np.isfinite(high) else []
        text += f", and it has a slope only {' and '.join(ends)}" if ends else ""
        if slopes.flat.ndim > 1 and 0 < slopes.dead_columns < 1:
            columns = slopes.flat.shape[-1]
            dead = round(slopes.dead_columns * columns)
            text += f"; {dead} of {columns} columns have none in any row"
        return Reason("flat", text, None if x.any() else self.edge.i)

    def _saturated(self) -> Reason:
        """Return that x lies far out on a curve that levels off, or else how small the slope is."""
        grid, reach = self.found.reach
        size = np.where(np.isfinite(reach), np.abs(reach), 0.0)
        x = self.slopes.x[self.slopes.live]
        gain = about(self.gain)
        if size.size:
            best = int(size.argmax())
            middle = size[np.abs(np.abs(grid) - 1.0).argmin()]
            levels_off = max(size[0], size[-1]) < 0.5 * size[best] and size[best] < 20 * middle
            if levels_off and self.gain < LITTLE * size[best]:
                return Reason(
                    "saturated",
                    f"saturated: x lies {span(x)}, where its slope is {gain}; "
                    f"at {near(float(grid[best]))} it is {about(float(size[best]))}",
                )
        return Reason("factor", f"its slope is {gain} there: x lies {span(x)}")

    def _extreme(self, *, largest: bool) -> tuple[tuple[int, ...], str]:
        """Return where most, or least, is made of what arrives, and the slope there."""
        slopes = self.slopes
        size = (
            np.abs(self.passed)
            if largest
            else np.where(slopes.live, -np.abs(slopes.values), -np.inf)
        )
        at = tuple(int(i) for i in np.unravel_index(int(size.argmax()), size.shape))
        return at, about(abs(float(slopes.values[at])))

    def _values(self, at: tuple[int, ...], own: bool = True) -> list[str]:
        """Return what comes in at one element."""
        return [
            f"{name!r} is {about(float(np.broadcast_to(x, self.passed.shape)[at].real))}"
            for i, (name, x) in enumerate(zip(self.names, self.edge.xs, strict=True))
            if x is not None and x.dtype.kind in "fc" and fits(x, self.passed.shape)
            if own or i != self.edge.i
        ]


class _Whole(_Told):
    """Any other op: sums, products, norms, what is read of an input."""

    def reasons(self) -> Iterator[Reason]:
        """Yield what there is to tell, the most telling first."""
        edge = self.edge
        if not math.isfinite(edge.norm_out):
            yield Reason("nonfinite", f"passes what is not finite; x lies {span(edge.x)}")
            return
        cancelled = self.cancelled()
        if cancelled is not None:
            yield cancelled
        if edge.gain < LITTLE:
            yield from self._zeros()
        if self.found.is_linear:
            yield from self._linear()
        elif edge.gain < LITTLE:
            yield self._saturated()
        elif edge.gain > MUCH:
            yield Reason(
                "steep", f"passes {about(edge.gain)} times what arrives; x lies {span(edge.x)}"
            )

    def cancelled(self) -> Reason | None:
        """Return that terms cancel, where they do."""
        spread, left = self.found.spread, self.edge.norm_out
        if not spread or left >= LITTLE * spread:
            return None
        kind, rest = cancelled(left / spread)
        return Reason(kind, f"terms of opposite sign cancel {rest}")

    def _zeros(self) -> Iterator[Reason]:
        """Yield another input that is 0, or nearly: of a product, a convolution, a gather."""
        for i, name, x in self.others():
            share = float((x == 0).mean()) if x.dtype.kind in "fc" else 0.0
            if share == 1:
                yield Reason("zero factor", f"multiplied by {name!r}, which is all 0", i)
            elif share > 0.9 and self.found.is_linear:
                yield Reason("zero factor", f"multiplied by {name!r}, which is 0 at {share:.1%}")

    def _linear(self) -> Iterator[Reason]:
        edge, gain = self.edge, self.edge.gain
        ones = edge.pull([None if g is None else np.ones_like(g) for g in edge.given])
        if ones is not None and ones.size:
            read = self._read(ones)
            if read and gain <= MUCH:
                yield Reason("unread", f"reads only {read} of x")
            each = float(np.abs(ones).flat[0])
            if each and np.ptp(ones) <= 1e-9 * each and not any(self.others()):
                if gain < LITTLE and each < 1:
                    yield Reason("average", f"averages: each element gets 1/{1 / each:,.0f}")
                if gain > MUCH and each == 1:
                    n = round(ones.size / max(self.edge.ys[0].size, 1))
                    yield Reason("sum", f"adds up {n:,} elements, each of which gets all of it")
        if not LITTLE <= gain <= MUCH:
            factors = [f"{n!r}, which lies {span(x)}" for _, n, x in self.others()
                       if x.dtype.kind in "fc"]  # fmt: skip
            by = f": multiplied by {factors[0]}" if factors else ""
            yield Reason("factor", f"passes {about(gain)} times what arrives{by}")

    def _read(self, ones: Array) -> str:
        """Say how much of the input is read, where that is less than half."""
        used = np.atleast_1d(ones) != 0
        if used.mean() >= 0.5:
            return ""
        rows = used.reshape(len(used), -1).any(1)
        if rows.mean() < 0.5:
            return f"{int(rows.sum()):,} of {len(rows):,} rows"
        return f"{used.mean():.2g} of all elements"

    def _saturated(self) -> Reason:
        edge, easy = self.edge, self.found.gain_when_small
        if easy <= MUCH * edge.gain:
            return Reason(
                "factor", f"passes {about(edge.gain)} of what arrives; x lies {span(edge.x)}"
            )
        return Reason(
            "saturated",
            f"saturated: x lies {span(edge.x)}; at a tenth of that it would pass "
            f"{about(easy)} instead of {about(edge.gain)}",
        )
