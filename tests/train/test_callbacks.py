"""Callbacks that end a training, score it, watch update ratios, or are plain functions."""

from __future__ import annotations

import math
import time
import types

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from tests.support.lines import rows


def line(callbacks, **options):
    """Return a trainer of y = w·x + b with a mean squared error."""
    g = gw.Graph("line")
    x, t = g.placeholder("x", (None, 3)), g.placeholder("t", (None,))
    w, b = g.variable("w", (3,), init=[1.0, -1.0, 0.5]), g.variable("b", (), init=0.1)
    error = x @ w + b - t
    options.setdefault("optimizer", gw.optim.SGD(0.1))
    loss = gw.mean(error * error, name="loss")
    return gw.Trainer(g, loss, callbacks=callbacks, **options)


def fit(trainer, epochs=5, **options):
    options.setdefault("batch_size", 4)
    return trainer.fit(rows(), epochs=epochs, progress=False, **options)


# -- what ends a training --------------------------------------------------------------------------


def test_max_steps_counts_the_steps_of_earlier_fits():
    limit = gw.train.MaxSteps(7)
    trainer = line([limit])
    fit(trainer, epochs=1)
    assert (trainer.steps_done, limit.reason) == (5, "")
    fit(trainer)
    assert (trainer.steps_done, limit.reason) == (7, "7 steps are done")
    assert trainer.progress.outcome == "stopped"


def test_a_time_limit_ends_with_the_first_step_beyond_it():
    class Slow(gw.Callback):
        def on_step_end(self, trainer, record):
            time.sleep(0.02)

    limit = gw.train.TimeLimit(0.05)
    trainer = line([Slow(), limit])
    seconds = fit(trainer, epochs=1000).steps["seconds"]
    assert seconds[-1] >= 0.05 > max(seconds[:-1], default=0.0)
    assert limit.reason == "0.05 s have gone"


@pytest.mark.parametrize(("mode", "target", "epochs"), [(None, 0.05, None), ("max", 0.05, 1)])
def test_a_score_that_is_reached_ends_the_epoch(mode, target, epochs):
    reached = gw.train.ScoreReached("val_loss", target, mode=mode)
    trainer = line([reached])
    history = fit(trainer, epochs=100, validation=rows(seed=1))
    losses = history.epochs["val_loss"]
    if mode is None:
        assert losses[-1] <= target < losses[-2]
    else:
        assert len(losses) == epochs and losses[-1] >= target
    assert "has reached 0.05" in reached.reason


def test_a_score_that_is_not_measured_says_what_is():
    trainer = line([gw.train.ScoreReached("val_los", 0.1, mode="min")])
    with pytest.raises(TrainingError, match=r"'val_los', which is not measured") as caught:
        fit(trainer)
    assert caught.value.hint == "fit(validation=...)"
    with pytest.raises(TrainingError) as caught:
        fit(line([gw.train.ScoreReached("lss", 0.1, mode="min")]))
    assert caught.value.hint == "monitor='loss'"


def test_divergence_sees_a_loss_explode_long_before_it_overflows():
    watch = gw.train.Divergence(factor=10, after=5)
    trainer = line([watch], optimizer=gw.optim.SGD(1.5))
    history = fit(trainer, epochs=100)
    assert trainer.progress.outcome == "stopped" and "explodes" in watch.reason
    assert history.steps["loss"].max() < 1e6 and len(history.steps["loss"]) > 5


def test_divergence_leaves_a_training_that_converges_alone():
    watch = gw.train.Divergence(factor=3, after=0)
    trainer = line([watch])
    history = fit(trainer, epochs=200)
    assert watch.reason == "" and history.steps["loss"][-1] < 1e-4 * history.steps["loss"][0]


def test_divergence_counts_steps_that_were_skipped_in_a_row():
    g = gw.Graph()
    x, w = g.placeholder("x", ()), g.variable("w", (), init=1.0)
    watch = gw.train.Divergence(skips=3)
    trainer = gw.Trainer(g, w * x, nonfinite="skip", callbacks=[watch])
    steps = [math.nan, math.nan, 1.0, math.inf, math.nan, math.nan, 1.0]
    trainer.fit([{"x": x} for x in steps], progress=False)
    assert trainer.steps_done == 6 and watch.reason == "3 steps in a row were not finite"


