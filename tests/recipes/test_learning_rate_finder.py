"""The learning-rate range test: what it suggests, and that it leaves no trace."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import FeedError, TrainingError


def net(optimizer=None, callbacks=(), **options):
    """Return a trainer with momentum, dropout and a running mean: all that has state."""
    g = gw.Graph()
    x, t = g.placeholder("x", (None, 6)), g.placeholder("t", (None,), "int64")
    rng = np.random.default_rng(1)
    w = g.variable("w", init=rng.standard_normal((6, 12)).astype("float32") * 0.5)
    v = g.variable("v", init=rng.standard_normal((12, 3)).astype("float32") * 0.3)
    h = gw.nn.dropout(gw.nn.relu(x @ w), p=0.1)
    mean = g.variable("mean", (12,), trainable=False)
    g.update(mean, mean * 0.9 + gw.mean(h, axis=0) * 0.1)
    loss = gw.loss.sparse_softmax_cross_entropy(t, h @ v, name="loss")
    optimizer = optimizer or gw.optim.Adam(1e-3)
    return gw.Trainer(g, loss, optimizer, callbacks=callbacks, deterministic=True, **options)


def data(n=120):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((n, 6)).astype("float32")
    return {"x": x, "t": np.argmax(x[:, :3], 1)}


def everything(trainer):
    """Return all that a training is, as bytes."""
    state = {k: np.asarray(v).tobytes() for k, v in trainer.state_dict().items()}
    values = {f"value {n}": trainer.values[n].tobytes() for n in ("w", "v", "mean")}
    return {**state, **values, "config": repr(trainer.config), "feeds": trainer.last_feeds}


class Seen(gw.Callback):
    def __init__(self):
        self.steps = 0

    def on_step_end(self, trainer, record):
        self.steps += 1


@pytest.mark.parametrize("before", [0, 3])
@pytest.mark.parametrize("nonfinite", ["raise", "skip"])
def test_the_trainer_is_to_the_byte_what_it_was(before, nonfinite):
    seen = Seen()
    trainer = net(callbacks=[seen], nonfinite=nonfinite)
    trainer.fit(data(), epochs=1, steps=before, progress=False)
    history, was, steps = trainer.history, everything(trainer), seen.steps
    found = gw.train.find_learning_rate(trainer, data(), high=1e4, steps=40)
    assert everything(trainer) == was
    assert trainer.history is history and trainer.callbacks == (seen,) and seen.steps == steps
    assert 3 <= len(found.rates) <= 40


def test_and_trains_on_as_if_nothing_had_been():
    results = []
    for tested in (False, True):
        trainer = net()
        trainer.fit(data(), epochs=1, steps=2, progress=False)
        if tested:
            gw.train.find_learning_rate(trainer, data(), steps=20)
        trainer.fit(data(), epochs=2, progress=False)
        state = everything(trainer)
        results.append({k: v for k, v in state.items() if "seconds" not in k and k != "feeds"})
    assert results[0] == results[1]


def test_rates_grow_by_a_constant_factor_and_losses_are_of_the_steps():
    trainer = net(gw.optim.SGD(0.1))
    found = gw.train.find_learning_rate(trainer, data(), low=1e-4, high=1e-1, steps=31)
    np.testing.assert_allclose(found.rates, np.geomspace(1e-4, 1e-1, 31)[: len(found.rates)])
    plain = net(gw.optim.SGD(lambda step: float(np.geomspace(1e-4, 1e-1, 31)[step])))
    history = plain.fit(data(), epochs=8, steps=31, progress=False)
    np.testing.assert_allclose(found.losses, history.steps["loss"], rtol=1e-5)
    decades = np.log10(found.rates)
    for at, mean in zip(decades, found.smooth, strict=True):
        near = np.exp(-(((decades - at) / 0.5) ** 2) / 2)
        np.testing.assert_allclose(mean, np.average(found.losses, weights=near))


def test_the_suggestion_lies_where_a_quadratic_loss_falls():
    """SGD on w² multiplies w by 1 − 2·rate: it is best at rate 1/2 and diverges beyond 1."""
    g = gw.Graph()
    w = g.variable("w", (), init=1.0)
    trainer = gw.Trainer(g, w * w, gw.optim.SGD(0.1))
    found = gw.train.find_learning_rate(trainer, [{}], 1e-5, 100.0, 200, smoothing=0.05)
    assert 1e-3 < found.suggestion < 0.5
    assert 1.0 < found.rates[-1] < 100.0  # it ended when the loss exploded
    assert trainer.values["w"] == 1.0


def test_accumulated_batches_are_one_step():
    trainer = net(accumulation=2)
    was = everything(trainer)
    found = gw.train.find_learning_rate(trainer, data(), steps=10, high=0.1)
    assert len(found.rates) == 10 and everything(trainer) == was


def test_a_figure_and_a_text():
    found = gw.train.find_learning_rate(net(), data(), steps=20)
    assert len(found.plot().data) == 2
    assert found.plot().layout.xaxis.type == "log"
    assert "suggestion" in repr(found)


def test_what_makes_no_sense_is_refused_and_changes_nothing():
    trainer = net()
    for options in ({"low": 0.0}, {"low": 2.0, "high": 1.0}, {"steps": 2}, {"smoothing": 0.0}):
        with pytest.raises(TrainingError, match="make no sense"):
            gw.train.find_learning_rate(trainer, data(), **options)
    was = everything(trainer)
    bad = data()
    bad["x"][:] = np.nan
    with pytest.raises(TrainingError, match="finite in 0 steps"):
        gw.train.find_learning_rate(trainer, bad)
    assert everything(trainer) == was
    with pytest.raises(FeedError):
        gw.train.find_learning_rate(trainer, {"x": data()["x"]})
    assert everything(trainer) == was


def test_a_hard_first_batch_is_no_steep_fall():
    rows = data(480)
    labels = np.where(np.arange(480) < 8, (rows["t"] + 1) % 3, rows["t"])
    x = np.where(np.arange(480)[:, None] < 8, 4 * rows["x"], rows["x"])
    batches = [{"x": x[i : i + 8], "t": labels[i : i + 8]} for i in range(0, 480, 8)]
    found = gw.train.find_learning_rate(net(), batches, low=1e-6, high=1.0, steps=60)
    assert found.losses[0] > 2 * found.losses[1:10].max()
    assert found.suggestion > 1e-3


def digits(optimizer, seed):
    """Return a trainer of a small network on 16-dimensional clusters, with dropout."""
    g = gw.Graph()
    x, t = g.placeholder("x", (None, 16)), g.placeholder("t", (None,), "int64")
    w = g.variable("w", (16, 32), init=gw.init.he_normal(seed=1))
    v = g.variable("v", (32, 10), init=gw.init.xavier_uniform(seed=2))
    h = gw.nn.dropout(gw.nn.relu(x @ w), p=0.1)
    loss = gw.loss.sparse_softmax_cross_entropy(t, h @ v, name="loss")
    return gw.Trainer(g, loss, optimizer, seed=seed)


@pytest.mark.parametrize("optimizer", [gw.optim.Adam(1e-3), gw.optim.SGD(0.1)])
def test_the_suggestion_is_the_same_for_any_number_of_steps_and_order_of_the_data(optimizer):
    rng = np.random.default_rng(0)
    centres, labels = rng.random((10, 16)), rng.integers(0, 10, 1000)
    rows = (centres[labels] + 0.15 * rng.standard_normal((1000, 16))).astype("float32")
    found = [
        gw.train.find_learning_rate(
            digits(optimizer, seed), {"x": rows, "t": labels}, steps=steps, batch_size=16
        ).suggestion
        for steps in (50, 100, 300, 1000)
        for seed in range(4)
    ]
    middle = np.exp(np.mean(np.log(found)))
    assert max(found) < 3 * middle and min(found) > middle / 3
    trainer = digits(type(optimizer)(float(middle)), 0)
    trainer.fit({"x": rows, "t": labels}, epochs=3, batch_size=16, progress=False)
    assert trainer.evaluate({"x": rows, "t": labels})["loss"] < 0.8


@pytest.mark.parametrize("steps", [50, 300])
def test_a_loss_that_is_noise_gives_no_suggestion(steps):
    """Losses that are noise fall nowhere; that is said, and no rate is."""
    g = gw.Graph()
    x, w = g.placeholder("x", (None,)), g.variable("w", (), init=1.0)
    trainer = gw.Trainer(g, gw.mean(x) + 0.0 * w, gw.optim.SGD(0.1))
    noise = np.random.default_rng(3).standard_normal(steps * 8) + 5.0
    found = gw.train.find_learning_rate(trainer, {"x": noise}, steps=steps, batch_size=8)
    assert np.isnan(found.suggestion) and "noise" in found.reason
    assert "none, the loss falls by" in repr(found) and len(found.plot().layout.shapes) == 0


def test_a_loss_that_still_falls_at_the_highest_rate_is_said():
    found = gw.train.find_learning_rate(net(gw.optim.SGD(0.1)), data(), high=0.3)
    assert 0.01 < found.suggestion < 0.3 and "higher high=" in found.reason


def test_another_rate_is_no_other_plan():
    trainer, rows = net(), data(32)
    trainer.step(rows)
    held, step = len(trainer.session.plans), trainer.parts.taker.current()
    for rate in (0.1, 0.2, gw.schedules.Cosine(0.3, 10)):
        trainer.optimizer = gw.optim.Adam(rate)
        trainer.step(rows)
    assert len(trainer.session.plans) == held and trainer.parts.taker.current() is step
    trainer.optimizer = gw.optim.AdaMax(0.1)
    assert trainer.parts.taker.current() is not step
    with pytest.raises(TrainingError, match=r"learning.rate"):
        trainer.optimizer = gw.optim.Adam(-1.0)
        trainer.step(rows)
