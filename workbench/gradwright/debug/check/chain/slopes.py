"""The slope of a call by one of its inputs, measured by differences of the call's own forward.

One class per kind of dependence (``op/dependence.py``), since that says how many slopes one
evaluation can tell: all of an elementwise op at once, of a softmax as many as it has rows. A slope
pulls cotangents back: Jᵀg, with what it measured in place of the op's own rule.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...float64 import Call
from .lifting import lifted
from .rules import Placed
from .transposes import TRANSPOSES, unbroadcast

Array = np.ndarray[Any, Any]

STEP = 6e-6
"""∛ε, relative: where truncation and rounding of a central difference are about the same."""
BENT = 1e-2
"""Relative difference of the slopes on two sides that no smooth function has at such a step."""
ROW_BYTES = 1 << 24
"""Most memory for the slopes of one row-wise call: 8·n²·rows."""
_CERTAIN = 1e-12
"""Relative difference of a projection, which for a linear map is rounding alone."""
_EPS = float(np.finfo(np.float64).eps)


def rms(x: Array) -> float:
    """Return the root mean square of the elements; 1 of zeros, and of none.

    Of elements whose squares have no place in a float64 it is the largest: a variance may be 1e-240
    where an op scales what it sums.
    """
    flat = x.ravel()
    found = math.sqrt(float(flat.dot(flat)) / max(flat.size, 1))
    if 0 < found < math.inf:
        return found
    return float(np.max(np.abs(flat), initial=0.0, where=np.isfinite(flat))) or 1.0


def central(f: Callable[[Array], Array], x: Array, step: Any) -> tuple[Array, Array]:
    """Return the slopes of a function of elements, all at once, and the rounding that they have.

    (f(x + h) − f(x − h)) / 2h, with the h that is left of the step when x + h is rounded.

    >>> slopes, rounding = central(np.square, np.array([1.0, -3.0]), 1e-5)
    >>> bool(np.all(np.abs(slopes - [2, -6]) <= 4 * rounding)), bool(rounding.max() < 1e-9)
    (True, True)
    """
    up, down = x + step, x - step
    above, below = f(up), f(down)
    width = up - down
    return (above - below) / width, _EPS * np.fmax(np.abs(above), np.abs(below)) / np.abs(width)


class Slope:
    """How one output of a call moves with one input; ``measure`` comes before all else.

    ``head`` is the register of the output.
    """

    __slots__ = ("call", "head", "i", "kinks", "left", "place", "right", "values")

    refines = False
    """Whether ``refine`` may find better values."""

    def __init__(self, call: Call, i: int, heads: Sequence[int]) -> None:
        self.call, self.i, self.head = call, i, heads[0]
        self.place = call.outs.index(heads[0])
        self.values: Array = np.empty(0)
        self.kinks: Array | None = None
        """Which slopes differ on the two sides; None where none does."""

    def moved(self, held: Sequence[Any], x: Array) -> Array:
        """Return the output at another value of the input."""
        xs = [held[j] for j in self.call.ins]
        xs[self.i] = np.asarray(x)  # arithmetic on 0-d gives scalars
        ys = self.call.forward(*xs)
        y: Array = ys[self.place] if type(ys) is tuple else ys
        return y

    def measure(self, held: list[Any]) -> None:
        """Measure all slopes at the values of the registers."""
        raise NotImplementedError

    def pull(self, held: list[Any], bar: Mapping[int, Array]) -> Array | None:
        """Return Jᵀg for the cotangents of the call's outputs; None where it is not sure."""
        return self.pulled(held, bar[self.head], self.values)

    def pulled(self, held: Sequence[Any], g: Array, values: Array) -> Array:
        """Return Jᵀg for the slopes ``values``."""
        raise NotImplementedError

    def between(self, held: Sequence[Any], bar: Mapping[int, Array]) -> tuple[Array, Array] | None:
        """Return the least and the largest Jᵀg of the slopes on the two sides, if these differ."""
        if self.kinks is None:
            return None
        g = bar[self.head]
        least, most = np.minimum(self.left, self.right), np.maximum(self.left, self.right)
        return (
            self.pulled(held, g, np.where(g > 0, least, most)),
            self.pulled(held, g, np.where(g > 0, most, least)),
        )

    def push(self, held: Sequence[Any], v: Array) -> Array:
        """Return J·v, of what was measured."""
        return self.values * v

    def refine(self, held: Sequence[Any]) -> None:
        """Measure again, with more steps."""

    def _sided(self, y: Array, above: Array, below: Array, up: Any, down: Any) -> None:
        """Take the values at x + up and x − down."""
        self.values = (above - below) / (up + down)
        rise, fall = above - y, y - below
        gap = np.abs(rise - fall)
        kinks = gap > BENT * (np.abs(rise) + np.abs(fall)) + 500 * _EPS * np.abs(y)
        if kinks.any():
            self.kinks, self.left, self.right = kinks, fall / down, rise / up
        else:
            self.kinks = None


