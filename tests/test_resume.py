"""Resuming: to the bit, from what is whole, and only where the settings are the same."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from gradwright.io import container
from gradwright.train.checkpoints.folder import scan

RNG = np.random.default_rng(0)
X = RNG.standard_normal((50, 6)).astype("float32")
DATA = {"x": X, "t": np.sin(X.sum(1)).astype("float32")}  # 7 batches of 8, the last of 2
HELD_OUT = {"x": X[:20], "t": DATA["t"][:20] + 0.5}


def trainer_of(*callbacks, optimizer=None, hidden=8, seed=3, rate=0.3, metrics=True, **options):
    """Return a trainer with dropout, running means, a schedule and clipping."""
    g = gw.Graph("net")
    x, t = g.placeholder("x", (None, 6)), g.placeholder("t", (None,))
    h = gw.nn.dropout(gw.tanh(x @ g.variable("w", (6, hidden))), rate)
    mean = g.variable("mean", (hidden,), trainable=False)
    g.update(mean, mean * 0.9 + gw.mean(h, axis=0) * 0.1)
    y = (h - mean) @ g.variable("v", (hidden,))
    loss = gw.mean((y - t) ** 2.0, name="loss")
    return gw.Trainer(
        g,
        loss,
        optimizer=optimizer or gw.optim.Adam(gw.schedules.Cosine(0.01, 40)),
        metrics={"error": gw.mean(gw.abs(y - t))} if metrics else None,
        clip_norm=1.0,
        seed=seed,
        session=gw.Session(g, deterministic=True, seed=seed),
        callbacks=callbacks,
        **options,
    )


def fit(trainer, epochs, data=None, **options):
    data = DATA if data is None else data
    size = {"batch_size": 8} if isinstance(data, dict) else {}
    options = {"validation": HELD_OUT, "progress": False, **size, **options}
    return trainer.fit(data, epochs=epochs, **options)


def whole(trainer):
    """Return what a training has come to, but the clock, as bytes."""
    state = {k: np.asarray(v) for k, v in trainer.state_dict().items() if "seconds" not in k}
    values = {t.name: trainer.values[t.name] for t in trainer.graph.variables}
    return {k: (v.dtype, v.shape, v.tobytes()) for k, v in {**state, **values}.items()}


class StopAfter(gw.Callback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, trainer, record):
        if record.step == self.step:
            trainer.stop()


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
from tests.test_resume import fit, trainer_of, whole
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


def trained(folder, epochs=4, **options):
    """Train with a metric that is best at epoch 2."""

    class Scores(gw.Callback):
        def on_epoch_end(self, trainer, record):
            record.metrics["score"] = [0.1, 0.9, 0.3, 0.2][record.epoch - 1]

    checkpoints = gw.Checkpoints(folder, keep_last=99, monitor="score", **options)
    trainer = trainer_of(Scores(), checkpoints)
    fit(trainer, epochs)
    return trainer, checkpoints


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


# -- damage ----------------------------------------------------------------------------------------


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


def emptied(path):
    path.write_bytes(b"")


def flipped_in_an_array(path):
    with container.Reader(path) as reader:
        member = reader.member("values/00001-of-00001.safetensors")
    data = bytearray(path.read_bytes())
    data[member.start + member.size - 3] ^= 4
    path.write_bytes(data)


def flipped_in_the_record(path):
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"epoch": ', b'"epocj": ', 1))


@pytest.mark.parametrize("damage", [cut, emptied, flipped_in_an_array, flipped_in_the_record])
def test_damaged_ones_are_reported_and_the_last_good_one_is_taken(tmp_path, damage):
    trainer, _ = trained(tmp_path)
    newest, second = tmp_path / "step-000000028.gw", tmp_path / "step-000000021.gw"
    damage(newest)
    again = trainer_of()
    with pytest.warns(UserWarning, match="damaged") as caught:
        found = gw.resume(again, tmp_path)
    assert found.path == second and again.epochs_done == 3
    text = str(caught[0].message)
    assert newest.name in text and second.name + " is whole and is taken" in text
    fit(again, 1)
    assert whole(again) == whole(trainer)


def test_any_flipped_bit_is_found(tmp_path):
    trained(tmp_path, 2)
    newest = tmp_path / "step-000000014.gw"
    data = newest.read_bytes()
    again = trainer_of()
    rng = np.random.default_rng(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gw.resume(again, tmp_path)
        good = whole(again)
        for position in rng.integers(0, len(data), 150):
            changed = bytearray(data)
            changed[position] ^= 1 << int(rng.integers(8))
            newest.write_bytes(changed)
            one = gw.resume(again, tmp_path)
            assert one.epoch == 1 or whole(again) == good


def test_where_all_are_damaged_it_is_an_error_and_not_a_new_beginning(tmp_path):
    trained(tmp_path, 2)
    for path in tmp_path.glob("*.gw"):
        cut(path)
    again = trainer_of()
    before = whole(again)
    for missing_ok in (False, True):
        with pytest.raises(TrainingError, match="holds no whole checkpoint") as caught:
            gw.resume(again, tmp_path, missing_ok=missing_ok)
        assert "step-000000014.gw: not a graph archive, or one that is cut off" in str(caught.value)
    assert whole(again) == before


def test_a_named_checkpoint_that_is_damaged_has_no_stand_in(tmp_path):
    trained(tmp_path, 2)
    flipped_in_an_array(tmp_path / "step-000000014.gw")
    with pytest.raises(TrainingError, match="no whole checkpoint 14") as caught:
        gw.resume(trainer_of(), tmp_path, 14)
    assert "CRC-32" in str(caught.value)


# -- other settings --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, field, text",
    [
        ({"optimizer": gw.optim.Adam(0.01, beta1=0.8)}, "optimizer.beta1", "0.9 -> 0.8"),
        ({"optimizer": gw.optim.SGD(0.1)}, "config.optimizer: Adam(", " -> SGD("),
        ({"accumulation": 2}, "config.accumulation: None -> Accumulation(steps=2", ""),
        ({"hidden": 9}, "variables.w", "'f32[6, 8]' -> 'f32[6, 9]'"),
        ({"seed": 4}, "config.seed", "3 -> 4"),
    ],
)
def test_other_settings_are_listed_field_by_field_and_refused(tmp_path, options, field, text):
    def make(**options):
        return trainer_of(**{"optimizer": gw.optim.Adam(0.01), **options})

    first = make()
    first.add_callback(gw.Checkpoints(tmp_path))
    fit(first, 1)
    second = make(**options)
    before = whole(second)
    with pytest.raises(TrainingError, match="other settings") as caught:
        gw.resume(second, tmp_path)
    assert field in str(caught.value) and text in str(caught.value)
    assert whole(second) == before and second.callbacks == ()


def test_what_is_allowed_is_the_trainer_s_own(tmp_path):
    fit(trainer_of(gw.Checkpoints(tmp_path), optimizer=gw.optim.Adam(0.01)), 1)
    for allow in ("config.optimizer.beta1", ["config.optimizer"], "all"):
        second = trainer_of(optimizer=gw.optim.Adam(0.01, beta1=0.8))
        gw.resume(second, tmp_path, allow=allow)
        assert second.optimizer.beta1 == 0.8 and second.steps_done == 7
    with pytest.raises(TrainingError, match=r"config\.optimizer\.beta1"):
        gw.resume(
            trainer_of(optimizer=gw.optim.Adam(0.01, beta1=0.8)), tmp_path, allow="config.opt"
        )


def test_settings_that_changed_while_training_are_taken_over(tmp_path):
    class Changes(gw.Callback):
        def on_epoch_end(self, trainer, record):
            if record.epoch == 1:
                trainer.optimizer = gw.optim.Adam(0.001)
                trainer.graph["w"].trainable = False

    undisturbed = trainer_of(Changes())
    fit(undisturbed, 3)
    fit(trainer_of(Changes(), gw.Checkpoints(tmp_path)), 2, steps=10)
    second = trainer_of(Changes(), checkpoints := gw.Checkpoints(tmp_path))
    gw.resume(second, tmp_path)
    assert second.optimizer == gw.optim.Adam(0.001)
    assert not second.graph["w"].trainable and second.graph["v"].trainable
    fit(second, 1)
    third = trainer_of()
    gw.resume(third, tmp_path)
    fit(third, 1)
    assert whole(third) == whole(undisturbed) and len(checkpoints.list()) == 3


def test_settings_that_changed_to_what_json_does_not_hold_are_told(tmp_path):
    trainer = trainer_of(gw.Checkpoints(tmp_path))
    fit(trainer, 1)
    trainer.optimizer = gw.optim.Adam(lambda step: 0.01)
    fit(trainer, 1)
    second = trainer_of()
    before = whole(second)
    with pytest.raises(TrainingError, match="learning_rate"):
        gw.resume(second, tmp_path)
    assert whole(second) == before
    second.optimizer = gw.optim.Adam(lambda step: 0.01)
    gw.resume(second, tmp_path, allow="config.optimizer")
    assert second.steps_done == 14


def test_settings_as_a_training_left_them_are_no_others(tmp_path):
    trainer = trainer_of(gw.Checkpoints(tmp_path))
    fit(trainer, 1)
    trainer.optimizer = gw.optim.SGD(0.1, momentum=0.9)
    fit(trainer, 1)
    second = trainer_of(optimizer=gw.optim.SGD(0.1, momentum=0.9))
    gw.resume(second, tmp_path)
    assert whole(second) == whole(trainer)
    third = trainer_of()
    gw.resume(third, tmp_path)
    assert whole(third) == whole(trainer) and third.optimizer == trainer.optimizer


def test_a_graph_that_was_edited_while_training_is_asked_for(tmp_path):
    trainer = trainer_of(gw.Checkpoints(tmp_path), metrics=False)
    fit(trainer, 1)

    def edit(g):
        h, head = g["sub"], lambda: h @ g.variable("u", (8,), init=0.1)
        gw.transfer.replace_head(g["matmul_1"], head)

    edit(trainer.graph)
    fit(trainer, 1)
    with pytest.raises(TrainingError, match=r"variables\.new_head/u: 'f32\[8\]' -> nothing"):
        gw.resume(second := trainer_of(metrics=False), tmp_path)
    assert second.steps_done == 0
    edit(second.graph)
    gw.resume(second, tmp_path)
    assert whole(second) == whole(trainer)


def test_what_does_not_fit_is_refused_as_a_whole_even_if_allowed(tmp_path):
    fit(trainer_of(gw.Checkpoints(tmp_path)), 1)
    for options in ({"hidden": 9}, {"optimizer": gw.optim.SGD(0.1)}, {"metrics": False}):
        second = trainer_of(**options)
        before = whole(second)
        try:
            gw.resume(second, tmp_path, allow="all")
        except TrainingError:
            assert whole(second) == before
        else:
            assert "metrics" in options and second.steps_done == 7


def test_other_data_in_the_midst_of_an_epoch_are_refused_before_the_first_step(tmp_path):
    undisturbed = trainer_of()
    fit(undisturbed, 2)
    fit(trainer_of(gw.Checkpoints(tmp_path)), 2, steps=10)
    second = trainer_of()
    gw.resume(second, tmp_path)
    before = whole(second)
    with pytest.raises(TrainingError, match="epoch 2 has begun on other data, and 3 batches"):
        fit(second, 1, {k: v[:40] for k, v in DATA.items()})
    assert whole(second) == before
    fit(second, 1)
    assert whole(second) == whole(undisturbed)
    third = trainer_of()
    gw.resume(third, tmp_path, allow="data")
    fit(third, 1, {k: v[:40] for k, v in DATA.items()})
    assert third.steps_done == 15


def test_a_resume_forgets_what_the_one_before_was_to_watch(tmp_path):
    fit(trainer_of(gw.Checkpoints(tmp_path)), 2, steps=10)
    second = trainer_of()
    gw.resume(second, tmp_path)
    gw.resume(second, tmp_path, 7)
    fit(second, 1, {k: v[:40] for k, v in DATA.items()})
    assert second.steps_done == 12 and second.callbacks == ()


def test_a_running_trainer_is_not_resumed(tmp_path):
    fit(trainer_of(gw.Checkpoints(tmp_path)), 1)

    class Resumes(gw.Callback):
        def on_step_end(self, trainer, record):
            with pytest.raises(TrainingError, match="the trainer is running"):
                gw.resume(trainer, tmp_path)

    fit(trainer_of(Resumes()), 1, steps=1)


def test_a_resumed_training_writes_into_its_folder_again(tmp_path):
    fit(trainer_of(gw.Checkpoints(tmp_path)), 1)
    second = trainer_of(checkpoints := gw.Checkpoints(tmp_path))
    checkpoints.restore(second)
    fit(second, 2)
    assert [c.epoch for c in checkpoints.list()] == [1, 2, 3]
    assert [c.serial for c in scan(tmp_path)] == [1, 2, 3]


# -- killed ----------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_trainings_that_are_killed_go_on_to_the_same_bits():
    """``python -m tests.kills 50`` does it at length."""
    command = [sys.executable, "-m", "tests.kills", "6", "--epochs", "6"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n6 kills, " in done.stdout and done.stdout.count("all equal") == 7
