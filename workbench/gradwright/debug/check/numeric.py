"""Derivatives by finite differences, with a measured error instead of a guessed tolerance.

Central differences D(h) = (f(h) − f(−h)) / 2h have a truncation error that falls as h² and a
rounding error that grows as 1/h. One h is tried first, which settles almost every case with two
evaluations. What is left gets a sweep over h with Richardson extrapolation, the noise of f measured
as in Moré and Wild 2011 ("Estimating computational noise", SIAM J. Sci. Comput. 33), and the slopes
on both sides, which tell a kink from a mistake.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Function = Callable[[float], float]

QUICK = 1e-4
STEPS = 10.0 ** -np.arange(2.0, 8.25, 0.5)
"""Steps of a sweep, relative to the size of what is perturbed: 1e-2 down to 1e-8."""
WIDE, NARROW = 1e-4, 1e-6
"""Relative steps between which a value must become straight, or else has a kink."""
_JUMP = 0.3 * WIDE / NARROW
"""Growth of one-sided slopes from a wide to a narrow step, above which a value jumps."""
_TORN = 1e-2
"""Part of the largest value by which roundings of what comes in move one that jumps."""
_DECADES2 = 4  # STEPS[i + 4] is STEPS[i] / 100
_NOISE_STEP, _NOISE_POINTS = 1e-11, 9
_EPS = float(np.finfo(np.float64).eps)
_NOISY = 1e4  # roundings of its value that a function may be off without being noisy


@dataclass(frozen=True)
class Slope:
    """Numeric derivative of a function of one variable at 0.

    ``value ± error`` is the best estimate, found at ``STEPS[best]``; ``left`` and ``right`` are the
    one-sided slopes and ``kink`` says that they differ. ``central`` holds the central differences
    for all of ``STEPS``, which are relative to ``scale``; ``noise`` is the size of f's own errors,
    and ``noisy`` says that it is far above the rounding of f's values.
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

    def admits(self, slope: float, tolerance: float) -> bool:
        """Tell whether ``slope`` lies between the one-sided slopes."""
        low, high = sorted((self.left, self.right))
        return low - tolerance <= slope <= high + tolerance


@dataclass(frozen=True)
class Comparison:
    """An analytic derivative beside the numeric one.

    ``verdict`` is ``ok``; ``kink`` where one-sided slopes differ and the analytic value lies
    between them; ``fail``; or ``unclear`` where the numeric value is too uncertain to tell.
    ``tolerance`` is the difference that would have passed.
    """

    verdict: str
    analytic: float
    numeric: float
    tolerance: float
    slope: Slope | None = None

    @property
    def relative_error(self) -> float:
        """Return |analytic − numeric| relative to the larger of the two, 0 when they are equal."""
        apart = abs(self.analytic - self.numeric)  # NaN if one of them is
        return apart / max(abs(self.analytic), abs(self.numeric)) if apart else 0.0

    @property
    def score(self) -> float:
        """Return the difference in units of the tolerance; infinite where it is unknown."""
        apart = abs(self.analytic - self.numeric)
        if not math.isfinite(apart):
            return math.inf
        return apart / self.tolerance if self.tolerance > 0 else math.inf if apart else 0.0


def compare(
    f: Function, analytic: float, *, scale: float = 1.0, magnitude: float = 0.0, rtol: float = 1e-5
) -> Comparison:
    """Hold an analytic derivative of ``f`` at 0 against finite differences.

    ``scale`` is the size of what f's argument is added to; steps are relative to it. ``magnitude``
    is the size of the terms that f adds up, whose rounding a small sum does not show.

    >>> compare(lambda t: (3.0 + t) ** 2, 6.0).verdict
    'ok'
    >>> compare(lambda t: (3.0 + t) ** 2, 0.0).verdict
    'fail'
    >>> compare(lambda t: abs(t), 0.0).verdict
    'kink'
    """
    found = quick(f, analytic, scale=scale, rtol=rtol)
    if found.verdict == "unclear":
        return judge(analytic, slope(f, scale=scale, magnitude=magnitude), rtol)
    return found


def quick(f: Function, analytic: float, *, scale: float = 1.0, rtol: float = 1e-5) -> Comparison:
    """Compare at a single step: ``ok`` is sure, ``unclear`` wants a closer look.

    An analytic derivative that is not finite fails.
    """
    if not math.isfinite(analytic):
        return Comparison("fail", analytic, math.nan, math.nan)
    h = QUICK * scale
    above, below = f(h), f(-h)
    central = (above - below) / (2 * h)
    rounding = _EPS * max(abs(above), abs(below)) / h
    size = max(abs(analytic), abs(central))
    close = abs(analytic - central) <= rtol * size
    sure = close and (rounding <= rtol * size or above == below == f(0.0))
    return Comparison("ok" if sure else "unclear", analytic, central, rounding + rtol * size)


def judge(analytic: float, found: Slope, rtol: float) -> Comparison:
    """Decide whether an analytic derivative agrees with a numeric one.

    A difference passes below ``rtol`` relative or 3 errors, and fails above 10 errors only. Errors
    so large that they hide the derivative admit anything: that is unclear if f is noisy, while
    beside an ordinary rounding error a derivative that cannot be seen is zero.
    """
    apart = abs(analytic - found.value)
    size = max(abs(analytic), abs(found.value))
    tolerance = rtol * size + 3 * found.error
    verdict = "unclear"
    if found.kink:
        width = rtol * max(abs(found.left), abs(found.right), abs(analytic)) + 3 * found.error
        verdict = "kink" if found.admits(analytic, width) else "fail"
    elif apart <= tolerance or _agrees(analytic, found, rtol):
        hidden = found.noisy and apart > rtol * size and found.error > 0.1 * size
        verdict = "unclear" if hidden else "ok"
    elif apart > 10 * found.error:
        verdict = "fail"
    return Comparison(verdict, analytic, found.value, tolerance, found)