class Affine(Slope):
    """y[k] = a[k]·x[k] + b[k]: one large step is exact."""

    __slots__ = ("step",)

    def __init__(self, call: Call, i: int, heads: Sequence[int], x: Array) -> None:
        super().__init__(call, i, heads)
        size = float(np.max(np.abs(x), initial=0.5, where=np.isfinite(x)))
        self.step = 2.0 ** min(math.ceil(math.log2(size)), 1000)  # beyond it x + step is no number

    def measure(self, held: list[Any]) -> None:
        x = held[self.call.ins[self.i]]
        self.values = (self.moved(held, x + self.step) - held[self.head]) * (1.0 / self.step)

    def pulled(self, held: Sequence[Any], g: Array, values: Array) -> Array:
        return unbroadcast(values * g, held[self.call.ins[self.i]].shape)


class Element(Slope):
    """y[k] = f(x[k]), with broadcasting: a step on either side for all elements at once."""

    __slots__ = ()
    refines = True

    def measure(self, held: list[Any]) -> None:
        x = held[self.call.ins[self.i]]
        step = np.maximum(np.abs(x), 1e-2 * rms(x)) * STEP
        up, down = x + step, x - step
        above, below = self.moved(held, up), self.moved(held, down)
        self._sided(held[self.head], above, below, up - x, x - down)

    pulled = Affine.pulled

    def refine(self, held: Sequence[Any]) -> None:
        """Sweep over steps from 1e-2 to 1e-9: each element takes those where two agree best.

        Steps are relative to the element, and again to all of them: 1/x near 0 needs the one, and
        x − 1 near 1 the other.
        """
        x = held[self.call.ins[self.i]]
        size = rms(x)
        error, moved = np.full(held[self.head].shape, np.inf), functools.partial(self.moved, held)
        values = self.values.copy()
        for base in (np.maximum(np.abs(x), 1e-12 * size), np.full(x.shape, size)):
            last = None
            for k in np.arange(2.0, 9.1, 0.5):
                slope, noise = central(moved, x, base * 10.0**-k)
                if last is not None:
                    found = np.nan_to_num(np.abs(slope - last) / 9 + noise, nan=np.inf)
                    better = found < error
                    error, values = np.where(better, found, error), np.where(better, slope, values)
                last = slope
        self.values = values


class Rows(Slope):
    """What lies along an axis meets there and nowhere else: one place of all rows at a time."""

    __slots__ = ("axis",)

    def __init__(self, call: Call, i: int, heads: Sequence[int], x: Array, axis: int) -> None:
        super().__init__(call, i, heads)
        self.axis = axis % x.ndim

    def measure(self, held: list[Any]) -> None:
        x, y = held[self.call.ins[self.i]], held[self.head]
        n = x.shape[self.axis]
        width = rms(x - x.mean(self.axis, keepdims=True))
        step = max(STEP * width, 1e-8 * rms(x))
        places = np.eye(n).reshape(n, *(n if k == self.axis else 1 for k in range(x.ndim)))
        up, down = x + step * places, x - step * places
        stacked = [k == self.i for k in range(len(self.call.ins))]
        xs = [held[j] for j in self.call.ins]
        xs[self.i] = np.concatenate([up, down])
        ys = lifted(self.call, xs, stacked, [held[o] for o in self.call.outs])[self.place]
        self._sided(y, ys[:n], ys[n:], step, step)

    def pulled(self, held: Sequence[Any], g: Array, values: Array) -> Array:
        found = values * g
        if g.ndim == held[self.call.ins[self.i]].ndim:
            found = found.sum(self.axis + 1)
        return np.moveaxis(found, 0, self.axis)

    def push(self, held: Sequence[Any], v: Array) -> Array:
        along = np.moveaxis(v, self.axis, 0)
        if held[self.head].ndim == v.ndim:
            along = np.expand_dims(along, self.axis + 1)
        pushed: Array = np.sum(self.values * along, 0)
        return pushed


