"""Resuming only from what is whole, and only where the settings are the same."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from gradwright.formats.archive import container
from gradwright.train.checkpoints.folder import scan
from tests.train.checkpoints.resumed import DATA, fit, trained, trainer_of, whole

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
