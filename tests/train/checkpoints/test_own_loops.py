"""Checkpoints in loops of the user's own over ``trainer.step``: when, where from, to the bit."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from gradwright.files.lock import Lock
from gradwright.train.checkpoints import snapshot
from tests.train.checkpoints.resumed import DATA, StopAfter, fit, trainer_of, whole


def batch(number: int) -> dict[str, np.ndarray]:
    rows = np.random.default_rng(number).integers(0, 50, 8)
    return {name: array[rows] for name, array in DATA.items()}


def loop(trainer, until: int):
    """Take steps up to number ``until``, and return what each has come to."""
    found = {}
    while trainer.steps_done < until:
        if trainer.step(batch(trainer.batches_taken)) is not None:  # the window is full
            found[trainer.steps_done] = whole(trainer)
    return found


def steps(checkpoints):
    return [c.step for c in checkpoints.list()]


class Counts(gw.Callback):
    """A callback with state."""

    total = 0.0

    def on_step_end(self, trainer, record):
        self.total += record.metrics["loss"]

    def state_dict(self):
        return {"total": self.total}

    def load_state_dict(self, state):
        self.total = float(state["total"])


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_step_that_is_due_returns_when_its_checkpoint_is_on_the_disk(tmp_path, asynchronous):
    checkpoints = gw.Checkpoints(tmp_path, every_steps=2, keep_last=99, asynchronous=asynchronous)
    trainer = trainer_of(checkpoints)
    seen = []
    for number in range(5):
        trainer.step(batch(number))
        seen.append(steps(checkpoints))
        with Lock(tmp_path / ".lock"):  # nobody holds the folder between two steps
            pass
    assert seen == [[], [2], [2], [2, 4], [2, 4]]
    assert checkpoints.save(trainer).step == 5
    assert checkpoints.list()[0].metrics["error"] == trainer.history.steps["error"][1]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"accumulation": gw.Accumulation(2), "ema": gw.EMA(0.9)},
        {"optimizer": gw.optim.SGD(0.01, momentum=0.9), "precision": "bfloat16"},
    ],
)
def test_a_loop_goes_on_from_any_of_its_checkpoints_to_the_same_bits(tmp_path, settings):
    def trainer():
        checkpoints = gw.Checkpoints(tmp_path / "new", every_steps=2, keep_last=99)
        return trainer_of(checkpoints, Counts(), **settings)  # what comes later is saved, too

    expected = loop(trainer(), 7)
    (tmp_path / "new").rename(tmp_path / "old")
    for step in (2, 4, 6):
        again = trainer()
        assert gw.resume(again, tmp_path / "old", step).step == step
        assert whole(again) == expected[step]
        found = loop(again, 7)
        assert found == {n: bits for n, bits in expected.items() if n > step}
        shutil.rmtree(tmp_path / "new")


def test_two_trainers_in_one_loop_go_on_together(tmp_path):
    def trainers():
        g = gw.Graph("gan")
        x, z = g.placeholder("x", (None, 4)), g.placeholder("z", (None, 2))
        with g.scope("g"):
            fake = gw.nn.batch_norm(z @ g.variable("w", (2, 4), init=gw.init.he_normal(seed=0)))
        w = g.variable("d/w", (4, 1), init=gw.init.he_normal(seed=1))
        c = [g.variable(f"d/{n}", (4,), init=float(n in "av"), trainable=n in "ab") for n in "abmv"]
        real, made = (gw.nn.batch_norm(t, *c) @ w for t in (x, fake))
        of_d = gw.mean(gw.nn.softplus(-real)) + gw.mean(gw.nn.softplus(made))
        losses = {"d": of_d, "g": gw.mean(gw.nn.softplus(-made))}
        return g, [
            gw.Trainer(
                g, loss, gw.optim.Adam(0.01), parameters=f"{name}/*", deterministic=True,
                callbacks=[gw.Checkpoints(tmp_path / name, every_steps=3, keep_last=9)],
            )
            for name, loss in losses.items()
        ]  # fmt: skip

    def train(g, pair, until):
        found = {}
        while pair[1].steps_done < until:
            rng = np.random.default_rng(pair[0].steps_done)
            x, z = rng.standard_normal((8, 4)), rng.standard_normal((8, 2))
            pair[0].step({"x": x, "z": z})
            pair[1].step({"z": z})
            found[pair[1].steps_done] = [whole(trainer) for trainer in pair]
        return found

    expected = train(*trainers(), 7)
    for step in (3, 6):
        g, pair = trainers()
        for trainer, name in zip(pair, "dg", strict=True):  # the one that stepped last, last
            gw.resume(trainer, tmp_path / name, step)
        assert [whole(trainer) for trainer in pair] == expected[step]
        assert train(g, pair, 7) == {n: v for n, v in expected.items() if n > step}


def test_groups_of_steps_are_saved_where_they_have_led_to(tmp_path):
    g = gw.Graph()
    x, w = g.placeholder("x", (None,)), g.variable("w", (), init=1.0)
    checkpoints = gw.Checkpoints(tmp_path, every_steps=2, keep_last=99)
    trainer = gw.UnrolledTrainer(g, gw.mean(x * w), unroll=3, callbacks=[checkpoints])
    trainer.step([{"x": [1.0]}] * 7)
    assert steps(checkpoints) == [3, 6]


def test_fits_and_loops_take_turns(tmp_path):
    checkpoints = gw.Checkpoints(tmp_path, every_epochs=None, every_steps=5, keep_last=99)
    trainer = trainer_of(checkpoints)
    loop(trainer, 3)
    trainer.add_callback(StopAfter(6))
    fit(trainer, 1)
    loop(trainer, 11)
    assert steps(checkpoints) == [5, 6, 10]
    gw.resume(trainer, tmp_path, 6)
    loop(trainer, 11)
    assert steps(checkpoints) == [5, 6, 10] and checkpoints.list()[-1].step == 10


def test_by_the_clock_of_a_loop(tmp_path):
    checkpoints = gw.Checkpoints(tmp_path, every_seconds=1e-9, keep_last=99)
    loop(trainer_of(checkpoints), 3)
    assert steps(checkpoints) == [1, 2, 3]
    slow = gw.Checkpoints(tmp_path / "slow", every_seconds=1e9)
    loop(trainer_of(slow), 3)
    assert steps(slow) == []


def test_a_loop_without_due_checkpoints_leaves_the_folder_alone(tmp_path):
    loop(trainer_of(gw.Checkpoints(tmp_path / "none")), 2)
    assert not (tmp_path / "none").exists()


def test_another_training_s_folder_is_refused_at_the_first_step(tmp_path):
    loop(trainer_of(gw.Checkpoints(tmp_path, every_steps=2)), 4)
    before = sorted((p.name, p.stat().st_mtime_ns) for p in tmp_path.glob("*.gw"))
    trainer = trainer_of(gw.Checkpoints(tmp_path, every_steps=100))
    with pytest.raises(TrainingError, match=r"holds checkpoints of another training(.|\n)*resume"):
        trainer.step(batch(0))
    assert sorted((p.name, p.stat().st_mtime_ns) for p in tmp_path.glob("*.gw")) == before
    assert trainer.steps_done == 1


def test_a_write_that_fails_is_told_by_its_step_and_the_loop_goes_on(tmp_path, monkeypatch):
    checkpoints = gw.Checkpoints(tmp_path, every_steps=2, keep_last=99)
    trainer = trainer_of(checkpoints)
    expected = loop(trainer_of(), 6)
    loop(trainer, 3)

    def full(self, place, serial):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(snapshot.Snapshot, "write", full)
        with pytest.raises(TrainingError, match=r"writing a checkpoint of step 4(.|\n)*No space"):
            trainer.step(batch(3))
    assert whole(trainer) == expected[4] and steps(checkpoints) == [2]
    assert loop(trainer, 6) == {n: expected[n] for n in (5, 6)}
    assert steps(checkpoints) == [2, 6]