@functools.lru_cache(256)
def places(size: tuple[int, ...], counts: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """Return what holds one place of every window, for each place; so many windows along an axis.

    >>> [np.arange(4)[place].tolist() for place in places((2,), (2,))]
    [[0, 2], [1, 3]]
    """
    return [
        (..., *(slice(p, p + n * k, k) for p, n, k in zip(at, counts, size, strict=True)))
        for at in np.ndindex(size)
    ]


class Windows(Slope):
    """Disjoint windows give one element each: one place of all windows at a time."""

    __slots__ = ("size",)

    def __init__(self, call: Call, i: int, heads: Sequence[int], size: tuple[int, ...]) -> None:
        super().__init__(call, i, heads)
        self.size = size

    def _places(self, counts: Sequence[int]) -> list[tuple[Any, ...]]:
        """Return the slices that hold one place of every window, for each place."""
        return places(self.size, tuple(counts))

    def measure(self, held: list[Any]) -> None:
        x, y = held[self.call.ins[self.i]], held[self.head]
        step = STEP * rms(x)
        places = self._places(y.shape[-len(self.size) :])
        moves = np.zeros((len(places), *x.shape))
        for move, place in zip(moves, places, strict=True):
            move[place] = step
        stacked = [k == self.i for k in range(len(self.call.ins))]
        xs = [held[j] for j in self.call.ins]
        xs[self.i] = np.concatenate([x + moves, x - moves])
        ys = lifted(self.call, xs, stacked, [held[o] for o in self.call.outs])[self.place]
        self._sided(y, ys[: len(places)], ys[len(places) :], step, step)

    def pulled(self, held: Sequence[Any], g: Array, values: Array) -> Array:
        found = np.zeros(held[self.call.ins[self.i]].shape)
        for place, slopes in zip(self._places(g.shape[-len(self.size) :]), values, strict=True):
            found[place] = slopes * g
        return found

    def push(self, held: Sequence[Any], v: Array) -> Array:
        places = self._places(held[self.head].shape[-len(self.size) :])
        parts = [s * v[p] for p, s in zip(places, self.values, strict=True)]
        pushed: Array = np.sum(parts, 0)
        return pushed


class Linear(Slope):
    """f(x + v) − f(x) is linear in v: the op's own rule, certified by a projection at each use.

    ⟨g, f(x + v) − f(x)⟩ = ⟨Jᵀg, v⟩ holds to rounding, which a single wrong element breaks.
    """

    __slots__ = ("change", "direction", "heads", "rule", "size", "unit")

    def __init__(self, call: Call, i: int, heads: Sequence[int], unit: Array) -> None:
        super().__init__(call, i, heads)
        self.heads, self.unit = heads, unit
        self.rule: Placed | None = None
        """The op's vjp, placed behind the call."""

    def measure(self, held: list[Any]) -> None:
        x = held[self.call.ins[self.i]]
        self.direction = v = self.unit * rms(x)
        xs = [held[j] for j in self.call.ins]
        xs[self.i] = np.asarray(x + v)
        ys = self.call.forward(*xs)
        moved = dict(zip(self.call.outs, ys if type(ys) is tuple else (ys,), strict=True))
        self.change = {o: moved[o] - held[o] for o in self.heads}
        self.size = sum(_square(held[o]) + _square(moved[o]) for o in self.heads)

    def pull(self, held: list[Any], bar: Mapping[int, Array]) -> Array | None:
        if self.rule is None:
            return None
        found = self.rule.pull(held, self.i, bar)
        return found if self.certifies(bar, found) else None

    def certifies(self, bar: Mapping[int, Array], found: Array) -> bool:
        """Tell whether ``found`` is Jᵀg for these cotangents."""
        size = product = 0.0
        for o in self.heads:
            g = bar.get(o)
            if g is not None:
                size += _square(g)
                product += float(np.vdot(g, self.change[o]))
        v = self.direction
        slack = math.sqrt(size * self.size) + math.sqrt(_square(found) * _square(v))
        return abs(product - float(np.vdot(found, v))) <= _CERTAIN * slack < math.inf


class Transposed(Linear):
    """A linear dependence whose transpose is written here, certified when a program is made."""

    __slots__ = ("transpose",)

    def __init__(self, call: Call, i: int, heads: Sequence[int], unit: Array) -> None:
        super().__init__(call, i, heads, unit)
        self.transpose = TRANSPOSES[type(call.op)]

    def pull(self, held: list[Any], bar: Mapping[int, Array]) -> Array | None:
        xs = [held[j] for j in self.call.ins]
        return self.transpose(self.call.op, self.i, xs, bar[self.head])

    def measure(self, held: list[Any]) -> None:
        pass


def _square(x: Array) -> float:
    flat = x.ravel()
    return float(np.dot(flat, flat))
