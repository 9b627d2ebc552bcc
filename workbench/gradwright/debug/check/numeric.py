"""Derivatives by finite differences, with a measured error instead of a guessed tolerance.

Central differences D(h) = (f(h) − f(−h)) / 2h have a truncation error that falls as h² and a
rounding error that grows as 1/h. A sweep over h is extrapolated after Richardson, with the noise of
f measured as in Moré and Wild 2011 ("Estimating computational noise", SIAM J. Sci. Comput. 33), and
the slopes on both sides, which tell a kink from a mistake.

A value counts only if all finer steps bear it out: where f turns faster than the steps are long,
as sin does at 1e6, long steps agree with each other and with nothing else. The sweep then goes on
to finer ones, and says so if none resolves f.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Function = Callable[[float], float]

STEPS = 10.0 ** -np.arange(2.0, 8.25, 0.5)
"""Steps of a sweep, relative to the size of what is perturbed: 1e-2 down to 1e-8."""
FINER = 10.0 ** -np.arange(8.5, 13.25, 0.5)
"""Steps that follow where these do not resolve f: down to 450 roundings of what is perturbed."""
WIDE, NARROW = 1e-4, 1e-6
FINEST = (1e-8, 1e-10)
"""Finer ones, at which what turns fast is straight, and what has a kink still is not."""
_JUMP = 0.3 * WIDE / NARROW
"""Growth of one-sided slopes from a wide to a narrow step, above which a value jumps."""
_TORN = 1e-2
"""Part of the largest value by which roundings of what comes in move one that jumps."""
_DECADES2 = 4  # STEPS[i + 4] is STEPS[i] / 100
NOISE_STEPS, NOISE_POINTS = (1e-11, 1e-13, 1e-15), 9
EPS = float(np.finfo(np.float64).eps)
LEAST = float(np.finfo(np.float64).smallest_subnormal)  # the rounding of what is below 1e-308
_NOISY = 1e4  # roundings of its value that a function may be off without being noisy
_LOST = 1e-3  # part of its size by which a function may scatter and still have a slope
INSIDE = 1e3 * EPS  # what numbers up to a thousand inside of f are rounded by, at most
_TURNED = 0.1  # part of the larger slope by which those of two sides differ at a kink
_SUDDEN = 100  # growth of a change by a step √10 times as long: 10 of a square, 32 of a cube
_UNRESOLVED = 100  # roundings that a slope may be off without f being too fast for the steps


@dataclass(frozen=True)
class Slope:
    """Numeric derivative of a function of one variable at 0.

    ``value ± error`` is the best estimate, found at ``STEPS[best]``; the error is infinite where no
    two steps agree that finer ones bear out. ``left`` and ``right`` are the one-sided slopes and
    ``kink`` says that they differ. ``central`` holds the central differences for all of ``STEPS``,
    and of ``FINER`` if these were needed, relative to ``scale``; ``noise`` is the size of f's own
    errors, and ``noisy`` says that the error is far above what the rounding of f's values explains.
    """

    value: float
    error: float
    best: int
    scale: float
    left: float
    right: float
    kink: bool
    central: tuple[float, ...]
    noise: float
    noisy: bool = False
    lost: bool = False
    """Whether f is little else than noise, or jumps: then no slope refutes another."""
    stair: bool = False
    """Whether f goes in steps shorter than all of these, as ⌊10⁹·t⌋ does: its slope may be 0."""

    @property
    def steps(self) -> Array:
        """The steps of ``central``."""
        steps: Array = np.concatenate([STEPS, FINER])[: len(self.central)] * self.scale
        return steps

    def grains(self, slope: float) -> bool:
        """Tell whether f stands still at fine steps, and goes by ``slope`` at wide ones.

        So does what has rounded inside, as x − tanh(x) at 1e-6: it has no slope to be measured.
        """
        central = np.array(self.central)
        least = 1e-6 * abs(slope)
        still = np.abs(central) <= least
        if not still[-2:].all():
            return False
        climbed = 2 * abs(slope) * self.steps[still].max()
        if abs(self.value) <= least and climbed < INSIDE:  # not as high as one stair
            return True
        moving = central[~still & np.isfinite(central)]
        if len(moving) < 2:
            return False
        low, high = moving.min(), moving.max()
        return bool(low - 0.2 * abs(low) <= slope <= high + 0.2 * abs(high))

    def is_of_one_side(self, slope: float, rtol: float) -> bool:
        """Tell whether ``slope`` is that of one side, and the other's is far from it.

        So it is where a kink is closer than all steps that show more than noise, as of a relu that
        has just died: central differences are the mean of both sides, and none is its slope.
        """
        noise = self.noise / float(self.steps[self.best])
        size = max(abs(self.left), abs(self.right))
        near = min(abs(slope - self.left), abs(slope - self.right)) <= rtol * size + noise
        return near and abs(self.right - self.left) > max(_TURNED * size, 10 * noise)

    def admits(self, slope: float, tolerance: float) -> bool:
        """Tell whether ``slope`` lies between the one-sided slopes."""
        low, high = sorted((self.left, self.right))
        return low - tolerance <= slope <= high + tolerance


def slope(f: Function, *, scale: float = 1.0, magnitude: float = 0.0) -> Slope:
    """Return the derivative of ``f`` at 0 from a sweep of 13 steps and extrapolation.

    >>> found = slope(lambda t: math.exp(t))
    >>> abs(found.value - 1) < 1e-11, found.error < 1e-9, found.kink
    (True, True, False)
    """
    zero = f(0.0)
    measured, turns = measured_noise(f, scale)
    near, nearer = (np.array([f(h * scale), f(-h * scale)]) for h in NOISE_STEPS[:2])
    steps, finer = STEPS * scale, FINER * scale
    above, below = _sides(f, steps)
    sides = _sides(f, finer) if (nearer == zero).all() else None
    noise = max(measured, EPS * max(abs(zero), magnitude), LEAST)
    if sides is not None:
        whole = zip((above, below), sides, strict=True)
        noise = max(noise, _quantum([np.abs(np.concatenate(side) - zero) for side in whole]))
    still = bool((near == zero).all())
    options: Any = {"noise": noise, "scale": scale, "turns": turns, "still": still}
    found = _slope(steps, zero, above, below, **options)
    known = math.isfinite(found.error)
    if not known or (found.noisy and found.error > 1e-4 * abs(found.value)):
        up, down = _sides(f, finer) if sides is None else sides
        steps = np.concatenate([steps, finer])
        above, below = np.concatenate([above, up]), np.concatenate([below, down])
        found = _slope(steps, zero, above, below, **options)
    return found


def _quantum(sides: Sequence[Array]) -> float:
    """Return the height of the stairs in which a function goes that stands still at fine steps.

    ``sides`` are its changes on either side, those at long steps first. A small result of numbers
    near 1, as a cross entropy of 1e-6, is rounded as they are. A change that grows suddenly is one
    stair or more, be it from nothing, or from the little by which other terms of a sum go on. What
    stands still at all steps may go in stairs that no step climbs; a change larger than such
    roundings is no stair, but a function that is flat here and not there.
    """
    found, moves = 0.0, False
    for moved in sides:
        reached = np.fmax.accumulate(np.append(0.0, moved[::-1]))
        sudden = (reached[1:] > _SUDDEN * reached[:-1]) & (reached[1:] < INSIDE)
        found = max(found, float(np.max(reached[1:], initial=0.0, where=sudden)))
        moves |= bool(reached[-1] > 0)
    return found if moves else INSIDE


def _sides(f: Function, steps: Array) -> tuple[Array, Array]:
    return np.array([f(h) for h in steps]), np.array([f(-h) for h in steps])


def _slope(
    steps: Array,
    zero: float,
    above: Array,
    below: Array,
    *,
    noise: float,
    scale: float,
    turns: float,
    still: bool,
) -> Slope:
    size = max(np.nanmax(np.abs([zero, *above, *below]), initial=0.0), LEAST / EPS)
    first = int(np.sum(steps >= turns * scale))  # of those that resolve f
    with np.errstate(all="ignore"):
        central = above / (2 * steps) - below / (2 * steps)
        gap = (above - zero) / steps - (zero - below) / steps
        arriving = 2 * EPS * scale * np.abs(central)  # what is perturbed is rounded, too
        local = np.maximum(EPS * np.fmax(abs(above), abs(below)), arriving)
        noises = np.maximum(noise, local) / steps
        value, error, best = _extrapolate(central, noises, first)
        at = _kink(gap, noises, first, best)
        side = best if at is None else at
        left, right = (zero - below[side]) / steps[side], (above[side] - zero) / steps[side]
        unresolved = error > _UNRESOLVED * max(noise, EPS * size) / steps[best]
        bend = np.abs(above - 2 * zero + below)  # as h² where f is smooth, as h at a kink
        fine = abs(value) * NOISE_STEPS[0] * scale
        stair = still and fine > _UNRESOLVED * max(noise, EPS * size)
        jumps = bend[-1] > max(0.1 * bend[-1 - _DECADES2], 20 * noise)
    noisy = bool(noise > _NOISY * EPS * size or unresolved)
    return Slope(
        value, error, best, scale, float(left), float(right), at is not None,
        tuple(central.tolist()), noise, noisy, bool(jumps or noise > _LOST * size), bool(stair),
    )  # fmt: skip


def jittered(x: Array, rng: np.random.Generator) -> Array:
    """Return an array with every element moved by a random part of its rounding error.

    What a function makes of it differs by the size of the function's own errors (Monte Carlo
    arithmetic, Parker 1997).
    """
    if x.dtype.kind not in "fc":
        return x
    return np.asarray(x * (1 + EPS * rng.uniform(-1, 1, x.shape)))


def rounding(spread: float) -> float:
    """Return the magnitude whose rounding errors are as large as ``spread``."""
    return spread / EPS if math.isfinite(spread) else 0.0


def measured_noise(f: Function, scale: float) -> tuple[float, float]:
    """Return the size of the rounding errors of ``f`` near 0, and steps that do not resolve it.

    From high differences of points 1e-11 apart: those of order 3 to 6 hold no trace of a smooth
    function, and those of errors of size s have the variance s²·(2k)!/(k!)². What is much smaller
    between closer points is no noise, but a function that turns within 1e-11: no step from there
    on resolves it.
    """
    found = turns = math.inf
    lost = True  # whether the spacing before this one shows nothing but scatter
    for look, (step, wider) in enumerate(zip(NOISE_STEPS, (math.inf, *NOISE_STEPS), strict=False)):
        values = np.array([f(step * scale * j) for j in range(1, NOISE_POINTS + 1)])
        size = float(np.max(np.abs(values)))
        if not math.isfinite(size):
            continue  # outside a domain
        values = values / size if size else values
        here = _scatter(values) * size
        if here < 0.1 * found and (here or found == math.inf):  # or they are on one stair
            found, turns = here, wider if lost else turns
        elif look == 1 and here > found:  # roundings may be alike by chance, once
            found = here
        if look and found <= _NOISY * EPS * size:
            break
        lost = _scatter(values) > 0.05 * float(np.ptp(values))
    return (found if math.isfinite(found) else 0.0), turns


def _scatter(values: Array) -> float:
    found = 0.0
    differences = values
    for k in range(1, 7):
        differences = np.diff(differences)
        if k >= 3:
            factor = math.factorial(k) ** 2 / math.factorial(2 * k)
            found = max(found, math.sqrt(factor * float(np.mean(differences**2))))
    return found


def _extrapolate(central: Array, noise: Array, first: int) -> tuple[float, float, int]:
    """Return value, error and step of the best entry of two columns of Richardson's tableau.

    The differences have to shrink on the way to it, and finer steps to bear it out, within their
    noise. Without such an entry the error is infinite.
    """
    found: list[tuple[float, float, int]] = []
    change = np.abs(np.diff(central, prepend=math.nan))
    for i in range(first + 2, len(central)):
        if not change[i] <= 0.5 * change[i - 1] + 4 * (noise[i] + noise[i - 1]):
            continue
        before = central[i - 1] + (central[i - 1] - central[i - 2]) / 9
        first = central[i] + (central[i] - central[i - 1]) / 9
        second = first + (first - before) / 99
        error = max(abs(first - central[i]), change[i] / 9) + noise[i]
        found.append((error, first, i))
        error = max(abs(second - first), abs(first - before) / 9) + noise[i]
        found.append((error, second, i))
    for error, value, i in sorted(found):
        off = np.abs(central[i + 1 :] - value)
        most = error + 2 * abs(central[i] - value) + 10 * noise[i + 1 :]
        if math.isfinite(error) and not np.any(off > most):
            finer = central[i + 1 :] + np.diff(central[i:]) / 9
            shown = np.max((np.abs(finer - value) - 3 * noise[i + 1 :])[:2], initial=0.0)
            return float(value), float(max(error, shown)), i
    return float(central[-1]), math.inf, len(central) - 1


def _kink(gap: Array, noise: Array, first: int, best: int) -> int | None:
    """Return a step at which left and right slope differ and go on differing, if there is one.

    For a smooth function the gap is proportional to h: a hundredth after two decades, a tenth after
    one, which tells where noise leaves no more. Steps longer than the best one do not see f as it
    is here.
    """
    for i in range(len(gap) - 1, max(first + _DECADES2, best) - 1, -1):
        wide, narrow = abs(gap[i - _DECADES2]), abs(gap[i])
        if 20 * noise[i] < 0.3 * wide < math.inf:
            between = abs(gap[i - _DECADES2 // 2])
            stays = narrow > 0.6 * abs(gap[i - 1])  # 0.3 of it for a smooth function
            clear = narrow > 0.3 * wide or (narrow > 0.3 * between and narrow > 20 * noise[i])
            return i if stays and clear else None
    return None


def kinked(
    zero: Array,
    wide: tuple[Array, Array],
    narrow: tuple[Array, Array],
    jitter: Sequence[Array],
    finer: Sequence[tuple[Array, Array]] = (),
) -> tuple[Array, Array]:
    """Return which elements have different slopes on both sides, and which of them jump.

    The slope of a jump grows as the step shrinks, that of a kink does not; or rounding makes it.
    What is straight at a finer step has no kink, but turns fast.

    ``wide`` and ``narrow`` hold the values at steps of ``+WIDE, -WIDE`` and ``+NARROW, -NARROW``,
    ``finer`` those at ``FINEST``, and ``jitter`` values of runs that differ in nothing but
    rounding.
    """
    with np.errstate(all="ignore"):
        gaps = [
            np.abs((up - zero) / h - (zero - down) / h)
            for h, (up, down) in zip((WIDE, NARROW, *FINEST), (wide, narrow, *finer), strict=False)
        ]
        size = np.max(np.abs(zero[np.isfinite(zero)]), initial=0.0)
        noise = 50 * EPS * size
        torn = np.zeros(zero.shape, bool)
        for y in jitter:
            apart = np.abs(y - zero)
            torn |= apart > _TORN * max(size, NARROW)
            noise = max(noise, 10 * np.max(apart[np.isfinite(apart)], initial=0.0))
        found: Array = (gaps[1] > 0.3 * gaps[0]) & (gaps[1] > noise / NARROW)
        torn |= found & (gaps[1] > _JUMP * gaps[0])
        if finer:  # which also see a kink that has a larger one a little away
            found |= (gaps[2] > 0.3 * gaps[1]) & (gaps[2] > noise / FINEST[0])
        for h, far, near in zip(FINEST, gaps[1:], gaps[2:], strict=False):
            hidden = far * 0.3 <= noise / h
            found &= (near > 0.3 * far) | hidden
        return found, torn
