"""What one op does to a cotangent, measured: nothing is known of it but its forward and its vjp.

An op that works element by element has slopes, which are looked at beside those on a grid of other
inputs. One that is linear in an input multiplies by what else comes in. Any may add up terms that
cancel: with random signs, they do not.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import GradwrightError
from ...op import run_forward
from .level import Edge, norm

Array = np.ndarray[Any, Any]
GRID = np.concatenate([-np.logspace(4, -4, 65), np.logspace(-4, 4, 65)])
"""Where else the slope of an op is looked at."""
REFUSALS = GradwrightError, ArithmeticError, ValueError, TypeError, IndexError


@dataclass(frozen=True)
class Slopes:
    """The slopes of an op that works element by element, where a cotangent arrives."""

    g: Array
    """The cotangent."""
    values: Array
    """Slopes of all elements."""
    x: Array
    """The input, as it was broadcast."""

    @property
    def live(self) -> Array:
        """Which elements get a cotangent."""
        live: Array = self.g != 0
        return live

    @property
    def flat(self) -> Array:
        """Which elements get a cotangent and have slope 0."""
        flat: Array = self.live & (self.values == 0)
        return flat

    @property
    def share(self) -> float:
        """The share of elements that have slope 0."""
        return float(self.flat.sum() / max(self.live.sum(), 1))

    @property
    def dead_columns(self) -> float:
        """The share of columns that have slope 0 in all rows, of which there are eight or more."""
        if self.g.ndim < 2 or not self.g.size or self.g[..., 0].size < 8:
            return 0.0
        return float((self.values == 0).reshape(-1, self.g.shape[-1]).all(0).mean())


class Measured:
    """Measurements of one edge, each made when it is first asked for."""

    def __init__(self, edge: Edge) -> None:
        self.edge = edge
        self.rng = np.random.default_rng(0)

    @functools.cached_property
    def output(self) -> int | None:
        """The output whose cotangent is passed on, if there is one alone."""
        found = [k for k, g in enumerate(self.edge.given) if g is not None and g.any()]
        return found[0] if len(found) == 1 else None

    @functools.cached_property
    def slopes(self) -> Slopes | None:
        """The slopes, if the op works element by element; broadcasting is looked through."""
        k, edge = self.output, self.edge
        if k is None or not edge.x.size or np.iscomplexobj(edge.x):
            return None
        g, y = edge.given[k], edge.ys[k]
        assert g is not None
        try:
            wide = edge
            if edge.x.shape != y.shape:
                wide = edge.at(np.broadcast_to(edge.x, y.shape).copy())
            r, m = self.rng.standard_normal((2, *y.shape))
            both, first, ones = (
                wide.pull([v if j == k else None for j in range(len(edge.ys))])
                for v in (r * m, r, np.ones_like(y))
            )
        except REFUSALS:
            return None
        if both is None or first is None or ones is None:
            return Slopes(g, np.zeros(y.shape), wide.x)
        with np.errstate(all="ignore"):
            apart = ~np.isclose(both, first * m, rtol=1e-9, atol=0, equal_nan=True)
        return None if apart[np.isfinite(both)].any() else Slopes(g, ones, wide.x)

    @functools.cached_property
    def is_linear(self) -> bool:
        """Whether the cotangent does not depend on the value of the input: small ones or large."""
        edge = self.edge
        try:
            draws = [self.rng.normal(0.0, size, edge.x.shape) for size in (0.1, 10.0)]
            moved = [edge.at(np.asarray(draw)) for draw in draws]
        except REFUSALS:
            return False
        scale = 1e-9 * max(edge.norm_out, *(other.norm_out for other in moved))
        return all(bool(norm(other.part - edge.part) <= scale) for other in moved)

    @functools.cached_property
    def spread(self) -> float:
        """How long the result would be if terms did not cancel: with random signs, on average."""
        edge, sizes = self.edge, []
        for _ in range(3):
            signed = [
                None if g is None else g * self.rng.choice((-1.0, 1.0), g.shape) for g in edge.given
            ]
            found = edge.pull(signed)
            sizes.append(0.0 if found is None else norm(found))
        return float(np.sqrt(np.mean(np.square(sizes))))

    @functools.cached_property
    def reach(self) -> tuple[Array, Array]:
        """The grid, and the slopes on it; empty where the op takes no vector."""
        found = self.slopes
        if found is None:
            return np.empty(0), np.empty(0)
        most = float(np.abs(found.x[np.isfinite(found.x)]).max(initial=1.0))
        grid = GRID * max(1.0, most / 1e3)
        slopes = self.along(grid)
        return (grid if slopes.size else slopes), slopes

    @functools.cached_property
    def bounds(self) -> tuple[float, float]:
        """Between which inputs it has a slope; infinite where that has no end on the grid."""
        grid, slopes = self.reach
        steep = np.flatnonzero(slopes)
        if not steep.size:
            return np.inf, -np.inf
        low, high = -np.inf, np.inf
        if first := int(steep[0]):
            fine = np.linspace(grid[first - 1], grid[first], 257)
            low = float(fine[np.flatnonzero(self.along(fine))[0]])
        if (last := int(steep[-1])) < len(grid) - 1:
            fine = np.linspace(grid[last], grid[last + 1], 257)
            high = float(fine[np.flatnonzero(self.along(fine))[-1]])
        return low, high

    def along(self, points: Array) -> Array:
        """Return the slopes at other inputs, for the element with the least slope.

        Other inputs are held at what they are there. Empty where the op takes no vector.
        """
        found, edge = self.slopes, self.edge
        assert found is not None
        score = np.where(found.live, -np.abs(found.values), -np.inf)
        at = np.unravel_index(int(score.argmax()), score.shape)
        try:
            xs = [
                points if i == edge.i
                else a if a is None or not a.ndim or a.dtype.kind not in "fb"
                else np.full(points.shape, np.broadcast_to(a, score.shape)[at])
                for i, a in enumerate(edge.xs)
            ]  # fmt: skip
            with np.errstate(all="ignore"):
                ys = run_forward(edge.op, xs, training=edge.training)
            ones = [np.ones_like(y) if k == self.output else None for k, y in enumerate(ys)]
            part = Edge(edge.node, edge.op, edge.i, xs, ys, ones, edge.training).part
        except REFUSALS:
            return np.empty(0)
        return part if part.shape == points.shape else np.empty(0)

    @functools.cached_property
    def gain_when_small(self) -> float:
        """The gain if the input were a tenth of what it is."""
        try:
            return self.edge.at(self.edge.x * 0.1).gain
        except REFUSALS:
            return self.edge.gain
