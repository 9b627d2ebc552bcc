"""The trainer panel beside plain steps: windows, scales, averages, schedules, checkpoints."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from gradwright_widgets import TrainerPanel
from gradwright_widgets.panels.training.checkpoints import CheckpointPanel
from gradwright_widgets.panels.training.facts import LastSkip, methods
from gradwright_widgets.panels.training.panel import TrainPanel
from gradwright_widgets.panels.training.rate import MOST, RatePanel, sampled
from tests.support.panels import EVIL, PATIENCE, sent, wait_for


def data(n=32):
    rng = np.random.default_rng(3)
    return {"x": rng.standard_normal((n, 4)).astype("f4"), "t": rng.integers(0, 3, n)}


def trainer(rate=0.1, **options):
    g = gw.Graph("net")
    x, t = g.placeholder("x", (None, 4)), g.placeholder("t", (None,), "int64")
    w = g.variable("w", (4, 3), init=gw.init.he_normal(seed=0))
    gw.loss.sparse_softmax_cross_entropy(t, x @ w, name="loss")
    optimizer = rate if isinstance(rate, gw.optim.Optimizer) else gw.optim.SGD(rate)
    return gw.Trainer(g, "loss", optimizer=optimizer, **options)


def panel_of(made, **options):
    return TrainerPanel(made, options.pop("rows", data()), batch_size=8, **options)


def press(panel, kind, **facts):
    panel._receive(panel, {"kind": kind, "id": 1, **facts}, [])


# -- what a training does beside plain steps -------------------------------------------------------


def test_nothing_is_told_that_is_off():
    made = trainer()
    assert methods(made, LastSkip()) == {}
    panel = panel_of(made)
    assert panel.checkpoint_list == {} and panel.schedule_points() == ([], [])


def test_all_that_is_on_is_told():
    made = trainer(
        accumulation=2, precision="float16", fp8=True, ema=gw.EMA(0.9), swa=gw.SWA(start=3),
        clip_norm=1.0, clip_tensor_norm=2.0, clip_value=0.5,
    )  # fmt: skip
    panel = panel_of(made, epochs=2)
    panel.start()
    panel.wait(PATIENCE)
    facts = panel.training
    assert made.steps_done == 4 and facts["window"] == [0, 2]
    assert facts["averages"] == {"ema": 4, "swa": 2} and facts["evaluated"] == ""
    assert facts["scale"] == [65536.0, "dynamic"] and "skipped" not in facts
    assert facts["precision"][0] == "float16 + fp8"
    assert facts["precision"][1].count(".") == 2 and "E4M3 and E5M2" in facts["precision"][1]
    assert facts["clipping"] == "norm ≤ 1, each norm ≤ 2, elements ≤ 0.5"
    json.dumps(facts, allow_nan=False)


def test_a_window_is_followed_between_updates(monkeypatch):
    monkeypatch.setattr("gradwright_widgets.panels.training.panel.TICK", 0.01)
    go_on, seen = threading.Event(), []

    def batches():
        rows = data()
        for i in range(4):
            yield {name: array[8 * i : 8 * i + 8] for name, array in rows.items()}
            if i == 2:
                assert go_on.wait(PATIENCE)

    class Batches:
        def __iter__(self):
            return batches()

    made = trainer(accumulation=4)
    panel = TrainerPanel(made, Batches(), epochs=1)
    panel.observe(lambda change: seen.append(change["new"]["window"]), "training")
    panel.start()
    wait_for(lambda: [3, 4] in seen)
    go_on.set()
    panel.wait(PATIENCE)
    assert panel.training["window"] == [0, 4] and made.steps_done == 1
    panel.close()
    assert not panel.part(TrainPanel)._ticking.busy


def test_skipped_steps_and_when_the_last_one_was():
    made = trainer(nonfinite="skip")
    rows = data()
    rows["x"][[9, 20]] = np.inf
    panel = panel_of(made, rows=rows, epochs=1)
    with np.errstate(all="ignore"):
        made.fit(rows, batch_size=8, shuffle=False, progress=False)
    assert panel.training["skipped"] == [2, 3]


def test_the_loss_scale_has_a_curve_on_demand():
    made = trainer(precision="float16")
    panel = panel_of(made)
    made.fit(data(), batch_size=8, progress=False)
    assert ("loss_scale", "step") not in panel.curves
    panel.metrics = ["loss", "loss_scale"]
    assert panel.points("loss_scale", "step")[1] == [65536.0] * 4


def test_validation_sees_the_average_that_is_chosen():
    made = trainer(0.5, ema=gw.EMA(0.9))
    panel = panel_of(made, validation=data(), epochs=1)
    press(panel, "training.evaluate", weights="ema")
    assert panel.training["evaluated"] == "ema" and made.config.validate_with == "ema"
    panel.start()
    panel.wait(PATIENCE)
    averaged = made.evaluate(data(), weights="ema")["loss"]
    assert made.history.epochs["val_loss"][-1] == pytest.approx(averaged, rel=1e-6)
    assert abs(averaged - made.evaluate(data(), weights="trained")["loss"]) > 1e-3
    press(panel, "training.evaluate", weights="")
    assert made.config.validate_with is None
    for wrong in ("swa", EVIL, ["ema"], 3):
        press(panel, "training.evaluate", weights=wrong)
        assert "no average that is kept" in panel.message and made.config.validate_with is None


# -- the schedule ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schedule",
    [
        gw.schedules.Cosine(0.1, steps=5000, warmup=50),
        gw.schedules.Step(0.1, every=3, factor=0.5).per_epoch(4),
        gw.schedules.Linear(0.1, steps=10).then(gw.schedules.Constant(0.01), at=10) * 2.0,
        lambda step: 0.1 / (1 + step),
    ],
)
def test_a_schedule_is_sampled_as_it_is(schedule):
    panel = panel_of(trainer(schedule))
    x, y = panel.schedule_points()
    assert x[0] == 0 and len(x) <= MOST and x == sorted(set(x))
    assert y == [float(schedule(step)) for step in x]
    assert x[-1] + 1 == max(getattr(schedule, "span", lambda: 0)(), 4 * panel.epochs)


def test_a_schedule_is_sent_once_for_each_change(monkeypatch):
    made = trainer(gw.schedules.Cosine(0.1, steps=8))
    panel = panel_of(made, epochs=1)
    messages = sent(panel, monkeypatch)

    def told():
        found = [(c, b) for c, b in messages if c["kind"] == "rate.schedule"]
        messages.clear()
        return found

    made.fit(data(), epochs=2, batch_size=8, progress=False)
    assert len(told()) == 1  # the fit came to its end: twice as many steps are shown
    for _ in range(8):
        assert not told()
        made.step(data())
        panel.refresh()
    [(content, (x, y))] = told()
    assert len(x) == len(y) == 8 * 32 and content["name"].startswith("Cosine(")
    panel.set_learning_rate(0.5)
    assert not told(), "the schedule that is put aside stays"
    made.optimizer.learning_rate, panel.part(RatePanel)._schedule = 0.5, None
    panel.refresh()
    assert told()[0][0]["name"] == ""


def test_a_schedule_that_fails_leaves_gaps():
    def schedule(step):
        if step > 2:
            raise KeyError(EVIL)
        return {0: 0.5, 1: float("nan"), 2: 0.25}[step]

    x, y = sampled(schedule, 5)
    assert x.tolist() == [0, 1, 2, 3, 4] and np.isnan(y[[1, 3, 4]]).all()
    made = trainer(schedule)
    made.steps_done = 3
    panel = panel_of(made)
    assert panel.training["rate"] is None
    panel.to_html()


# -- checkpoints -----------------------------------------------------------------------------------


@pytest.fixture
def saving(tmp_path):
    made = trainer(0.2, callbacks=[gw.Checkpoints(tmp_path / "kept", keep_last=9, keep_best=1)])
    panel = panel_of(made, validation=data(), epochs=3)
    yield panel
    panel.close()


def trained(panel):
    panel.start()
    panel.wait(PATIENCE)
    panel.refresh_checkpoints()
    return panel.checkpoint_list


def test_checkpoints_are_listed_with_the_best_and_the_damaged(saving):
    assert saving.checkpoint_list["rows"] == []
    found = trained(saving)
    assert [row["step"] for row in found["rows"]] == [12, 8, 4]
    losses = [float(row["metrics"]["val_loss"]) for row in found["rows"]]
    assert [row["best"] for row in found["rows"]] == [v == min(losses) for v in losses]
    assert (found["monitor"], found["metrics"]) == ("val_loss", ["loss", "val_loss"])
    folder = saving.checkpoints.folder
    whole = (folder / found["rows"][0]["file"]).read_bytes()
    (folder / "step-000000012.gw").write_bytes(whole[:200])
    saving.refresh_checkpoints()
    rows = saving.checkpoint_list["rows"]
    assert rows[0]["damaged"] and [row.get("step") for row in rows[1:]] == [8, 4]
    assert "damaged: " in saving.checkpoint_table()


def test_a_folder_is_read_only_where_it_has_changed(saving, monkeypatch):
    trained(saving)
    listed = []
    monkeypatch.setattr(
        type(saving.checkpoints), "list", lambda writer: listed.append(1) or [][0:0]
    )
    for _ in range(3):
        saving.refresh_checkpoints()
    assert not listed


def test_restoring_goes_on_to_the_same_numbers(saving):
    rows = trained(saving)["rows"]
    after = saving.trainer.values["w"].copy()
    press(saving, "checkpoints.restore", file=rows[-1]["file"])
    assert saving.message == "" and saving.trainer.steps_done == 4
    assert saving.training["step"] == 4 and saving.state == "idle"
    assert np.abs(saving.trainer.values["w"] - after).max() > 0
    saving.start(2)
    saving.wait(PATIENCE)
    np.testing.assert_array_equal(saving.trainer.values["w"], after)


def test_restoring_keeps_what_was_set_by_hand(saving):
    trained(saving)
    saving.set_learning_rate(0.03)
    saving.restore("last")
    assert saving.trainer.optimizer.learning_rate == 0.03
    saving.start(1)
    saving.wait(PATIENCE)
    assert saving.message == "" and saving.trainer.history.steps["learning_rate"][-1] == 0.03


def test_restoring_is_refused_while_a_training_runs(saving):
    rows = trained(saving)["rows"]
    saving.start(100_000)
    wait_for(lambda: saving.state == "running")
    press(saving, "checkpoints.restore", file=rows[0]["file"])
    assert "the training is running, so nothing was restored" in saving.message
    with pytest.raises(TrainingError, match="stop it first"):
        saving.restore(4)
    saving.stop()
    saving.wait(PATIENCE)
    saving.restore(4)
    assert saving.trainer.steps_done == 4


@pytest.mark.parametrize("file", [None, "", EVIL, "../kept", "/etc/passwd", ["x"], 4, "other.gw"])
def test_a_page_restores_nothing_that_it_was_not_shown(saving, file):
    trained(saving)
    before = saving.trainer.steps_done
    press(saving, "checkpoints.restore", file=file)
    assert "there is no checkpoint" in saving.message and saving.trainer.steps_done == before


def test_saving_now_idle_and_running(saving):
    press(saving, "checkpoints.save")
    assert [row["step"] for row in saving.checkpoint_list["rows"]] == [0]
    trained(saving)
    seen = {row["file"] for row in saving.checkpoint_list["rows"]}
    release = threading.Event()

    class Hold(gw.Callback):
        def on_step_end(self, trainer, record):
            if record.step == 14:
                assert release.wait(PATIENCE)

    saving.trainer.add_callback(Hold())
    saving.start(1)
    wait_for(lambda: saving.trainer.steps_done == 14)
    press(saving, "checkpoints.save")  # waits for the step
    release.set()
    saving.wait(PATIENCE)
    saving.refresh_checkpoints()
    new = [r["step"] for r in saving.checkpoint_list["rows"] if r["file"] not in seen]
    assert saving.message == "" and len(new) == 2 and new[0] == 16 and new[1] in (14, 15)


def test_a_save_that_fails_ends_no_training(saving, monkeypatch):
    trained(saving)

    def full(trainer):
        raise TrainingError("there is no room")

    monkeypatch.setattr(saving.checkpoints, "save", full)
    press(saving, "checkpoints.save")
    assert "there is no room" in saving.message
    saving.start(1)
    press(saving, "checkpoints.save")
    saving.wait(PATIENCE)
    assert saving.state == "finished"


def test_without_checkpoints_the_buttons_say_what_to_do():
    panel = panel_of(trainer())
    for kind in ("checkpoints.save", "checkpoints.restore"):
        press(panel, kind, file="step-000000001.gw")
        assert panel.message and not panel.checkpoint_list
    press(panel, "checkpoints.save")
    assert "gw.Checkpoints" in panel.message


def test_a_page_is_answered_and_the_folder_read_beside(saving, monkeypatch):
    messages = sent(saving, monkeypatch)
    saving.trainer.fit(data(), batch_size=8, validation=data(), progress=False)
    saving._receive(saving, {"kind": "checkpoints.look"}, [])
    saving.part(CheckpointPanel)._lister.join(PATIENCE)
    assert [c["kind"] for c, _ in messages if c["kind"].startswith("check")] == ["checkpoints.seen"]
    assert [row["step"] for row in saving.checkpoint_list["rows"]] == [4]
    saving.to_html()
