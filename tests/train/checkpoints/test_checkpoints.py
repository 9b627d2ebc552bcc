"""Checkpoints: when they are taken, what stays, and what counts as one."""

from __future__ import annotations

import json
import os
import threading
import zipfile

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, GraphError, TrainingError
from gradwright.formats.archive import container
from gradwright.train.checkpoints import callback, folder, snapshot
from tests.support.panels import wait_for

X = {"x": np.linspace(-1, 1, 12, dtype="float32")}


def trainer_of(*callbacks, seed=0, size=()):
    """Return a trainer of y = w·x, whose epochs have 3 batches of 4."""
    g = gw.Graph("line")
    x, w = g.placeholder("x", (None,)), g.variable("w", size, init=2.0)
    loss = gw.mean((x * gw.mean(w) - 3.0 * x) ** 2.0)
    session = gw.Session(g, deterministic=True)
    return gw.Trainer(
        g, loss, optimizer=gw.optim.Adam(0.1), callbacks=callbacks, seed=seed, session=session
    )


def fit(trainer, epochs=1, **options):
    return trainer.fit(X, epochs=epochs, batch_size=4, progress=False, **options)


def steps(checkpoints):
    return [c.step for c in checkpoints.list()]


# -- when ------------------------------------------------------------------------------------------


def test_every_epoch_leaves_an_archive_that_all_of_gradwright_reads(tmp_path):
    checkpoints = gw.Checkpoints(tmp_path / "a" / "b")
    trainer = trainer_of(checkpoints)
    history = fit(trainer, 2, validation=X)
    first, last = checkpoints.list()
    assert (first.step, first.epoch, first.batch, first.is_epoch_end) == (3, 1, 0, True)
    assert (last.step, last.epoch, last.serial) == (6, 2, 2)
    assert last.metrics["val_loss"] == history.epochs["val_loss"][-1]
    assert last.nbytes == last.path.stat().st_size
    assert sorted(p.name for p in (tmp_path / "a" / "b").iterdir()) == [
        ".lock",
        "step-000000003.gw",
        "step-000000006.gw",
    ]
    loaded = gw.load(last.path)
    assert loaded.values["w"] == trainer.values["w"]
    assert gw.inspect(last.path).states == ("trainer",)
    state = gw.load_state(last.path, "trainer")
    assert state["counters"].tolist()[:3] == [6, 2, 0]
    assert state.keys() == trainer.state_dict().keys()
    with zipfile.ZipFile(last.path) as archive:
        record = json.loads(archive.read("checkpoint.json"))
    assert record["tuning"] == json.loads(json.dumps(trainer.session.tuning))
    assert record["libraries"]["python"].count(".") == 2


def test_every_so_many_steps_and_epochs_and_at_the_end(tmp_path):
    checkpoints = gw.Checkpoints(
        tmp_path, every_epochs=2, every_steps=4, keep_last=99, asynchronous=False
    )
    fit(trainer_of(checkpoints), 4, steps=11)
    assert [(c.step, c.epoch, c.batch, c.is_epoch_end) for c in checkpoints.list()] == [
        (4, 1, 1, False),
        (6, 2, 0, True),
        (8, 2, 2, False),
        (11, 3, 2, False),
    ]


def test_an_epoch_that_a_fit_ends_with_is_saved_with_what_it_measured(tmp_path):
    checkpoints = gw.Checkpoints(tmp_path, every_epochs=2)
    history = fit(trainer_of(checkpoints), 3, validation=X)
    last = checkpoints.list()[-1]
    assert (last.epoch, last.is_epoch_end) == (3, True)
    assert last.metrics["val_loss"] == history.last()["val_loss"]


def test_the_last_step_of_an_epoch_gives_way_to_its_end(tmp_path):
    checkpoints = gw.Checkpoints(tmp_path, every_steps=3, keep_last=99, asynchronous=False)
    fit(trainer_of(checkpoints), 2)
    found = checkpoints.list()
    assert [(c.step, c.epoch, c.is_epoch_end) for c in found] == [(3, 1, True), (6, 2, True)]


