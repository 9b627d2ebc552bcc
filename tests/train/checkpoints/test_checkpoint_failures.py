"""Checkpoints when the disk fails and when somebody interrupts: what a training keeps."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from gradwright.formats.archive import container
from gradwright.train.checkpoints import folder, snapshot
from gradwright.train.checkpoints.folder import scan
from tests.train.checkpoints.test_checkpoints import X, fit, steps, trainer_of

# -- when the disk fails ---------------------------------------------------------------------------


def whole(trainer):
    """Return what a training has come to."""
    state = {k: np.array(v) for k, v in trainer.state_dict().items() if "seconds" not in k}
    return {k: v.tobytes() for k, v in {**state, "w": trainer.values["w"]}.items()}


@pytest.fixture
def undisturbed(tmp_path):
    trainer = trainer_of(gw.Checkpoints(tmp_path / "undisturbed"))
    fit(trainer, 4)
    return whole(trainer)


def fails(code, when):
    """Return an fsync that fails when ``when()`` is true."""
    fsync = os.fsync

    def failing(descriptor):
        if when():
            raise OSError(code, os.strerror(code))
        fsync(descriptor)

    return failing


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_full_disk_ends_the_fit_and_loses_nothing(
    tmp_path, monkeypatch, undisturbed, asynchronous
):
    checkpoints = gw.Checkpoints(tmp_path / "run", asynchronous=asynchronous)
    trainer = trainer_of(checkpoints)
    fit(trainer, 1)
    full = [True]
    monkeypatch.setattr(container.os, "fsync", fails(errno.ENOSPC, lambda: full[0]))
    with pytest.raises(TrainingError, match=r"step 6 into .* failed: No space left") as caught:
        fit(trainer, 2)
    assert isinstance(caught.value.__cause__, OSError)
    assert str(tmp_path / "run") in str(caught.value)
    assert trainer.status == "idle" and trainer.steps_done >= 6
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [".lock", "step-000000003.gw"]
    full[0] = False
    fit(trainer, 4 - trainer.epochs_done)
    assert whole(trainer) == undisturbed
    assert steps(checkpoints)[-1] == 12


def test_a_limit_on_the_size_of_files_is_a_clear_error(tmp_path):
    """A real limit, and a write that fails in the middle: in a process of its own."""
    script = f"""
import resource, signal, sys
import gradwright as gw
from tests.train.checkpoints.test_checkpoints import fit, trainer_of
checkpoints = gw.Checkpoints({str(tmp_path)!r})
trainer = trainer_of(checkpoints, size=(50_000,))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
try:
    fit(trainer, 2)
except gw.errors.TrainingError as error:
    print(error.problem)
