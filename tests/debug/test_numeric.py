"""Slopes of functions that are rounded inside: stairs beside what has none, kinks in noise."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
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


def dying(kinks: Any, size: float, rest: float, t: float) -> float:
    """A cross entropy of three rows in which relus wait for their kinks."""
    beyond = sum(bent * max(t - at, 0.0) for at, bent in kinks)
    return math.log(1.0 + size * math.exp(rest * t + beyond)) / 3


def test_units_that_have_just_died_are_no_mistakes() -> None:
    """Losses of 1e-8 to 1e-5 with kinks at distances from 5e-9 to 1e-2: what steps tell is beyond.

    Of 400 right slopes 6 look wrong, where the nearest kink is below 1e-7 and others follow it;
    25 did before slopes of one side counted. Wrong ones are told as often as without kinks.
    """
    rng = np.random.default_rng(0)
    blamed, told = 0, 0
    for _ in range(400):
        n = rng.integers(2, 5)
        at, bent = 10.0 ** rng.uniform(-8.3, -2, n), rng.dirichlet(np.ones(n))
        bent *= 0.6 * 10 ** rng.uniform(-1, 1)
        size, rest = 10 ** rng.uniform(-8, -5), rng.choice([0.0, 0.5])

        f = functools.partial(dying, list(zip(at, bent, strict=True)), size, rest)
        blamed += compare(f, size * rest / (1 + size) / 3).verdict == "fail"
        told += compare(f, -0.3 * size).verdict == "fail"
        told += compare(f, 5 * size).verdict == "fail"
    assert blamed <= 8
    assert told >= 780


@pytest.mark.parametrize("scale", [1.0, 1e-8])
@pytest.mark.parametrize("bend", [1.0, 30.0, 1e3])
def test_what_is_bent_is_no_kink(scale: float, bend: float) -> None:
    def f(t: float) -> float:
        return scale * (math.log1p(1e-3 * math.exp(bend * t)) + math.cos(3 * t))

    exact = scale * bend * 1e-3 / 1.001
    assert not slope(f).kink
    assert compare(f, exact).verdict == "ok"
    assert compare(f, 1.001 * exact).verdict == "fail"