def test_by_the_clock(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(callback.time, "monotonic", lambda: now[0])

    class Clock(gw.Callback):
        def on_step_end(self, trainer, record):
            now[0] += 1.0

    checkpoints = gw.Checkpoints(
        tmp_path, every_epochs=None, every_seconds=2.5, keep_last=99, asynchronous=False
    )
    fit(trainer_of(Clock(), checkpoints), 3)
    assert steps(checkpoints) == [3, 6, 9]


def test_a_group_of_steps_is_saved_where_it_has_led_to(tmp_path):
    checkpoints = gw.Checkpoints(
        tmp_path, every_epochs=None, every_steps=1, keep_last=99, asynchronous=False
    )
    trainer = trainer_of(checkpoints)
    fit(trainer, 2, unroll=3)
    assert steps(checkpoints) == [3, 6]
    assert gw.load_state(checkpoints.list()[0].path, "trainer")["counters"][0] == 3


@pytest.fixture
def gate(monkeypatch):
    """Return what lets writes go on, and the steps whose writes have begun."""
    opened, begun, write = threading.Event(), [], snapshot.Snapshot.write

    def slow(self, place, serial):
        begun.append(self.step)
        assert opened.wait(120)
        return write(self, place, serial)

    monkeypatch.setattr(snapshot.Snapshot, "write", slow)
    return opened, begun


def test_steps_do_not_wait_for_a_slow_disk_and_are_made_up_for(tmp_path, gate):
    opened, begun = gate

    class Opens(gw.Callback):
        def on_step_end(self, trainer, record):
            if record.step == 2:
                wait_for(lambda: begun)
            if record.step == 5:
                assert begun == [1]
                opened.set()
                checkpoints._background.wait()

    checkpoints = gw.Checkpoints(tmp_path, every_epochs=None, every_steps=1, keep_last=99)
    fit(trainer_of(Opens(), checkpoints), 2)
    assert steps(checkpoints)[:2] == [1, 5] and steps(checkpoints)[-1] == 6


def test_the_end_of_an_epoch_waits_for_a_slow_disk(tmp_path, gate):
    opened, _ = gate
    checkpoints = gw.Checkpoints(tmp_path, keep_last=99)
    threading.Timer(0.05, opened.set).start()
    fit(trainer_of(checkpoints), 4)
    assert steps(checkpoints) == [3, 6, 9, 12]


def test_a_snapshot_holds_what_was_there_though_training_goes_on(tmp_path, gate):
    opened, seen = gate[0], {}

    class Notes(gw.Callback):
        def on_step_end(self, trainer, record):
            slots = {k: np.array(v) for k, v in trainer.state_dict().items() if "seconds" not in k}
            seen[record.step] = np.array(trainer.values["w"]), slots
            if record.step == 3:
                opened.set()

    checkpoints = gw.Checkpoints(tmp_path, every_epochs=None, every_steps=1, keep_last=99)
    trainer = trainer_of(Notes(), checkpoints, size=(1000,))
    fit(trainer, 2)
    first = checkpoints.list()[0]  # written after step 3
    assert first.step == 1
    w, state = seen[1]
    assert gw.load(first.path).values["w"].tobytes() == w.tobytes()
    saved = gw.load_state(first.path, "trainer")
    assert all(saved[k].tobytes() == v.tobytes() for k, v in state.items())


def test_by_hand(tmp_path):
    checkpoints = gw.Checkpoints(tmp_path)
    trainer = trainer_of(checkpoints)
    trainer.step(X)
    saved = checkpoints.save(trainer)
    assert saved.step == 1 and steps(checkpoints) == [1]

    class Saves(gw.Callback):
        def on_step_end(self, trainer, record):
            if record.step == 3:
                assert checkpoints.save(trainer).step == 3

    trainer.add_callback(Saves())
    fit(trainer)
    assert steps(checkpoints) == [1, 3, 4]


def test_by_hand_while_another_is_being_written(tmp_path, gate):
    opened, begun = gate

    class Saves(gw.Callback):
        def on_step_end(self, trainer, record):
            if record.step == 2:
                wait_for(lambda: begun)
                threading.Timer(0.05, opened.set).start()
                assert begun == [1] and checkpoints.save(trainer).step == 2

    checkpoints = gw.Checkpoints(tmp_path, every_epochs=None, every_steps=1)
    fit(trainer_of(Saves(), checkpoints), 1, steps=2)
    assert [(c.step, c.serial) for c in checkpoints.list()] == [(1, 1), (2, 2)]


def test_other_callbacks_are_heard_before_their_state_is_saved(tmp_path):
    class Counts(gw.Callback):
        epochs = 0

        def on_epoch_end(self, trainer, record):
            self.epochs += 1

    seen = []

    class Spy(gw.Checkpoints):
        def on_epoch_end(self, trainer, record):
            seen.append(counts.epochs)
            super().on_epoch_end(trainer, record)

    counts, spy = Counts(), Spy(tmp_path)
    trainer = trainer_of(spy, counts)
    fit(trainer, 2)
    assert seen == [1, 2] and trainer.callbacks == (counts, spy)


def test_callbacks_may_keep_text(tmp_path):
    class Named(gw.Callback):
        name = ""

        def state_dict(self):
            return {"name": self.name, "parts": np.array(["ä", "b"])}

        def load_state_dict(self, state):
            self.name = str(state["name"])

    named = Named()
    named.name = "größer"
    fit(trainer_of(named, checkpoints := gw.Checkpoints(tmp_path)))
    again = Named()
    checkpoints.restore(trainer_of(again))
    assert again.name == "größer"


def test_what_no_archive_holds_is_named(tmp_path):
    class Odd(gw.Callback):
        def state_dict(self):
            return {"odd": object()}

    with pytest.raises(GraphError, match=r"callbacks/Odd_0/odd"):
        fit(trainer_of(Odd(), gw.Checkpoints(tmp_path, every_steps=2)))

    class Unknown(gw.Op):
        name = "test/never_registered"

        def infer(self, x):
            return x

        def forward(self, x):
            return x

    trainer = trainer_of(gw.Checkpoints(tmp_path / "other"))
    Unknown()(trainer.graph["w"])
    with pytest.raises(GraphError, match="never_registered"):
        fit(trainer)
    assert trainer.steps_done == 0 and not (tmp_path / "other").exists()


# -- what stays ------------------------------------------------------------------------------------


class Scores(gw.Callback):
    """Gives epochs the scores of a list."""

    def __init__(self, *scores):
        self.scores = scores

    def on_epoch_end(self, trainer, record):
        record.metrics["score"] = self.scores[record.epoch - 1]


@pytest.mark.parametrize(
    "options, left",
    [
        ({"keep_last": 2}, [7, 8]),
        ({"keep_last": 1, "keep_best": 2, "monitor": "score"}, [2, 6, 8]),
        ({"keep_last": 1, "keep_best": 2, "monitor": "score", "mode": "min"}, [1, 5, 8]),
        ({"keep_last": 1, "keep_every": 9}, [3, 6, 8]),
        ({"keep_last": 2, "keep_best": 1, "monitor": "score", "keep_every": 12}, [2, 4, 7, 8]),
    ],
)
def test_rotation(tmp_path, options, left):
    scores = Scores(0.1, 0.9, np.nan, 0.3, 0.2, 0.8, 0.5, 0.4)
    checkpoints = gw.Checkpoints(tmp_path, **options)
    fit(trainer_of(scores, checkpoints), 8)
    assert [c.epoch for c in checkpoints.list()] == left


def test_nothing_else_in_the_folder_is_touched(tmp_path):
    foreign = {
        "notes.txt": b"mine",
        "step-1.gw": b"called otherwise",
        "step-000000001.gw.bak": b"a copy",
        ".gw-0123456789abcdef.tmp": b"being written by gw.save",
        "step-000000900.gw": b"damaged",
    }
    for name, data in foreign.items():
        (tmp_path / name).write_bytes(data)
    left = tmp_path / ".checkpoint-0123456789abcdef.tmp"
    left.write_bytes(b"half a checkpoint of a process that died")
    checkpoints = gw.Checkpoints(tmp_path, keep_last=1)
    fit(trainer_of(checkpoints), 4)
    assert {name: (tmp_path / name).read_bytes() for name in foreign} == foreign
    assert not left.exists()
    assert steps(checkpoints) == [12]
    assert [p.name for p in checkpoints.list().damaged] == ["step-000000900.gw"]


def test_damaged_ones_do_not_count_as_kept(tmp_path):
    checkpoints = gw.Checkpoints(tmp_path, keep_last=2)
    trainer = trainer_of(checkpoints)
    fit(trainer, 2)
    os.truncate(tmp_path / "step-000000006.gw", 500)
    fit(trainer)
    assert steps(checkpoints) == [3, 9]
    fit(trainer)
    assert steps(checkpoints) == [9, 12]


def test_what_was_written_last_counts_as_newest_though_its_step_is_lower(tmp_path):
    checkpoints = gw.Checkpoints(tmp_path, keep_last=3)
    trainer = trainer_of(checkpoints)
    fit(trainer, 3)
    checkpoints.restore(trainer, 3)
    fit(trainer, 1, steps=1)
    assert steps(checkpoints) == [6, 9, 4]
    assert checkpoints.restore(trainer).step == 4


def test_another_training_s_checkpoints_are_not_overwritten(tmp_path):
    fit(trainer_of(gw.Checkpoints(tmp_path)), 2)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    second = trainer_of(gw.Checkpoints(tmp_path))
    with pytest.raises(TrainingError, match="holds checkpoints of another training") as caught:
        fit(second)
    assert "the newest of step 6" in str(caught.value) and "gw.resume" in str(caught.value)
    assert second.steps_done == 0
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    checkpoints = gw.Checkpoints(tmp_path, overwrite=True, keep_last=1)
    fit(trainer_of(checkpoints))
    assert steps(checkpoints) == [3]


def test_the_list_is_a_table(tmp_path):
    checkpoints = gw.Checkpoints(tmp_path, asynchronous=False)
    assert repr(checkpoints.list()) == "no checkpoints"
    fit(trainer_of(checkpoints), 2, steps=4)
    (tmp_path / "step-000000099.gw").write_text("x")
    lines = repr(checkpoints.list()).splitlines()
    assert lines[0].split() == ["step", "epoch", "loss", "bytes", "time", "(UTC)", "file"]
    assert lines[1].split()[:2] == ["3", "1"] and "step-000000003.gw" in lines[1]
    assert lines[2].split()[:5] == ["4", "1", "+", "1", "batches"]
    assert lines[3].startswith("damaged: step-000000099.gw: not a graph archive")
    assert repr(checkpoints).endswith(": 2, best by 'val_loss', min>")


def test_a_monitor_that_is_not_measured_is_named(tmp_path):
    checkpoints = gw.Checkpoints(tmp_path, keep_best=1)
    with pytest.raises(TrainingError, match="'val_loss', which is not measured") as caught:
        fit(trainer_of(checkpoints))
    assert "fit(validation=...)" in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"every_epochs": 0},
        {"every_steps": 1.5},
        {"every_seconds": -1},
        {"keep_last": 0},
        {"keep_best": -1},
        {"keep_every": True},
        {"mode": "best"},
    ],
)
def test_settings_that_make_no_sense_are_named(tmp_path, options):
    with pytest.raises(TrainingError, match=next(iter(options))):
        gw.Checkpoints(tmp_path, **options)
    with pytest.raises(TrainingError, match="is no folder"):
        gw.Checkpoints(3)


# -- what a scan refuses ---------------------------------------------------------------------------


def test_records_that_are_none_are_damage(tmp_path):
    checkpoints = gw.Checkpoints(tmp_path)
    fit(trainer_of(checkpoints))
    good = checkpoints.list()[0].path
    with zipfile.ZipFile(good) as archive:
        record = json.loads(archive.read("checkpoint.json"))
    path = tmp_path / "step-000000007.gw"
    for change in (
        {"step": "7"},
        {"serial": True},
        {"metrics": {"loss": "low"}},
        {"metrics": {"loss": {"$class": "Adam"}}},
        {"metrics": {"$number": "inf"}},
        {"more": 1},
    ):
        text = json.dumps(record | change).encode()
        with path.open("wb") as file, container.Writer(file) as writer:
            writer.add("checkpoint.json", len(text), [text])
        with pytest.raises(ArchiveError, match=r"checkpoint\.json"):
            folder.read_record(path)
        assert list(checkpoints.list().damaged) == [path]
    gw.save(gw.Graph(), path)
    assert "missing" in checkpoints.list().damaged[path]
