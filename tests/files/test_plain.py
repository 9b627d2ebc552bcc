"""Links, pipes and devices where files should be: refused, and never opened."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from gradwright.files.lock import Lock
from gradwright.files.plain import NotPlainError, check_plain, opened
from gradwright.files.whole import replacing
from tests.train.checkpoints.resumed import fit, trained, trainer_of, whole

if not hasattr(os, "mkfifo"):
    pytest.skip("no pipes among files on this system", allow_module_level=True)


def to_a_link(path: Path) -> None:
    kept = path.with_name("elsewhere")
    if path.exists():
        path.rename(kept)
    path.symlink_to(kept)


def to_a_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def to_a_device(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")  # only an administrator can make one


ODD = [to_a_link, to_a_pipe, to_a_device]


@pytest.fixture(autouse=True)
def in_time():
    """Fail instead of hanging: whoever opens a pipe waits for the other end."""
    late = threading.Timer(60, lambda: os._exit(1))
    late.start()
    yield
    late.cancel()


@pytest.mark.parametrize("mode", ["rb", "rb+", "ab"])
@pytest.mark.parametrize("odd", ODD)
def test_none_is_opened(tmp_path, odd, mode):
    path = tmp_path / "file"
    path.write_bytes(b"kept")
    odd(path)
    with pytest.raises(NotPlainError, match=r"it is a (symbolic link|pipe), and no file"):
        opened(path, mode)
    with pytest.raises(NotPlainError), replacing(path, follow=False):
        pass
    with pytest.raises(TrainingError, match="cannot be locked: it is"):
        Lock(path).acquire()
    assert path.is_symlink() or path.is_fifo()


def test_a_link_that_a_user_names_is_followed_to_a_file_and_no_further(tmp_path):
    (tmp_path / "file").write_bytes(b"kept")
    (tmp_path / "link").symlink_to("file")
    with opened(tmp_path / "link", follow=True) as file:
        assert file.read() == b"kept"
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to the pipe").symlink_to("pipe")
    for place in (tmp_path / "to the pipe", "/dev/null"):
        with pytest.raises(NotPlainError, match=r"a pipe|a device"):
            check_plain(place, follow=True)
        with pytest.raises(NotPlainError, match=r"a pipe|a device"):
            gw.load(place)
        with pytest.raises(NotPlainError, match=r"a pipe|a device"):
            gw.save(gw.Graph(), place)
    assert (tmp_path / "pipe").is_fifo()


def test_a_file_that_is_made_meanwhile_by_another_process_is_looked_at_again(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr("gradwright.files.plain.check_plain", lambda *args, **options: None)
    with pytest.raises(NotPlainError, match="a pipe"):
        opened(tmp_path / "pipe")


# -- in a folder of checkpoints --------------------------------------------------------------------


@pytest.mark.parametrize("odd", ODD)
def test_a_checkpoint_that_is_none_is_passed_over(tmp_path, odd):
    trainer, checkpoints = trained(tmp_path)
    newest = checkpoints.list()[-1].path
    odd(newest)
    again = trainer_of()
    with pytest.warns(UserWarning, match=r"it is a (symbolic link|pipe), and no file"):
        assert gw.resume(again, tmp_path).epoch == 3
    fit(again, 1)
    assert whole(again) == whole(trainer)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["step-000000007.gw", ".lock"])
def test_nothing_is_written_over_or_through_what_is_no_file(tmp_path, odd, name):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "elsewhere").write_bytes(b"kept")
    odd(folder / name)
    trainer = trainer_of(gw.Checkpoints(folder))
    with pytest.raises(TrainingError, match=r"it is a (symbolic link|pipe), and no file"):
        fit(trainer, 1)
    assert (folder / name).is_symlink() or (folder / name).is_fifo()
    assert (folder / "elsewhere").read_bytes() == b"kept"


def test_a_folder_that_is_called_like_a_file_of_ours_is_left_alone(tmp_path):
    (tmp_path / "step-000000003.gw").mkdir()
    (tmp_path / ".checkpoint-0123456789abcdef.tmp").mkdir()
    checkpoints = gw.Checkpoints(tmp_path)
    fit(trainer_of(checkpoints), 1)
    assert [c.step for c in checkpoints.list()] == [7]
    assert list(checkpoints.list().damaged.values()) == ["it is a folder, and no file"]


def test_checkpoints_of_a_run_that_lie_elsewhere_are_to_be_named(tmp_path):
    trained(tmp_path / "far")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoints").symlink_to(tmp_path / "far")
    run = gw.Run(tmp_path / "run", store=None)
    for use in (gw.Checkpoints, lambda place: gw.resume(trainer_of(), place)):
        with pytest.raises(TrainingError, match=r"is a symbolic link[\s\S]*'.*/far'"):
            use(run)
    assert gw.resume(trainer_of(), tmp_path / "far").epoch == 4


# -- in a run folder -------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["config.json", "events.jsonl"])
def test_a_run_folder_with_what_is_no_file_is_refused_and_hides_no_other(tmp_path, odd, name):
    store = gw.train.Store(tmp_path)
    for run in ("good", "odd"):
        fit(trainer_of(gw.Run(tmp_path / run, run, store=store)), 1)
    odd(tmp_path / "odd" / name)
    store.path.unlink()
    with pytest.warns(UserWarning, match=r"odd' is left out: .*it is a (symbolic link|pipe)"):
        assert [run.name for run in gw.runs(store)] == ["good"]
    with pytest.raises(TrainingError, match=r"it is a (symbolic link|pipe), and no file"):
        repr(gw.train.RunFolder(tmp_path / "odd"))
    with pytest.raises(TrainingError, match=r"it is a (symbolic link|pipe), and no file"):
        fit(trainer_of(gw.Run(tmp_path / "odd", store=None)), 1)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["runs.db", "elsewhere.jsonl"])
def test_an_index_that_is_no_file_is_not_used(tmp_path, odd, name):
    store = gw.train.Store(tmp_path)
    fit(trainer_of(gw.Run(tmp_path / "good", store=store)), 1)
    odd(tmp_path / name)
    if name == "elsewhere.jsonl":  # asked for when the index is made again
        store.path.unlink()
    with pytest.warns(UserWarning, match=r"(not used|cannot be read): .*it is a"):
        assert [run.name for run in gw.runs(store)] == ["net"]