print(trainer.steps_done >= 3, [c.step for c in checkpoints.list()])
"""
    pytest.importorskip("resource", reason="no limits on this system")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert "failed: File too large" in done.stdout and done.stdout.endswith("True []\n")
    assert [p.name for p in tmp_path.iterdir()] == [".lock"]


def test_an_error_that_ends_a_fit_is_not_hidden_by_the_disk_s(tmp_path, monkeypatch):
    class Breaks(gw.Callback):
        def on_step_end(self, trainer, record):
            raise ValueError("mine")

    monkeypatch.setattr(container.os, "fsync", fails(errno.EIO, lambda: True))
    trainer = trainer_of(gw.Checkpoints(tmp_path), Breaks())
    with (
        pytest.warns(UserWarning, match="Input/output error"),
        pytest.raises(ValueError, match="mine"),
    ):
        fit(trainer)


def test_nor_is_it_by_a_folder_that_cannot_be_read_any_more(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    class Breaks(gw.Callback):
        def on_step_end(self, trainer, record):
            monkeypatch.setattr(folder.Path, "iterdir", refuse)
            raise ValueError("mine")

    trainer = trainer_of(gw.Checkpoints(tmp_path), Breaks())
    with (
        pytest.warns(UserWarning, match="cannot be read: Permission denied"),
        pytest.raises(ValueError, match="mine"),
    ):
        fit(trainer)
    assert trainer.history.end.reason == "ValueError: mine"


def test_a_folder_that_vanishes_is_named_and_made_anew_by_the_next_fit(tmp_path, undisturbed):
    place = tmp_path / "run"
    checkpoints = gw.Checkpoints(place)

    class Removes(gw.Callback):
        def on_epoch_end(self, trainer, record):
            if record.epoch == 2:
                checkpoints._background.wait()
                for path in place.iterdir():
                    path.unlink()
                place.rmdir()

    trainer = trainer_of(Removes(), checkpoints)
    with pytest.raises(TrainingError, match=r"step 6 .* failed: No such file or directory"):
        fit(trainer, 3)
    fit(trainer, 4 - trainer.epochs_done)
    assert whole(trainer) == undisturbed and steps(checkpoints)[-1] == 12


def test_folders_that_cannot_be_written_to_are_named_before_the_first_step(tmp_path):
    (tmp_path / "file").touch()
    places = [tmp_path / "file" / "run", tmp_path / ("n" * 300)]
    if os.getuid():
        (tmp_path / "closed").mkdir(mode=0o500)
        places.append(tmp_path / "closed")
    for place in places:
        trainer = trainer_of(gw.Checkpoints(place))
        with pytest.raises(TrainingError, match="cannot be"):
            fit(trainer)
        assert trainer.steps_done == 0 and trainer.status == "idle"
        with pytest.raises(TrainingError, match="cannot be"):
            gw.Checkpoints(place).save(trainer)


def test_what_cannot_be_deleted_is_told(tmp_path, monkeypatch):
    checkpoints = gw.Checkpoints(tmp_path, keep_last=1, asynchronous=False)
    trainer = trainer_of(checkpoints)
    fit(trainer)

    def busy(self, missing_ok=False):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    with monkeypatch.context() as patched:
        patched.setattr(folder.Path, "unlink", busy)
        with pytest.raises(TrainingError, match="busy"):
            fit(trainer)
    assert steps(checkpoints) == [3, 6]


def test_two_trainings_cannot_write_into_one_folder(tmp_path):
    class Second(gw.Callback):
        def on_step_end(self, trainer, record):
            with pytest.raises(TrainingError, match="in use by this process"):
                fit(trainer_of(gw.Checkpoints(tmp_path)))

    checkpoints = gw.Checkpoints(tmp_path)
    fit(trainer_of(checkpoints, Second()))
    assert steps(checkpoints) == [3]


# -- when somebody interrupts ----------------------------------------------------------------------


def test_ctrl_c_leaves_a_checkpoint_of_the_step_that_was_reached(tmp_path):
    class Interrupts(gw.Callback):
        def on_step_end(self, trainer, record):
            if record.step == 5:
                signal.raise_signal(signal.SIGINT)

    checkpoints = gw.Checkpoints(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        fit(trainer_of(Interrupts(), checkpoints), 3)
    assert steps(checkpoints) == [3, 5]


def test_ctrl_c_while_a_checkpoint_is_written_loses_neither(tmp_path, monkeypatch):
    begun, write = threading.Event(), snapshot.Snapshot.write

    def slow(self, place, serial):
        begun.set()
        if self.step == 3:
            interrupted.wait(120)
        return write(self, place, serial)

    interrupted = threading.Event()
    monkeypatch.setattr(snapshot.Snapshot, "write", slow)

    class Interrupts(gw.Callback):
        def on_step_end(self, trainer, record):
            if record.step == 4:
                assert begun.wait(120)
                threading.Timer(0.05, interrupted.set).start()
                signal.raise_signal(signal.SIGINT)

    checkpoints = gw.Checkpoints(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        fit(trainer_of(Interrupts(), checkpoints), 3)
    assert steps(checkpoints) == [3, 4]


def test_ctrl_c_while_a_checkpoint_is_written_in_the_training_thread(tmp_path, monkeypatch):
    fsync, pressed = os.fsync, []

    def pressing(descriptor):
        if not pressed:
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)
        fsync(descriptor)

    monkeypatch.setattr(container.os, "fsync", pressing)
    checkpoints = gw.Checkpoints(tmp_path, asynchronous=False)
    with pytest.raises(KeyboardInterrupt):
        fit(trainer_of(checkpoints), 3)
    assert not list(tmp_path.glob("*.tmp")) and scan(tmp_path).damaged == {}


def test_a_step_that_a_second_ctrl_c_tears_is_not_saved(tmp_path, monkeypatch):
    checkpoints = gw.Checkpoints(tmp_path)
    trainer = trainer_of(checkpoints)
    fit(trainer)
    run = trainer.parts.taker.keeper.run

    def torn(*args, **options):
        run(*args, **options)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(trainer.parts.taker.keeper, "run", torn)
    with pytest.raises(KeyboardInterrupt):
        fit(trainer)
    assert steps(checkpoints) == [3]


def test_a_fit_that_fails_leaves_the_step_before(tmp_path):
    checkpoints = gw.Checkpoints(tmp_path, every_epochs=None)
    bad = X | {"x": X["x"].copy()}
    bad["x"][9] = np.nan
    trainer = trainer_of(checkpoints)
    with pytest.raises(TrainingError, match="not finite"):
        trainer.fit(bad, batch_size=4, shuffle=False, progress=False)
    assert steps(checkpoints) == [2]


def test_an_interpreter_that_ends_finishes_what_it_writes(tmp_path):
    script = f"""
import time
import gradwright as gw
from gradwright.train.checkpoints import snapshot
from tests.train.checkpoints.test_checkpoints import X, trainer_of
write = snapshot.Snapshot.write
def slow(self, place, serial):
    time.sleep(0.3)
    return write(self, place, serial)
snapshot.Snapshot.write = slow
checkpoints = gw.Checkpoints({str(tmp_path)!r})
trainer = trainer_of(checkpoints)
checkpoints._open(trainer)
trainer.step(X)
checkpoints._take(trainer)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr == ""
    assert [c.step for c in scan(tmp_path)] == [1]