@pytest.mark.parametrize(
    "make",
    [
        lambda: gw.train.MaxSteps(0),
        lambda: gw.train.TimeLimit(0),
        lambda: gw.train.ScoreReached("loss", math.nan),
        lambda: gw.train.Divergence(1.0),
        lambda: gw.train.Score(-1),
        lambda: gw.train.UpdateRatio(low=0, high=-1),
        lambda: gw.train.on_step(3),
        lambda: gw.train.on_step(print, every=0),
        lambda: gw.train.Profiler("x", steps=0),
        lambda: gw.train.SaveActivations("x", steps=[0]),
        lambda: gw.train.Reproduce("x", step=0),
    ],
)
def test_arguments_that_make_no_sense_are_refused(make):
    with pytest.raises(TrainingError):
        make()


def test_a_reason_is_forgotten_in_the_next_fit():
    limit = gw.train.MaxSteps(2)
    trainer = line([limit])
    fit(trainer)
    assert limit.reason
    limit.steps = 100
    fit(trainer, epochs=1)
    assert not limit.reason


# -- state -----------------------------------------------------------------------------------------


def test_early_stopping_goes_on_from_its_state():
    losses = [3.0, 1.0, 2.0, 2.0, 2.0, 2.0]

    def play(stopping, trainer, start, end):
        for epoch in range(start, end):
            trainer.values["b"] = np.float32(epoch)
            record = gw.train.Record(epoch, epoch + 1, {"loss": losses[epoch]}, 0.0)
            stopping.on_epoch_end(trainer, record)
            if stopping.reason:
                return epoch
        return None

    whole = gw.EarlyStopping("loss", patience=3)
    trainer = line([whole])
    assert play(whole, trainer, 0, 6) == 4
    first = gw.EarlyStopping("loss", patience=3)
    trainer = line([first])
    assert play(first, trainer, 0, 3) is None
    state = {name: np.asarray(value) for name, value in first.state_dict().items()}
    again = gw.EarlyStopping("loss", patience=3)
    again.load_state_dict(state)
    assert play(again, trainer, 3, 6) == 4
    assert (again.best, again.best_epoch, again.reason) == (1.0, 2, whole.reason)
    assert trainer.values["b"] == 1.0  # of the best epoch, which the first one saw


def test_divergence_goes_on_from_its_state():
    def step(watch, trainer, n, loss):
        record = gw.train.Record(n, 1, {"loss": loss, "grad_norm": 1.0}, 0.0)
        watch.on_step_end(trainer, record)

    trainer = line([])
    whole, first, again = (gw.train.Divergence(factor=2, after=3) for _ in range(3))
    for n, loss in enumerate([4.0, 2.0, 1.0, 1.0]):
        step(whole, trainer, n, loss)
        step(first, trainer, n, loss)
    again.load_state_dict(first.state_dict())
    for n, loss in enumerate([1.0, 40.0], 4):
        step(whole, trainer, n, loss)
        step(again, trainer, n, loss)
    assert whole.reason == again.reason != ""
    assert again.state_dict()["loss"].tobytes() == whole.state_dict()["loss"].tobytes()


def test_the_state_of_all_callbacks_is_arrays():
    ratio = gw.train.UpdateRatio(every=1, high=3.0)
    callbacks = [gw.EarlyStopping("loss"), gw.train.Divergence(), ratio, gw.train.MaxSteps(99)]
    trainer = line(callbacks)
    fit(trainer, epochs=2)
    for callback in callbacks:
        for value in callback.state_dict().values():
            assert isinstance(value, np.ndarray) and value.dtype.kind in "fiu"
    again = gw.train.UpdateRatio(every=1)
    again.load_state_dict(ratio.state_dict())
    assert {k: v.tobytes() for k, v in again.history.items()} == {
        k: v.tobytes() for k, v in ratio.history.items()
    }


# -- score -----------------------------------------------------------------------------------------


def test_score_says_a_line_every_n_steps_and_at_epochs():
    lines = []
    trainer = line([gw.train.Score(3, to=lines.append)], metrics={})
    history = fit(trainer, epochs=2)
    heads = [text.partition(":")[0] for text in lines]
    assert heads == ["step 3", "epoch 1", "step 6", "step 9", "epoch 2"]
    assert f"loss {history.steps['loss'][2]:.4g} |" in lines[0]
    assert "grad_norm" not in lines[0] and "examples/s" in lines[0]
    assert trainer.session.listeners == []


