"""Resuming: to the bit, from which checkpoint, after a kill."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from gradwright.train.checkpoints.folder import scan
from tests.train.checkpoints.resumed import DATA, StopAfter, fit, trained, trainer_of, whole

# -- to the bit ------------------------------------------------------------------------------------

SETTINGS = {
    "adam": {},
    "momentum": {"optimizer": gw.optim.SGD(0.05, momentum=0.9)},
    "muon": {"groups": [gw.Group("w", optimizer=gw.optim.Muon(0.01))]},
    "accumulation": {"accumulation": gw.Accumulation(2)},
    "schedule-free": {"optimizer": gw.optim.ScheduleFreeAdamW(0.01)},
    "ema": {"ema": gw.EMA(0.9), "validate_with": "ema"},
    "swa": {"swa": gw.SWA(start=3)},
    "half": {"precision": "float16", "loss_scale": gw.LossScale(initial=1024.0, interval=3)},
    "groups": {"groups": [gw.Group("v", optimizer=gw.optim.SGD(0.1))], "l2": 1e-3},
}


@pytest.mark.parametrize("stop", [1, 7, 10])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_resumed_training_equals_one_that_was_never_interrupted(tmp_path, settings, stop):
    undisturbed = trainer_of(**settings)
    fit(undisturbed, 3)
    first = trainer_of(gw.Checkpoints(tmp_path), StopAfter(stop), **settings)
    fit(first, 3)
    second = trainer_of(gw.Checkpoints(tmp_path), **settings)
    assert gw.resume(second, tmp_path).step == stop
    assert whole(second) == whole(first)
    assert second.history.seconds == first.history.seconds
    fit(second, 3 - second.epochs_done)
    assert whole(second) == whole(undisturbed)
    assert second.session.tuning == undisturbed.session.tuning


def test_in_another_process(tmp_path):
    fit(trainer_of(gw.Checkpoints(tmp_path)), 3, steps=10)
    script = f"""
