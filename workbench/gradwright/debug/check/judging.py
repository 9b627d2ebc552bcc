"""An analytic derivative beside the numeric one: whether they agree, and when nobody can tell.

One step is tried first, which settles almost every case with two evaluations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .numeric import EPS, LEAST, Function, Slope, slope

QUICK = 1e-4
"""The step that is tried first, relative to the size of what is perturbed."""


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
    def is_between(self) -> bool:
        """Whether the analytic value lies between the slopes on both sides, at the best step."""
        return self.slope is not None and self.slope.admits(self.analytic, self.tolerance)

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
    top = max(abs(above), abs(below))
    rounding = max(EPS * top, LEAST if top else 0.0) / h
    size = max(abs(analytic), abs(central))
    close = abs(analytic - central) <= rtol * size < math.inf
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
    verdict, known = "unclear", math.isfinite(found.error)
    if found.kink:
        width = rtol * max(abs(found.left), abs(found.right), abs(analytic))
        if found.admits(analytic, width + 3 * found.error if known else width):
            verdict = "kink"
        elif known and not found.lost:
            verdict = "fail"
    elif _agrees(analytic, found, rtol):
        verdict = "ok"
    elif known and apart <= tolerance:
        hidden = found.noisy and apart > rtol * size and 3 * found.error > 0.01 * size
        verdict = "unclear" if hidden else "ok"
    elif apart > 10 * found.error:
        open_ = found.lost or found.grains(analytic) or (found.stair and analytic == 0)
        one_sided = found.is_of_one_side(analytic, rtol)
        verdict = "unclear" if open_ else "kink" if one_sided else "fail"
    return Comparison(verdict, analytic, found.value, tolerance, found)


def _agrees(analytic: float, found: Slope, rtol: float) -> bool:
    """Tell whether two steps in a row, clear of noise, confirm the value: a kink may be close by.

    One step alone may do so by a truncation error that is just right.
    """
    before = False
    for h, central in zip(found.steps, found.central, strict=True):
        size = max(abs(analytic), abs(central))
        here = abs(analytic - central) <= rtol * size < math.inf and found.noise / h <= rtol * size
        if here and before:
            return True
        before = here
    return False