def test_score_tells_the_share_of_time_that_data_takes(monkeypatch):
    clock = [0.0]
    fake = types.SimpleNamespace(perf_counter=lambda: clock[0])
    for module in ("clock", "score"):
        monkeypatch.setattr(f"gradwright.train.callbacks.{module}.time", fake)

    class Slow(gw.Listener):  # a run takes a second
        def run_finished(self, event):
            clock[0] += 1.0

    def batches(n):
        for _ in range(n):
            clock[0] += 3.0  # and its data three
            yield {k: a[:4] for k, a in rows().items()}

    lines = []
    score = gw.train.Score(5, to=lines.append)
    trainer = line([score])
    trainer.session.listeners.append(Slow())
    trainer.fit(batches(5), validation=rows(), progress=False)
    assert lines[0].endswith("| 1 examples/s, 4e+03 ms a step, 75% of it for data")
    assert (score.data_share, score.examples_per_second) == (0.75, 1.0)
    trainer.fit(batches(5), validation=rows(), progress=False)
    assert lines[-2].endswith(lines[0].partition("|")[2])  # without the validation before


def test_score_counts_unrolled_steps_one_by_one():
    lines = []
    trainer = line([gw.train.Score(2, to=lines.append, epochs=False)])
    fit(trainer, epochs=1, unroll=4)
    assert [text.partition(":")[0] for text in lines] == ["step 2", "step 4"]


# -- update ratios ---------------------------------------------------------------------------------


def test_ratios_are_those_of_the_parameter_statistics():
    ratio = gw.train.UpdateRatio(every=2, high=3.0)
    statistics = gw.ParameterStatistics(every=2)
    fit(line([ratio, statistics]))
    for name in ("w", "b"):
        expected = statistics.history(name)
        np.testing.assert_allclose(10.0 ** ratio.history[name], expected["ratio"], rtol=1e-12)
        assert ratio.history["step"].tolist() == expected["step"].tolist()
    assert len(ratio.plot().data) == 2


def test_a_parameter_that_moves_too_far_is_warned_of_once():
    ratio = gw.train.UpdateRatio(every=1, high=-3.0, patience=2)
    with pytest.warns(UserWarning, match="'[wb]' moves by .* smaller learning") as caught:
        fit(line([ratio]))
    assert sum("'w'" in str(w.message) for w in caught) == 1
    assert ratio.outside["w"] > -3.0


def test_ratios_leave_the_numbers_of_a_training_alone():
    def final(callbacks):
        g = gw.Graph()
        x, t = g.placeholder("x", (None, 3)), g.placeholder("t", (None,))
        error = x @ g.variable("w", (3,), init=[1.0, -1.0, 0.5]) - t
        session = gw.Session(g, deterministic=True)
        trainer = gw.Trainer(g, gw.mean(error * error), callbacks=callbacks, session=session)
        fit(trainer)
        return trainer.values["w"].tobytes()

    plain = final([])
    assert final([gw.train.UpdateRatio(every=1, high=3.0, low=-9.0)]) == plain
    assert final([gw.train.Score(1, to=lambda text: None)]) == plain


def test_frozen_parameters_are_not_warned_of():
    ratio = gw.train.UpdateRatio(every=1, low=-9.0, high=9.0, patience=1)
    trainer = line([ratio])
    trainer.graph["b"].trainable = False
    fit(trainer, epochs=1)
    assert set(ratio.history["b"].tolist()) == {-math.inf} and ratio.outside == {}


# -- plain functions -------------------------------------------------------------------------------


def test_functions_are_called_every_so_many_steps_and_epochs():
    seen = []
    fit(
        line(
            [
                gw.train.on_step(lambda t, record: seen.append(("step", record.step)), every=4),
                gw.train.on_epoch(lambda t, record: seen.append(("epoch", record.epoch)), every=2),
            ]
        ),
        epochs=2,
    )
    assert seen == [("step", 4), ("step", 8), ("epoch", 2)]


def test_an_error_in_a_function_ends_the_fit_with_it():
    def broken(trainer, record):
        raise ZeroDivisionError("mine")

    trainer = line([gw.train.on_step(broken)])
    with pytest.raises(ZeroDivisionError, match="mine"):
        fit(trainer)
    assert trainer.status == "idle" and trainer.steps_done == 1


# -- names that nobody would call ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("on_epoch_ends", "on_epoch_end"),
        ("on_step_ended", "on_step_end"),
        ("on_fit_strat", "on_fit_start"),
        ("on_train_begin", "on_fit_start"),
        ("on_train_batch_end", "on_step_end"),
    ],
)
def test_a_misspelt_hook_is_refused_where_it_is_written(name, meant):
    with pytest.raises(TypeError, match=rf"Mine\.{name} would never be called.*'{meant}'"):
        type("Mine", (gw.Callback,), {name: lambda self, trainer: None})


def test_other_methods_may_be_called_as_one_likes():
    class Mine(gw.Callback):
        def on_button(self):
            return 3

        def on_step_end(self, trainer, record):
            self.seen = record.step

    assert Mine().on_button() == 3
