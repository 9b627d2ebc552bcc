"""Loss scaling: trajectories against torch.amp.GradScaler, bounds, state."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from gradwright.words.jsonable import from_json, to_json


def trajectory(torch, config, finite):
    """Return the scales of torch's scaler for steps whose gradients are finite or not."""
    scaler = torch.amp.GradScaler(
        "cpu",
        init_scale=config.initial,
        growth_factor=config.growth,
        backoff_factor=config.backoff,
        growth_interval=config.interval,
    )
    w = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], 0.1)
    found = []
    for i, good in enumerate(finite):
        optimizer.zero_grad()
        (scaler.scale(w.sum()) * 1.0).backward()
        if not good:
            w.grad[1] = float("inf") if i % 2 else float("nan")
        scaler.step(optimizer)
        scaler.update()
        found.append((scaler.get_scale(), scaler._get_growth_tracker()))
    return found


def ours(config, finite):
    scaler, found = gw.LossScaler(config), []
    for good in finite:
        scaler.update(bool(good))
        found.append((scaler.scale, scaler.good_steps))
    return found


def test_the_scale_doubles_after_a_window_and_halves_at_once():
    finite = [True, True, False, True, True, True, True, True, True, False]
    scales = [s for s, _ in ours(gw.LossScale(initial=8.0, interval=3), finite)]
    assert scales == [8, 8, 4, 4, 4, 8, 8, 8, 16, 8]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "config",
    [
        gw.LossScale(initial=2.0**16, interval=5),
        gw.LossScale(initial=3.0, growth=1.7, backoff=0.3, interval=2),
        gw.LossScale(initial=2.0**126, interval=1),
    ],
)
def test_trajectories_are_those_of_torch(torch, config, seed):
    finite = np.random.default_rng(seed).random(60) > (0.1, 0.2, 0.4, 0.02)[seed]
    assert ours(config, finite) == trajectory(torch, config, finite)


def test_growth_stops_at_what_float32_holds(torch):
    config = gw.LossScale(initial=2.0**125, interval=1)
    assert [s for s, _ in ours(config, [True] * 4)] == [2.0**126, 2.0**127, 2.0**127, 2.0**127]


def test_without_a_lower_bound_the_scale_vanishes_as_torchs_does(torch):
    config = gw.LossScale(initial=2.0**-140)
    assert ours(config, [False] * 12) == trajectory(torch, config, [False] * 12)
    assert ours(config, [False] * 12)[-1] == (0.0, 0)


def test_bounds_hold():
    low = gw.LossScale(initial=4.0, smallest=2.0, largest=8.0, interval=1)
    assert [s for s, _ in ours(low, [False, False, True, True, True])] == [2, 2, 4, 8, 8]


def test_static_and_none_do_not_move():
    assert ours(gw.LossScale("static", initial=128.0, interval=1), [True, False]) == [(128, 0)] * 2
    assert ours(gw.LossScale("none"), [True, False]) == [(1, 0)] * 2


def test_the_inverse_is_rounded_once(torch):
    for scale in (3.0, 65536.0, 1.7e-30, 2.0**127):
        scaler = gw.LossScaler(gw.LossScale(initial=scale))
        expected = torch.tensor(scaler.scale).double().reciprocal().float().item()
        assert scaler.inverse == expected


def test_state_goes_through_json_and_damage_is_refused():
    scaler = gw.LossScaler(gw.LossScale(initial=8.0, interval=3))
    for good in (True, True, True, True):
        scaler.update(good)
    other = gw.LossScaler(scaler.config)
    other.load_state_dict(json.loads(json.dumps(scaler.state_dict())))
    assert (other.scale, other.good_steps) == (16.0, 1)
    for damaged in ({"scale": 1.0}, {"scale": float("nan"), "good_steps": 0}):
        with pytest.raises(TrainingError, match="no state of a loss scale"):
            other.load_state_dict(damaged)
    assert (other.scale, other.good_steps) == (16.0, 1)


def test_configs_go_through_json():
    config = gw.LossScale("static", initial=3.0, smallest=1.0)
    assert from_json(json.loads(json.dumps(to_json(config)))) == config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "fast"}, "'fast' is not known"),
        ({"initial": 0.0}, "cannot begin"),
        ({"initial": float("nan")}, "cannot begin"),
        ({"growth": 1.0}, "would not follow"),
        ({"backoff": 1.0}, "would not follow"),
        ({"interval": 0}, "no number of steps"),
        ({"smallest": 2.0**17}, "not between its bounds"),
    ],
)
def test_senseless_settings_are_refused(settings, message):
    with pytest.raises(TrainingError, match=message):
        gw.LossScale(**settings)