import hashlib
import gradwright as gw
from tests.train.checkpoints.resumed import fit, trainer_of, whole
trainer = trainer_of()
gw.resume(trainer, {str(tmp_path)!r})
fit(trainer, 3 - trainer.epochs_done)
print(hashlib.sha256(repr(sorted(whole(trainer).items())).encode()).hexdigest())
"""
    import hashlib

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    undisturbed = trainer_of()
    fit(undisturbed, 3)
    text = repr(sorted(whole(undisturbed).items()))
    assert done.stdout.strip() == hashlib.sha256(text.encode()).hexdigest(), done.stderr


def test_data_that_comes_as_an_iterable_goes_on_at_the_same_batch(tmp_path):
    batches = [{k: v[i : i + 8] for k, v in DATA.items()} for i in range(0, 50, 8)]
    undisturbed = trainer_of()
    fit(undisturbed, 2, batches)
    fit(trainer_of(gw.Checkpoints(tmp_path), StopAfter(10)), 2, batches)
    second = trainer_of()
    gw.resume(second, tmp_path)
    fit(second, 1, batches)
    assert whole(second) == whole(undisturbed)


class Breaking(list):
    """Batches, of which the one at ``at`` cannot be read."""

    at = None

    def __iter__(self):
        for i, batch in enumerate(list.__iter__(self)):
            if i == self.at:
                raise OSError("the disk with the data is gone")
            yield batch


def test_a_window_that_was_begun_is_finished(tmp_path):
    batches = Breaking({k: v[i : i + 8] for k, v in DATA.items()} for i in range(0, 50, 8))
    settings = {"accumulation": gw.Accumulation(3)}
    undisturbed = trainer_of(**settings)
    fit(undisturbed, 2, batches)
    first = trainer_of(gw.Checkpoints(tmp_path), **settings)
    fit(first, 1, batches)
    batches.at = 2  # two batches wait for the third
    with pytest.raises(OSError, match="is gone"):
        fit(first, 1, batches)
    batches.at = None
    names = [c.path.name for c in scan(tmp_path)]
    assert names == ["step-000000003.gw", "step-000000003+2.gw"]
    second = trainer_of(**settings)
    assert gw.resume(second, tmp_path).batch == 2
    assert second.window == (2, 3) and whole(second) == whole(first)
    with pytest.raises(TrainingError, match="begun on other data"):
        fit(second, 1, batches[:6])
    assert whole(second) == whole(first)
    fit(second, 1, batches)
    assert whole(second) == whole(undisturbed)


def test_groups_of_steps_go_on_to_the_same_bits(tmp_path):
    undisturbed = trainer_of()
    fit(undisturbed, 3)
    fit(trainer_of(gw.Checkpoints(tmp_path, every_steps=4)), 3, steps=11, unroll=3)
    second = trainer_of()
    gw.resume(second, tmp_path)
    fit(second, 3 - second.epochs_done, unroll=2)
    assert whole(second) == whole(undisturbed)


def test_early_stopping_goes_on_counting(tmp_path):
    def stopping():
        return gw.EarlyStopping("val_loss", patience=3, min_delta=10.0)

    undisturbed = trainer_of(stopping())
    fit(undisturbed, 10)
    assert undisturbed.epochs_done == 4
    fit(trainer_of(stopping(), gw.Checkpoints(tmp_path)), 3)
    second = trainer_of(again := stopping())
    gw.resume(second, tmp_path)
    assert again.waited == 2 and again.best_epoch == 1
    fit(second, 7)
    assert whole(second) == whole(undisturbed)


def test_a_session_with_values_of_its_own_is_saved_and_restored(tmp_path):
    def make(*callbacks):
        g = gw.Graph()
        w = g.variable("w", (), init=2.0)
        session = gw.Session(g, values=g.values.snapshot(), deterministic=True)
        return gw.Trainer(g, w * w, session=session, callbacks=callbacks)

    first = make(gw.Checkpoints(tmp_path))
    first.fit([{}], epochs=3, progress=False)
    second = make()
    gw.resume(second, tmp_path)
    assert second.values["w"] == first.values["w"] != 2.0
    assert second.graph.values["w"] == 2.0


def test_threads_of_the_record_are_used_again(tmp_path):
    def make(threads, *callbacks):
        g = gw.Graph()
        w = g.variable("w", (), init=2.0)
        session = gw.Session(g, deterministic=True, threads=threads)
        return gw.Trainer(g, w * w, session=session, callbacks=callbacks)

    first = make(2, gw.Checkpoints(tmp_path))
    first.fit([{}], epochs=1, progress=False)
    second = make(1)
    gw.resume(second, tmp_path)
    assert second.session.tuning == first.session.tuning
    late = make(1)
    late.step({})
    with pytest.warns(UserWarning, match="last bits of numbers may differ: threads 2 -> 1"):
        gw.resume(late, tmp_path)


# -- which -----------------------------------------------------------------------------------------


def test_which(tmp_path):
    trainer, checkpoints = trained(tmp_path)
    again = trainer_of()
    assert gw.resume(again, tmp_path).epoch == 4 and whole(again) == whole(trainer)
    assert gw.resume(again, tmp_path, "best").epoch == 2
    assert (again.steps_done, again.epochs_done, again.history.epochs.rows) == (14, 2, 2)
    assert checkpoints.restore(again, 21).epoch == 3
    path = tmp_path / "step-000000007.gw"
    assert gw.resume(again, tmp_path, path).epoch == 1
    assert gw.resume(again, "elsewhere", str(path)).epoch == 1
    fit(again, 3)
    assert whole(again) == whole(trainer)
    before = whole(again)
    for which, message in (
        (22, r"no whole checkpoint 22[\s\S]*it holds steps 7, 14, 21, 28"),
        (2.5, "which=2.5 is no checkpoint"),
        (True, "which=True is no checkpoint"),
        ("newest", "newest is no checkpoint: No such file"),
    ):
        with pytest.raises(TrainingError, match=message):
            gw.resume(again, tmp_path, which)
    assert whole(again) == before


def test_the_best_needs_a_metric(tmp_path):
    fit(trainer_of(gw.Checkpoints(tmp_path, monitor="score")), 1)
    with pytest.raises(TrainingError, match="'score'") as caught:
        gw.resume(trainer_of(), tmp_path, "best")
    assert "val_loss" in str(caught.value)


def test_a_folder_without_checkpoints_begins_anew_where_that_is_meant(tmp_path):
    for place in (tmp_path, tmp_path / "nowhere"):
        assert gw.resume(trainer_of(), place, missing_ok=True) is None
        with pytest.raises(TrainingError, match="holds no whole checkpoint") as caught:
            gw.resume(trainer_of(), place)
        assert "missing_ok=True" in str(caught.value)


def test_a_session_that_is_not_deterministic_is_told_what_to_do(tmp_path):
    fit(trainer_of(gw.Checkpoints(tmp_path)), 1)
    again = trainer_of()
    again = gw.Trainer(again.graph, again.loss, again.optimizer)
    with pytest.warns(UserWarning, match="deterministic=True"):
        gw.resume(again, tmp_path, allow="all")


def test_a_run_has_a_folder_for_them(tmp_path):
    run = gw.Run(tmp_path / "run", store=None)
    fit(trainer_of(run, gw.Checkpoints(run)), 1)
    assert [c.path.parent for c in scan(run.folder / "checkpoints")] == [
        tmp_path / "run" / "checkpoints"
    ]
    second = trainer_of(gw.Run(tmp_path / "run", store=None), gw.Checkpoints(run))
    for place in (run, run.folder, run.read().summary()):
        assert gw.resume(second, place).step == 7
    fit(second, 1)
    undisturbed = trainer_of()
    fit(undisturbed, 2)
    assert whole(second) == whole(undisturbed)


# -- killed ----------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_trainings_of_all_kinds_that_are_killed_go_on_to_the_same_bits():
    """``python -m tests.kills 100`` does it at length."""
    command = [sys.executable, "-m", "tests.kills", "11", "--epochs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n11 kills of 11 kinds, " in done.stdout and done.stdout.count("all equal") == 22
