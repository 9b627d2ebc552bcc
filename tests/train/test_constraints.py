"""Constraints on weights, beside Keras's semantics written out in numpy."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError


def max_norm(w, m=2.0, axis=0):
    """keras.constraints.MaxNorm: w·clip(‖w‖, 0, m)/(1e-7 + ‖w‖)."""
    norms = np.sqrt(np.sum(np.square(w), axis=axis, keepdims=True))
    return w * (np.clip(norms, 0, m) / (1e-7 + norms))


def unit_norm(w, axis=0):
    """keras.constraints.UnitNorm: w/(1e-7 + ‖w‖)."""
    return w / (1e-7 + np.sqrt(np.sum(np.square(w), axis=axis, keepdims=True)))


def non_neg(w):
    """keras.constraints.NonNeg: w·[w ≥ 0]."""
    return w * (w >= 0.0)


THEIRS = [
    (gw.constraints.MaxNorm(), max_norm),
    (gw.constraints.MaxNorm(0.5, axis=1), lambda w: max_norm(w, 0.5, 1)),
    (gw.constraints.MaxNorm(1.5, axis=(0, 1)), lambda w: max_norm(w, 1.5, (0, 1))),
    (gw.constraints.UnitNorm(), unit_norm),
    (gw.constraints.UnitNorm(axis=-1), lambda w: unit_norm(w, -1)),
    (gw.constraints.NonNegative(), non_neg),
]


@pytest.mark.parametrize(("constraint", "theirs"), THEIRS, ids=[str(c) for c, _ in THEIRS])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_are_those_of_keras_after_each_update(constraint, theirs, dtype):
    rng = np.random.default_rng(0)
    first, slope = rng.standard_normal((2, 4, 3))
    first[:, 1] = slope[:, 1] = 0.0  # a norm of 0
    g = gw.Graph()
    w, b = g.variable("w", init=first.astype(dtype)), g.variable("b", init=first.astype(dtype))
    trainer = gw.Trainer(
        g,
        (slope.astype(dtype) * (w + b)).sum(),
        optimizer=gw.optim.SGD(0.7),
        constraints={"w": constraint},
    )
    held, free = (first.astype(dtype).astype(np.float64) for _ in range(2))
    for _ in range(3):
        trainer.step({})
        held, free = theirs(held - 0.7 * slope), free - 0.7 * slope
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(trainer.values["w"], held, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(trainer.values["b"], free, rtol=tolerance, atol=tolerance)
    assert np.isfinite(trainer.values["w"]).all() and not np.allclose(held, free)


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": gw.optim.AdamW(0.3, weight_decay=0.1)},
        {"optimizer": gw.optim.SGD(0.3, momentum=0.9), "weight_decay": 0.2, "clip_norm": 1.0},
        {"accumulation": 2, "optimizer": gw.optim.Adam(0.3)},
        {"precision": "bfloat16", "optimizer": gw.optim.Adam(0.3)},
        {"groups": [gw.Group("out/*", optimizer=gw.optim.Lion(0.1))]},
    ],
    ids=lambda options: ", ".join(options),
)
@pytest.mark.parametrize("unroll", [1, 2])
def test_bounds_hold_whatever_else_is_part_of_a_step(options, unroll):
    rng = np.random.default_rng(1)
    g = gw.Graph()
    x = g.placeholder("x", (None, 5))
    for scope in ("in", "out"):
        with g.scope(scope):
            w = g.variable("w", (5, 5), init=gw.init.normal(seed=len(scope)))
            x = gw.tanh(x @ w)
    loss = -gw.mean(x * x)  # which makes weights grow
    bound = {"*/w": gw.constraints.MaxNorm(0.8)}
    trainer = gw.Trainer(g, loss, constraints=bound, **options)
    data = {"x": rng.standard_normal((16, 5)).astype(np.float32)}
    trainer.fit(data, batch_size=4, epochs=3, unroll=unroll, progress=False)
    for name in ("in/w", "out/w"):
        norms = np.linalg.norm(trainer.values[name], axis=0)
        assert (norms <= 0.8 * (1 + 1e-5)).all() and norms.min() > 0.01


def test_a_step_that_is_skipped_constrains_nothing():
    g = gw.Graph()
    x, w = g.placeholder("x", ()), g.variable("w", (2,), init=[-1.0, 3.0])
    trainer = gw.Trainer(
        g, (w * x).sum(), nonfinite="skip", constraints={"w": gw.constraints.NonNegative()}
    )
    trainer.step({"x": np.nan})
    assert trainer.values["w"].tolist() == [-1.0, 3.0]


def test_half_precision_parameters_are_bounded_in_their_own_dtype():
    g = gw.Graph()
    w = g.variable("w", (300,), init=np.ones(300), dtype="bfloat16")
    loss = gw.cast(w, "float32").sum()
    trainer = gw.Trainer(
        g, loss, optimizer=gw.optim.SGD(0.0), constraints={"w": gw.constraints.UnitNorm()}
    )
    trainer.step({})
    found = trainer.values["w"]
    assert found.dtype == w.dtype
    np.testing.assert_allclose(found.astype(np.float32), 300**-0.5, rtol=2**-8)


def test_settings_with_constraints_are_json():
    bounds = {"a/*": gw.constraints.MaxNorm(1.0, axis=(0, 1)), "b": gw.constraints.NonNegative()}
    config = gw.TrainingConfig(constraints=bounds)
    assert gw.TrainingConfig.from_json(config.to_json()) == config
    assert config.but(constraints={}).differences(config)


def test_they_may_change_between_two_steps():
    g = gw.Graph()
    w = g.variable("w", (), init=1.0)
    trainer = gw.Trainer(g, w * 1.0, optimizer=gw.optim.SGD(1.0))
    trainer.fit([{}, {}], progress=False)
    assert trainer.values["w"] == -1.0
    trainer.config = trainer.config.but(constraints={"w": gw.constraints.NonNegative()})
    trainer.step({})
    assert trainer.values["w"] == 0.0


def graph():
    g = gw.Graph()
    w, b = g.variable("w", (2,), init=[1.0, 2.0]), g.variable("b", (2,), init=[1.0, 2.0])
    return g, (w * w + b).sum()


class Cuts(gw.constraints.Constraint):
    def __call__(self, w):
        return w[:1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"constraints": {"w": 2.0}}, r"constraints\['w'\]=2.0 is none(.|\n)*MaxNorm"),
        ({"constraints": gw.constraints.UnitNorm()}, r"constraints is a UnitNorm(.|\n)*a dict"),
        ({"lr_multipliers": [0.1]}, r"lr_multipliers is a list(.|\n)*a dict by name"),
        ({"constraints": {"x": gw.constraints.UnitNorm()}}, "no variable fits 'x'"),
        (
            {"constraints": {"w": gw.constraints.UnitNorm(), "*": gw.constraints.NonNegative()}},
            r"'w' has two constraints(.|\n)*'w' and '\*' fit it",
        ),
        ({"constraints": {"w": Cuts()}}, r"makes f32\[1\] of 'w'(.|\n)*f32\[2\]"),
        (
            {
                "constraints": {"w": gw.constraints.UnitNorm()},
                "optimizer": gw.optim.ScheduleFreeAdamW(0.1),
            },
            "'w' has a constraint, and ScheduleFreeAdamW moves it between two points",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(options, message):
    g, loss = graph()
    with pytest.raises(TrainingError, match=message):
        gw.Trainer(g, loss, **options).step({})
    assert g.values["w"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: gw.constraints.MaxNorm(0.0),
        lambda: gw.constraints.MaxNorm(float("inf")),
        lambda: gw.constraints.MaxNorm(axis=0.5),
        lambda: gw.constraints.UnitNorm(axis=()),
    ],
)
def test_numbers_out_of_range_are_refused(make):
    with pytest.raises(TrainingError, match=r"is no bound|are no axes"):
        make()
