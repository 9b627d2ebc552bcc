"""The trainer panel without a browser: states, single steps, rates, errors, threads."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from gradwright_widgets import TrainerPanel
from tests.support.panels import PATIENCE, wait_for


def data():
    rng = np.random.default_rng(5)
    return {"x": rng.standard_normal((20, 6)).astype("float32"), "t": rng.integers(0, 3, 20)}


def net(schedule=0.05, **options):
    """Return a trainer with momentum, dropout and a running mean."""
    g = gw.Graph("net")
    x, t = g.placeholder("x", (None, 6)), g.placeholder("t", (None,), "int64")
    rng = np.random.default_rng(1)
    w = g.variable("w", init=rng.standard_normal((6, 3)).astype("float32"))
    h = gw.nn.dropout(x @ w, p=0.3)
    mean = g.variable("mean", (3,), trainable=False)
    g.update(mean, mean * 0.9 + gw.mean(h, axis=0) * 0.1)
    gw.loss.sparse_softmax_cross_entropy(t, h, name="loss")
    return gw.Trainer(g, "loss", optimizer=gw.optim.AdamW(schedule), seed=4, **options)


def numbers(trainer):
    state = {k: v for k, v in trainer.state_dict().items() if not k.endswith("seconds")}
    values = {n: trainer.values[n] for n in ("w", "mean")}
    return {k: np.asarray(v).tobytes() for k, v in {**state, **values}.items()}


def panel_of(trainer, rows=None, **options):
    return TrainerPanel(trainer, data() if rows is None else rows, batch_size=8, **options)


@pytest.fixture
def endless():
    """Return a panel whose training runs until it is stopped."""
    panel = panel_of(net(), epochs=1_000_000)
    yield panel
    panel.close()


def press(panel, kind, **facts):
    panel._receive(panel, {"kind": kind, **facts}, [])


# -- start, pause, step, stop ----------------------------------------------------------------------


def test_started_from_the_panel_is_as_fitted():
    plain = net(deterministic=True)
    plain.fit(data(), epochs=3, batch_size=8, validation=data(), progress=False)
    panel = panel_of(net(deterministic=True), validation=data(), epochs=3)
    states = []
    panel.observe(lambda change: states.append(change["new"]), "state")
    press(panel, "training.start")
    panel.wait(PATIENCE)
    assert numbers(panel.trainer) == numbers(plain)
    assert states == ["running", "finished"]
    facts = panel.training
    assert (facts["step"], facts["steps"], facts["total"]) == (9, 9, 9)
    assert (facts["epoch"], facts["epochs"], facts["here"], facts["left"]) == (3, 3, True, 0.0)
    assert panel.points("loss", "validation")[0] == [3, 6, 9]


def test_paused_stepped_and_resumed_is_as_fitted():
    plain = net(deterministic=True)
    plain.fit(data(), epochs=3, batch_size=8, progress=False)
    trainer = net(deterministic=True)
    panel = panel_of(trainer, epochs=3)
    for step in range(2):  # from idle
        press(panel, "training.step")
        panel.wait(PATIENCE)
        assert (panel.state, trainer.steps_done, trainer.status) == ("stopped", step + 1, "idle")

    class Pause(gw.Callback):
        def on_step_end(self, trainer, record):
            if record.step == 4:
                press(panel, "training.pause")

    trainer.add_callback(Pause())
    panel.start()
    wait_for(lambda: panel.state == "paused")
    for step in range(5, 8):  # while paused, over the end of an epoch
        panel.step_once()
        wait_for(lambda step=step: trainer.steps_done == step and panel.state == "paused")
    press(panel, "training.resume")
    panel.wait(PATIENCE)
    assert (panel.state, trainer.epochs_done) == ("finished", 3)
    assert numbers(trainer) == numbers(plain)


def test_stopped_and_started_again_goes_on(endless):
    trainer = endless.trainer
    endless.start()
    wait_for(lambda: trainer.steps_done > 5)
    press(endless, "training.stop")
    endless.wait(PATIENCE)
    done = trainer.steps_done
    assert (endless.state, endless.training["step"]) == ("stopped", done)
    endless.start()
    wait_for(lambda: trainer.steps_done > done)
    endless.pause()
    wait_for(lambda: endless.state == "paused")
    endless.stop()
    endless.wait(PATIENCE)
    assert endless.state == "stopped"


def test_who_is_told_of_an_end_can_train(endless):
    seen, trainer = [], endless.trainer
    endless.observe(lambda change: seen.append((change["new"], trainer.status)), "state")
    press(endless, "training.start")
    wait_for(lambda: trainer.steps_done > 5)
    press(endless, "training.stop")
    endless.wait(PATIENCE)
    assert seen == [("running", "running"), ("stopped", "idle")]


def test_pause_takes_effect_between_two_steps(endless):
    trainer = endless.trainer
    endless.start()
    wait_for(lambda: trainer.steps_done > 3)
    press(endless, "training.pause")
    wait_for(lambda: endless.state == "paused")
    held, done = numbers(trainer), trainer.steps_done
    time.sleep(0.05)
    assert numbers(trainer) == held
    assert endless.training["step"] == done
    assert trainer.history.steps.rows == done


def test_code_drives_and_the_panel_follows(endless):
    trainer = endless.trainer
    thread = threading.Thread(
        target=lambda: trainer.fit(data(), epochs=1_000_000, batch_size=8, progress=False)
    )
    thread.start()
    wait_for(lambda: endless.state == "running" and trainer.steps_done > 2)
    assert endless.training["here"] is False
    trainer.pause(wait=True)
    wait_for(lambda: endless.state == "paused")
    trainer.resume(steps=2, wait=True)
    wait_for(lambda: endless.training["step"] == trainer.steps_done)
    with pytest.raises(TrainingError, match="the trainer is running already"):
        trainer.resume()
        endless.step_once()
    press(endless, "training.start")
    assert "the trainer is running already" in endless.message
    endless.stop()
    thread.join(PATIENCE)
    assert endless.state == "stopped"


def test_what_cannot_be_done_is_said():
    panel = TrainerPanel(net())
    for call in (panel.start, panel.step_once):
        with pytest.raises(TrainingError, match="no data to train on"):
            call()
    press(panel, "training.start")
    assert "there is no data to train on here" in panel.message
    for call in (panel.pause, panel.resume, panel.stop):
        call()
    assert panel.state == "idle"
    with pytest.raises(TypeError, match=r"controls a gradwright\.Trainer"):
        TrainerPanel(gw.Graph())
    with pytest.raises(TypeError, match="did you mean 'epochs'"):
        TrainerPanel(net(), epoch=3)


# -- errors ----------------------------------------------------------------------------------------


def test_a_failing_step_is_told_and_the_panel_stays_usable():
    broken = data()
    broken["x"][:] = np.nan
    trainer = net()
    panel = panel_of(trainer, broken)
    panel.start()
    panel.wait(PATIENCE)
    assert panel.state == "failed"
    assert "placeholder 'x' is not finite" in panel.message
    assert panel.training["error"].startswith("TrainingError: step 1")
    broken["x"][:] = 0.5
    panel.start(epochs=2)
    panel.wait(PATIENCE)
    assert (panel.state, panel.message, panel.epochs) == ("finished", "", 2)


def test_a_fit_that_never_begins_is_told():
    trainer = net()
    panel = panel_of(trainer, {"x": data()["x"]})
    panel.start()
    panel.wait(PATIENCE)
    wait_for(lambda: "placeholder 't' is not fed" in panel.message)
    assert (panel.state, trainer.status) == ("failed", "idle")
    trainer.fit(data(), batch_size=8, progress=False)
    assert (panel.state, panel.message) == ("finished", "")


def test_an_error_of_code_is_told():
    trainer = net()
    panel = panel_of(trainer)
    broken = {**data(), "x": data()["x"] * np.float32("nan")}
    with pytest.raises(TrainingError):
        trainer.fit(broken, batch_size=8, progress=False)
    assert panel.state == "failed"
    assert "placeholder 'x' is not finite" in panel.message


# -- learning rate ---------------------------------------------------------------------------------


def test_the_learning_rate_counts_from_the_next_step(endless):
    trainer = endless.trainer
    endless.start()
    wait_for(lambda: trainer.steps_done > 3)
    press(endless, "rate.set", value=0.001)
    wait_for(lambda: trainer.history.steps["learning_rate"][-1] == 0.001)
    endless.pause()
    wait_for(lambda: endless.state == "paused")
    endless.set_learning_rate(0.25)  # at once
    assert endless.training["rate"] == trainer.optimizer.learning_rate == 0.25
    rates = trainer.history.steps["learning_rate"]
    change = np.flatnonzero(np.diff(rates))
    assert len(change) == 1
    assert set(rates.tolist()) == {0.05, 0.001}
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(TrainingError, match="learning rate cannot be"):
            endless.set_learning_rate(wrong)


def test_a_schedule_is_put_aside_and_comes_back():
    schedule = gw.schedules.Cosine(0.1, steps=100, warmup=9)
    trainer = net(schedule)
    panel = panel_of(trainer, epochs=1)
    assert panel.training["rate"] == pytest.approx(0.01)
    assert panel.training["schedule"].startswith("Cosine(peak=0.1")
    panel.step_once()
    panel.wait(PATIENCE)
    assert panel.training["rate"] == pytest.approx(0.02)
    press(panel, "rate.set", value=0.5)
    panel.set_learning_rate(0.4)
    assert (panel.training["schedule"], panel.training["rate"]) == ("", 0.4)
    assert panel.training["aside"].startswith("Cosine(")
    press(panel, "rate.set")
    assert trainer.optimizer.learning_rate is schedule
    assert panel.training["aside"] == ""
    panel.back_to_schedule()
    assert trainer.optimizer.learning_rate is schedule


def test_a_schedule_that_fails_leaves_the_panel_alone():
    def schedule(step):
        if step > 1:
            raise ZeroDivisionError
        return 0.1

    panel = panel_of(net(schedule), epochs=1)
    panel.start()
    panel.wait(PATIENCE)
    assert (panel.state, panel.training["rate"]) == ("failed", None)
    assert panel.training["schedule"] == "schedule"


# -- what it leaves behind -------------------------------------------------------------------------


def test_closing_ends_the_training_and_its_thread():
    for paused in (False, True):
        panel = panel_of(net(), epochs=1_000_000)
        trainer = panel.trainer
        panel.start()
        wait_for(lambda trainer=trainer: trainer.steps_done > 2)
        if paused:
            panel.pause()
            wait_for(lambda panel=panel: panel.state == "paused")
        panel.close()
        assert trainer.status == "idle"
        assert not [t for t in threading.enumerate() if t.name == "gradwright training"]
        trainer.fit(data(), batch_size=8, steps=1, progress=False)


def test_closing_at_once_starts_nothing():
    for _ in range(20):
        panel = panel_of(net(), epochs=1_000_000)
        panel.start()
        panel.close()
        assert panel.trainer.status == "idle"


def test_closing_leaves_the_training_of_code_alone():
    trainer = net()
    panel = panel_of(trainer)

    class Close(gw.Callback):
        def on_step_end(self, trainer, record):
            if record.step == 2:
                panel.close()

    trainer.add_callback(Close())
    trainer.fit(data(), epochs=2, batch_size=8, progress=False)
    assert trainer.steps_done == 6


def test_a_trainer_keeps_no_panel_alive():
    trainer = net()
    panel = panel_of(trainer, epochs=1)
    panel.start()
    panel.wait(PATIENCE)
    panel.close()
    gone = weakref.ref(panel)
    del panel
    wait_for(lambda: gc.collect() >= 0 and gone() is None)  # a cancelled timer takes its time
    trainer.fit(data(), batch_size=8, progress=False)


def test_commands_of_a_paused_training_run_at_once(endless):
    ran = []
    endless.start()
    wait_for(lambda: endless.trainer.steps_done > 2)
    endless.pause()
    endless.commands.submit(lambda: ran.append(1))  # before the pause, at it, or after it
    wait_for(lambda: endless.state == "paused" and ran)


def test_reports_are_few(monkeypatch):
    panel = panel_of(net(), epochs=200)
    sent = []
    monkeypatch.setattr(panel, "send_state", lambda key=None: sent.append(key))
    panel.start()
    panel.wait(PATIENCE)
    assert panel.trainer.steps_done == 600
    assert len(sent) <= 8 + 5 * panel.trainer.history.seconds


def test_the_saved_page_shows_the_state(tmp_path):
    panel = panel_of(net(), epochs=2)
    panel.start()
    panel.wait(PATIENCE)
    page = panel.to_html()
    assert '"state": "finished"' in page
    assert panel.to_svg().startswith("<svg ")
    assert "loss" in panel.to_table()


def test_what_start_trains_is_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADWRIGHT_RUNS", str(tmp_path))
    trainer = net()
    panel = panel_of(trainer, epochs=2)
    panel.step_once()
    panel.wait()
    assert not list(tmp_path.iterdir()) and panel.training["run"] == "", "a step begins no run"
    for epochs in (2, 3):
        panel.start(epochs)
        panel.wait()
    found = gw.runs(tmp_path)
    assert [Path(run.folder).name for run in found] == [Path(panel.training["run"]).name]
    assert (found[0].status, found[0].steps) == ("finished", trainer.steps_done)
    assert not [c for c in trainer.callbacks if isinstance(c, gw.Run)], "cells record as they say"
    panel.close()


def test_recording_can_be_off_and_is_left_to_a_run_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADWRIGHT_RUNS", str(tmp_path / "default"))
    trainer = net()
    panel = panel_of(trainer, epochs=1, record=False)
    panel.start()
    panel.wait()
    panel.record = True
    trainer.add_callback(gw.Run(tmp_path / "own", store=None))
    panel.start(2)
    panel.wait()
    assert not (tmp_path / "default").exists() and (tmp_path / "own/events.jsonl").is_file()
    panel.close()


def test_a_run_that_cannot_be_written_ends_no_training(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GRADWRIGHT_RUNS", str(tmp_path / "file"))
    trainer = net()
    panel = panel_of(trainer, epochs=1)
    panel.start()
    panel.wait()
    assert panel.state == "finished" and "cannot be made" in panel.message
    panel.close()
