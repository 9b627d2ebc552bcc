"""The learning rate that falls on a plateau: beside torch's, with schedules, and resumed."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError


def scripted(*callbacks, **options):
    """Return a trainer whose loss is what it is fed with, whatever its rate."""
    g = gw.Graph()
    w, c = g.variable("w", (), init=0.0), g.placeholder("c", (), "float64")
    loss = c + gw.cast(w - gw.stop_gradient(w), "float64")
    options.setdefault("optimizer", gw.optim.SGD(0.5))
    return gw.Trainer(g, loss, callbacks=callbacks, **options)


def rates(trainer, losses, column="learning_rate"):
    """Train an epoch of one step on each loss; return the rates of the steps and the one next."""
    left = iter(losses)
    trainer.fit(lambda: iter([{"c": next(left)}]), epochs=len(losses), progress=False)
    return [*trainer.history.steps[column], trainer.optimizer.rate(trainer.steps_done)]


def plateaus():
    """Return losses that fall for a while, stand, tremble, and rise."""
    rng = np.random.default_rng(0)
    return [*np.linspace(3, 1, 6), *(1 + 0.01 * rng.standard_normal(14)), *np.linspace(0.9, 2, 12)]


SETTINGS = [
    {"patience": 2},
    {"patience": 0, "factor": 0.5, "cooldown": 3},
    {"patience": 1, "factor": 0.3, "min_lr": 0.02},
    {"patience": 1, "threshold": 0.02, "threshold_mode": "abs"},
    {"patience": 1, "threshold": 0.1, "mode": "max"},
    {"patience": 1, "threshold": 0.1, "threshold_mode": "abs", "mode": "max", "cooldown": 1},
    {"patience": 0, "factor": 0.1, "eps": 1e-3},
    {"patience": 3, "factor": 0.0},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_rates_are_those_of_torch(settings, sign, torch):
    losses = [sign * loss for loss in plateaus()]
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, **{"factor": 0.1, "mode": "min", **settings}
    )
    expected = [0.5]
    for loss in losses:
        theirs.step(loss)
        expected.append(optimizer.param_groups[0]["lr"])
    ours = gw.train.ReduceLROnPlateau("loss", **settings)
    found = rates(scripted(ours), losses)
    assert found == pytest.approx(expected, rel=1e-12)
    assert len(set(expected)) > 1 and ours.best == theirs.best


def test_no_plan_is_made_for_another_rate():
    trainer = scripted(gw.train.ReduceLROnPlateau("loss", patience=0))
    rates(trainer, [1.0] * 2)
    before = len(trainer.session.plans)
    assert len(set(rates(trainer, [1.0] * 8))) > 3
    assert len(trainer.session.plans) == before


def test_a_schedule_is_multiplied_as_a_whole():
    schedule = gw.schedules.Step(0.8, every=4, factor=0.5)
    plateau = gw.train.ReduceLROnPlateau("loss", factor=0.5, patience=1)
    trainer = scripted(plateau, optimizer=gw.optim.Adam(schedule))
    found = rates(trainer, [1.0] * 8)
    reduced = [0, 0, 0, 1, 1, 2, 2, 3, 3]  # after epochs 3, 5 and 7
    assert found == pytest.approx([schedule(s) * 0.5**n for s, n in enumerate(reduced)])
    assert trainer.optimizer.learning_rate == gw.schedules.Product((0.125, schedule))


def test_groups_with_optimizers_of_their_own_fall_too():
    g = gw.Graph()
    w, b = g.variable("w", (), init=1.0), g.variable("b", (), init=1.0)
    plateau = gw.train.ReduceLROnPlateau("loss", factor=0.1, patience=0, mode="max")
    trainer = gw.Trainer(
        g,
        w * w + b * b,
        optimizer=gw.optim.SGD(0.1),
        groups=[gw.Group("b", optimizer=gw.optim.Adam(0.05))],
        callbacks=[plateau],
    )
    history = trainer.fit([{}], epochs=3, progress=False)
    assert history.steps["learning_rate"] == pytest.approx([0.1, 0.1, 0.01])
    assert history.steps["learning_rate_1"] == pytest.approx([0.05, 0.05, 0.005])


@pytest.mark.parametrize("rate", [0.1, gw.schedules.Cosine(0.1, steps=60)], ids=["number", "plan"])
@pytest.mark.parametrize("cut", [3, 7, 10, 11])
def test_a_training_that_is_resumed_ends_with_the_same_bits(rate, cut, tmp_path):
    def training(folder):
        g = gw.Graph()
        x = g.placeholder("x", (None, 3))
        w = g.variable("w", (3,), init=[1.0, 2.0, -1.0])
        callbacks = [
            gw.train.ReduceLROnPlateau("loss", factor=0.7, patience=1, threshold=0.1, cooldown=1),
            gw.Checkpoints(folder, every_steps=1),
        ]
        loss = gw.mean((x @ w) ** 2.0 + 1.0)
        return gw.Trainer(g, loss, optimizer=gw.optim.Adam(rate), callbacks=callbacks)

    data = {"x": np.random.default_rng(1).standard_normal((8, 3)).astype(np.float32)}
    options = {"batch_size": 4, "progress": False}
    whole = training(tmp_path / "whole")
    whole.fit(data, epochs=12, **options)
    training(tmp_path / "cut").fit(data, steps=cut, **options)
    again = training(tmp_path / "cut")
    gw.resume(again, tmp_path / "cut")
    again.fit(data, steps=24 - cut, **options)
    for column in ("loss", "learning_rate"):
        expected = whole.history.steps[column].tolist()
        assert again.history.steps[column].tolist() == expected
    assert again.values["w"].tobytes() == whole.values["w"].tobytes()
    assert whole.callbacks[0].reductions == 2


def test_another_trainer_begins_afresh():
    plateau = gw.train.ReduceLROnPlateau("loss", patience=0)
    rates(scripted(plateau), [1.0, 1.0])
    assert plateau.reductions == 1
    rates(scripted(plateau), [5.0, 4.0])
    assert (plateau.reductions, plateau.best) == (0, 4.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"factor": 1.0}, "factor=1.0 reduces nothing"),
        ({"patience": -1}, "patience=-1 are no epochs"),
        ({"cooldown": 1.5}, "cooldown=1.5 are no epochs"),
        ({"threshold": -1e-4}, "threshold=-0.0001 is out of range"),
        ({"min_lr": float("nan")}, "min_lr=nan is out of range"),
        ({"threshold_mode": "relative"}, "threshold_mode='relative'"),
        ({"monitor": "style"}, "does not tell whether less is better"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, message):
    with pytest.raises(TrainingError, match=message):
        gw.train.ReduceLROnPlateau(**options)


def test_what_is_not_measured_is_named_with_what_is():
    trainer = scripted(gw.train.ReduceLROnPlateau())
    with pytest.raises(TrainingError, match=r"'val_loss', which is not measured(.|\n)*validation="):
        trainer.fit([{"c": 1.0}], progress=False)
