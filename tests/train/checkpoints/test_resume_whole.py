"""A resume that fails leaves a trainer as it was, to the bit and to the object."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError, TrainingError
from tests.forgeries.campaign import forged
from tests.formats.archives import members, put
from tests.train.checkpoints.resumed import fit, trained, trainer_of, whole


@pytest.mark.parametrize(
    ("kind", "every"),
    [("record", 131), ("header", 501), ("state", 71), ("manifest", 101), ("settings", 31)],
)
def test_forged_files_are_refused_or_passed_over_and_change_nothing(kind, every):
    """A sample; ``python -m tests.forgeries`` tries all."""
    outcomes, wrong = forged(kind, every, first=7)
    assert not wrong and outcomes.total() > 3
    assert outcomes["refused"] + outcomes["fell back"]


def half_way():
    """Return a trainer in the midst of an epoch, with what a user may hold of it."""
    trainer = trainer_of(gw.EarlyStopping("val_loss", patience=3))
    fit(trainer, 2, steps=10)
    trainer.graph["w"].trainable = False
    return trainer, (trainer.history, trainer.progress, trainer.callbacks[0]._values)


def as_it_was(trainer, held):
    kept = trainer.history, trainer.progress, trainer.callbacks[0]._values
    return all(a == b if isinstance(a, tuple) else a is b for a, b in zip(kept, held, strict=True))


def same_as_ever(trainer, held, before):
    """Check that nothing has changed, and that the next steps are what they would have been."""
    assert whole(trainer) == before
    assert trainer.history is held[0] and trainer.progress == held[1]
    assert trainer.callbacks[0]._values is held[2]
    assert not trainer.graph["w"].trainable and trainer.optimizer == gw.optim.Adam(
        gw.schedules.Cosine(0.01, 40)
    )
    twin, _ = half_way()
    for one in (trainer, twin):
        fit(one, 1)
    assert whole(trainer) == whole(twin)


def change(path, **facts):
    record = json.loads(members(path)["checkpoint.json"])
    for name, value in facts.items():
        record[name] = value(record[name]) if callable(value) else value
    put(path, "checkpoint.json", json.dumps(record).encode())


def test_a_callback_that_refuses_its_state(tmp_path):
    class Refuses(gw.Callback):
        def state_dict(self):
            return {"n": 1}

        def load_state_dict(self, state):
            raise KeyError("mine")

    trained(tmp_path)
    checkpoints = gw.Checkpoints(tmp_path / "a")
    first = trainer_of(Refuses(), gw.EarlyStopping("val_loss"), checkpoints)
    fit(first, 1)
    trainer, held = half_way()
    trainer.add_callback(Refuses())
    before = whole(trainer)
    with pytest.raises(TrainingError, match="no state of this training: KeyError: 'mine'"):
        gw.resume(trainer, checkpoints.folder, allow="all")
    trainer.remove_callback(trainer.callbacks[-1])
    del before["callbacks/Refuses_0/n"]
    same_as_ever(trainer, held, before)


def test_settings_that_were_adopted_are_given_back(tmp_path):
    """The checkpoint has gone over to another optimizer, whose state is then no state of it."""
    first = trainer_of(gw.EarlyStopping("val_loss"), gw.Checkpoints(tmp_path))
    fit(first, 1)
    first.optimizer = gw.optim.SGD(0.1, momentum=0.9)
    first.graph["v"].trainable = False
    fit(first, 1)
    newest = max(tmp_path.glob("*.gw"))
    state = gw.load_state(newest, "trainer")
    record = members(newest)["checkpoint.json"]
    name = next(n for n in state if n.endswith("w/velocity") or n.startswith("state/w/"))
    gw.save(first.graph, newest, state={"trainer": state | {name: np.zeros(5)}})
    put(newest, "checkpoint.json", record)
    trainer, held = half_way()
    trainer.graph["w"].trainable = True  # as the checkpoint's training began
    before = whole(trainer)
    with pytest.raises(TrainingError, match="saved optimizer state"):
        gw.resume(trainer, tmp_path)
    trainer.graph["w"].trainable = False
    same_as_ever(trainer, held, before)


def test_a_tuning_record_that_is_none(tmp_path):
    trained(tmp_path)
    for path in tmp_path.glob("*.gw"):
        change(path, tuning=lambda t: t | {"choices": {"matmul": "many"}})
    trainer = trainer_of()
    before, tuning = whole(trainer), trainer.session.tuning
    with pytest.raises(GraphError, match="is no record"):
        gw.resume(trainer, tmp_path)
    assert whole(trainer) == before and trainer.session.tuning == tuning


def test_a_warning_that_is_an_error_comes_before_any_change(tmp_path):
    trained(tmp_path)
    for path in tmp_path.glob("*.gw"):
        change(path, libraries={"python": "2.7"})
    trainer = trainer_of()
    before = whole(trainer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="other conditions"):
            gw.resume(trainer, tmp_path)
    assert whole(trainer) == before


def test_warnings_stand_at_the_line_that_resumes(tmp_path):
    trained(tmp_path)
    first, *others = sorted(tmp_path.glob("*.gw"))
    first.write_bytes(first.read_bytes()[:-9])
    change(others[-1], libraries={"python": "2.7"})
    checkpoints = gw.Checkpoints(tmp_path)
    for resumed in (lambda trainer: gw.resume(trainer, tmp_path), checkpoints.restore):
        with pytest.warns(UserWarning) as caught:
            resumed(trainer_of())
        assert [str(w.message).split()[0] for w in caught] == ["checkpoints", others[-1].name]
        assert {w.filename for w in caught} == {__file__}


def test_ctrl_c_in_the_midst_of_a_resume(tmp_path, monkeypatch):
    trained(tmp_path)
    trainer, held = half_way()
    before = whole(trainer)

    def interrupted(*args):
        raise KeyboardInterrupt

    trainer.graph["w"].trainable = True
    monkeypatch.setattr(trainer.parts.taker.keeper, "load_state_dict", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gw.resume(trainer, tmp_path)
    monkeypatch.undo()
    trainer.graph["w"].trainable = False
    same_as_ever(trainer, held, before)


def test_a_checkpoint_of_a_newer_version_says_so_and_the_one_before_is_taken(tmp_path):
    trained(tmp_path)
    *_, second, newest = sorted(tmp_path.glob("*.gw"))
    assert json.loads(members(newest)["checkpoint.json"])["format"] == 1
    change(newest, format=9)
    newer = r"it was written by a newer gradwright \(format 9; this reads up to 1\)"
    with pytest.raises(TrainingError, match=newer):
        gw.resume(trainer_of(), tmp_path, newest)
    with pytest.warns(UserWarning, match=newer):
        assert gw.resume(trainer_of(), tmp_path).path == second
