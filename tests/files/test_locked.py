"""The lock of a folder: one holder, named to those who come second, and gone with its process."""

from __future__ import annotations

import errno
import os
import platform
import signal
import subprocess
import sys

import pytest

from gradwright.errors import TrainingError
from gradwright.files import lock as locked
from gradwright.files.lock import Lock

HOLDER = """
import sys, time
from gradwright.files.lock import Lock
lock = Lock(sys.argv[1], "the run")
lock.acquire()
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Return the lock file and the process that holds it."""
    path = tmp_path / ".lock"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield path, process
        process.kill()


def test_the_holder_is_named_and_its_death_frees_the_lock(holder):
    path, process = holder
    with pytest.raises(TrainingError) as caught:
        Lock(path, "the run").acquire()
    text = str(caught.value)
    assert f"the run is in use by the process with pid {process.pid} on {platform.node()}" in text
    assert " since 20" in text and str(path) in text
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert str(process.pid) in path.read_text()  # it had no time to tidy up
    with Lock(path, "the run") as lock:
        assert lock.is_held
        assert str(os.getpid()) in path.read_text()
    assert not lock.is_held and path.read_text() == ""


def test_a_second_lock_of_the_same_process_is_told_so(tmp_path):
    path = tmp_path / ".lock"
    with Lock(path) as first:
        first.acquire()  # held already: nothing happens
        with pytest.raises(TrainingError, match=rf"in use by this process \(pid {os.getpid()}\)"):
            Lock(path).acquire()
    with Lock(path):
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_does_not_keep_its_parent_s_lock(tmp_path):
    """Workers of a data loader may outlive a parent that was killed."""
    script = f"""
import os, sys, time
from gradwright.files.lock import Lock
lock = Lock({str(tmp_path / ".lock")!r})
lock.acquire()
if os.fork() == 0:
    print(lock.is_held, flush=True)
    time.sleep(60)
    os._exit(0)
time.sleep(60)
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout.readline() == "False\n"
            with pytest.raises(TrainingError, match=f"pid {process.pid}"):
                Lock(tmp_path / ".lock").acquire()
            process.kill()
            process.wait()
            with Lock(tmp_path / ".lock") as lock:  # though the child lives on
                assert lock.is_held
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"pid": null}', "\x00" * 50])
def test_a_holder_that_wrote_nothing_readable_is_another_process(tmp_path, text):
    path = tmp_path / ".lock"
    with Lock(path):
        path.write_text(text)
        with pytest.raises(TrainingError, match="in use by another process"):
            Lock(path).acquire()


def test_a_lock_that_nobody_refers_to_is_released(tmp_path):
    Lock(tmp_path / ".lock").acquire()
    with Lock(tmp_path / ".lock") as lock:
        assert lock.is_held


def test_a_file_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(TrainingError, match="the run cannot be locked: Not a directory"):
        Lock(tmp_path / "file" / ".lock", "the run").acquire()
    with pytest.raises(TrainingError, match="No such file"):
        Lock(tmp_path / "nowhere" / ".lock").acquire()


def test_a_file_system_without_locks_is_worked_on_with_a_warning(tmp_path, monkeypatch):
    def refuse(descriptor):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(locked, "_take", refuse)
    lock = Lock(tmp_path / ".lock", "the run")
    with pytest.warns(UserWarning, match="the run cannot be locked.*two processes"):
        lock.acquire()
    assert lock.is_held
    lock.release()


def test_a_full_disk_takes_the_name_and_not_the_lock(tmp_path, monkeypatch):
    def full(descriptor, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        lock = Lock(tmp_path / ".lock", "the run")
        lock.acquire()
    with pytest.raises(TrainingError, match="another process"):
        Lock(tmp_path / ".lock").acquire()
    lock.release()