def _agrees(analytic: float, found: Slope, rtol: float) -> bool:
    """Tell whether a single step, clear of noise, confirms the value: a kink may be close by."""
    for h, central in zip(STEPS * found.scale, found.central, strict=True):
        size = max(abs(analytic), abs(central))
        if abs(analytic - central) <= rtol * size and found.noise / h <= rtol * size:
            return True
    return False


def slope(f: Function, *, scale: float = 1.0, magnitude: float = 0.0) -> Slope:
    """Return the derivative of ``f`` at 0 from a sweep of 13 steps and extrapolation.

    ``scale`` and ``magnitude`` as for :func:`compare`.

    >>> found = slope(lambda t: math.exp(t))
    >>> abs(found.value - 1) < 1e-11, found.error < 1e-9, found.kink
    (True, True, False)
    """
    steps = STEPS * scale
    zero = f(0.0)
    above = np.array([f(h) for h in steps])
    below = np.array([f(-h) for h in steps])
    noise = max(measured_noise(f, scale), _EPS * max(abs(zero), magnitude))
    noises = np.maximum(noise, _EPS * np.fmax(abs(above), abs(below))) / steps
    size = np.nanmax(np.abs([zero, *above, *below]), initial=0.0)
    with np.errstate(all="ignore"):
        central = (above - below) / (2 * steps)
        gap = (above - 2 * zero + below) / steps
        value, error, best = _extrapolate(central, noises)
        at = _kink(gap, noises)
        side = best if at is None else at
        left, right = (zero - below[side]) / steps[side], (above[side] - zero) / steps[side]
    return Slope(
        value, error, best, scale, float(left), float(right), at is not None,
        tuple(central.tolist()), noise, bool(noise > _NOISY * _EPS * size),
    )  # fmt: skip


def jittered(x: Array, rng: np.random.Generator) -> Array:
    """Return an array with every element moved by a random part of its rounding error.

    What a function makes of it differs by the size of the function's own errors (Monte Carlo
    arithmetic, Parker 1997).
    """
    if x.dtype.kind not in "fc":
        return x
    return np.asarray(x * (1 + _EPS * rng.uniform(-1, 1, x.shape)))


def rounding(spread: float) -> float:
    """Return the magnitude whose rounding errors are as large as ``spread``."""
    return spread / _EPS if math.isfinite(spread) else 0.0


def measured_noise(f: Function, scale: float) -> float:
    """Return the size of the rounding errors of ``f`` near 0, from high differences.

    Points 1e-11 apart: differences of order 3 to 6 hold no trace of a smooth function, and those of
    errors of size s have the variance s²·(2k)!/(k!)².
    """
    differences = np.array([f(_NOISE_STEP * scale * j) for j in range(_NOISE_POINTS)])
    found = 0.0
    with np.errstate(all="ignore"):
        for k in range(1, 7):
            differences = np.diff(differences)
            if k >= 3:
                factor = math.factorial(k) ** 2 / math.factorial(2 * k)
                found = max(found, math.sqrt(factor * float(np.mean(differences**2))))
    return found if math.isfinite(found) else 0.0


def _extrapolate(central: Array, noise: Array) -> tuple[float, float, int]:
    """Return value, error and step of the best entry of two columns of Richardson's tableau."""
    best = (math.nan, math.inf, len(central) - 1)
    for i in range(1, len(central)):
        first = central[i] + (central[i] - central[i - 1]) / 9
        error = max(abs(first - central[i]), abs(central[i] - central[i - 1]) / 9) + noise[i]
        if error < best[1]:
            best = (float(first), float(error), i)
        if i >= 2:
            before = central[i - 1] + (central[i - 1] - central[i - 2]) / 9
            second = first + (first - before) / 99
            error = max(abs(second - first), abs(first - before) / 9) + noise[i]
            if error < best[1]:
                best = (float(second), float(error), i)
    return best


def _kink(gap: Array, noise: Array) -> int | None:
    """Return a step at which left and right slope differ and go on differing, if there is one.

    For a smooth function the gap is proportional to h: a hundredth after two decades.
    """
    for i in range(len(gap) - 1, _DECADES2 - 1, -1):
        wide, narrow = abs(gap[i - _DECADES2]), abs(gap[i])
        if 20 * noise[i] < 0.3 * wide < math.inf:
            return i if narrow > 0.3 * wide else None
    return None


def kinked(
    zero: Array, wide: tuple[Array, Array], narrow: tuple[Array, Array], jitter: Sequence[Array]
) -> tuple[Array, Array]:
    """Return which elements have different slopes on both sides, and which of them jump.

    The slope of a jump grows as the step shrinks, that of a kink does not; or rounding makes it.

    ``wide`` and ``narrow`` hold the values at steps of ``+WIDE, -WIDE`` and ``+NARROW, -NARROW``,
    and ``jitter`` values of runs that differ in nothing but rounding.
    """
    with np.errstate(all="ignore"):
        far = np.abs(wide[0] - 2 * zero + wide[1]) / WIDE
        near = np.abs(narrow[0] - 2 * zero + narrow[1]) / NARROW
        size = np.max(np.abs(zero[np.isfinite(zero)]), initial=0.0)
        noise = 50 * _EPS * size
        torn = np.zeros(zero.shape, bool)
        for y in jitter:
            apart = np.abs(y - zero)
            torn |= apart > _TORN * max(size, NARROW)
            noise = max(noise, 10 * np.max(apart[np.isfinite(apart)], initial=0.0))
        found: Array = (near > 0.3 * far) & (near > noise / NARROW)
        torn |= found & (near > _JUMP * far)
        return found, torn
