"""Slopes of functions that are rounded inside: stairs beside what has none, kinks in noise."""

from __future__ import annotations

import math

import pytest

from gradwright.debug.check.judging import compare
from gradwright.debug.check.numeric import slope


def stairs(t: float) -> float:
    """A cross entropy of 1e-7, which goes in stairs of 2e-16, beside a term that goes by 1e-16 t.

    At steps below 1e-6 nothing moves but that term, and it says that the slope is 1e-16.
    """
    return math.log(1.0 + 1e-7 * math.exp(1e-3 * t)) + 1e-16 * t


def test_stairs_are_seen_beside_what_goes_on() -> None:
    found = slope(stairs)
    assert found.value == pytest.approx(1e-10, rel=2e-3)
    assert found.noise > 1e-16
    assert compare(stairs, 1e-10).verdict == "ok"
    assert compare(stairs, 2e-10).verdict == "fail"
    assert compare(stairs, 0.0).verdict == "fail"


@pytest.mark.parametrize("at", [-2e-6, 5e-7, 2e-6, 5e-6])
def test_a_kink_closer_than_noise_lets_one_look_is_no_mistake(at: float) -> None:
    """The loss is 1e-10 and its slope −90e-10 on one side, −87e-10 on the other of a place nearby.

    Steps that show more than roundings reach beyond the kink, and all of them agree on the mean.
    """

    def bent(t: float) -> float:
        return math.log(1.0 + 1e-10 * math.exp(-90 * t + 3 * max(t - at, 0.0)))

    right = -90e-10 if at > 0 else -87e-10
    assert compare(bent, right).verdict == "kink"
    assert compare(bent, 1.05 * right if at > 0 else 0.95 * right).verdict == "fail"
    assert compare(bent, 0.0).verdict == "fail"


@pytest.mark.parametrize("scale", [1.0, 1e-8])
@pytest.mark.parametrize("bend", [1.0, 30.0, 1e3])
def test_what_is_bent_is_no_kink(scale: float, bend: float) -> None:
    def f(t: float) -> float:
        return scale * (math.log1p(1e-3 * math.exp(bend * t)) + math.cos(3 * t))

    exact = scale * bend * 1e-3 / 1.001
    assert not slope(f).kink
    assert compare(f, exact).verdict == "ok"
    assert compare(f, 1.001 * exact).verdict == "fail"
