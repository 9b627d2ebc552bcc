"""Lock: one process at a time works on a folder, and whoever comes second is told who does."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
import time
import warnings
import weakref
from pathlib import Path
from typing import Any

from ..errors import TrainingError
from .plain import UNLINKED, check_plain

if sys.platform == "win32":
    import msvcrt

    _BYTE = 1 << 30
    """The byte that is locked: far behind the text, which others may still read then."""

    def _take(descriptor: int) -> None:
        os.lseek(descriptor, _BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


_held: weakref.WeakSet[Lock]


class Lock:
    """A lock file that says which process holds it; the system releases it when that process dies.

    The file stays where it is afterwards, and is no obstacle: what counts is the lock on it
    (``flock``). A process that forks keeps its locks; its children do not have them.

    Args:
        path: the lock file; its folder must exist.
        what: what is locked, for the error.

    Raises TrainingError in ``acquire``: with pid, host and time where another process, or another
    lock of this one, holds it; with the cause where the file cannot be written.

    >>> import tempfile, pathlib
    >>> from gradwright.files.lock import Lock
    >>> path = pathlib.Path(tempfile.mkdtemp(), ".lock")
    >>> with Lock(path, "the run"):
    ...     Lock(path, "the run").acquire()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    gradwright.errors.TrainingError: the run is in use by this process ...
    >>> Lock(path, "the run").acquire()
    """

    def __init__(self, path: str | os.PathLike[str], what: str = "") -> None:
        self.path = Path(path)
        self.what = what or f"the folder {str(self.path.parent)!r}"
        self._descriptor = -1

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor >= 0

    def acquire(self) -> None:
        """Take the lock, or raise TrainingError at once; nothing happens where it is held here."""
        if self.is_held:
            return
        try:
            check_plain(self.path)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | UNLINKED, 0o666)
        except OSError as error:
            raise TrainingError(
                f"{self.what} cannot be locked: {error.strerror}",
                facts=[f"lock file {self.path}"],
                hint="a folder that this process may write to",
            ) from error
        try:
            _take(descriptor)
        except (BlockingIOError, PermissionError):
            holder = _read(descriptor)
            os.close(descriptor)
            raise self._refusal(holder) from None
        except OSError as error:  # a file system without locks
            warnings.warn(
                f"{self.what} cannot be locked ({error.strerror}), so nothing keeps two processes "
                "from writing to it",
                stacklevel=3,
            )
        self._descriptor = descriptor
        _held.add(self)
        with contextlib.suppress(OSError):  # a full disk: it is locked, only the name is missing
            _write(descriptor)

    def release(self) -> None:
        """Give the lock back; nothing happens where it is not held."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            try:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, 0)
            finally:  # Ctrl-C included: what is left open would stay locked
                os.close(descriptor)

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<Lock {self.path}: {'held' if self.is_held else 'free'}>"

    def _refusal(self, holder: dict[str, Any]) -> TrainingError:
        pid, host, since = (holder.get(key) for key in ("pid", "host", "since"))
        hint = "wait for it, end it, or take another folder"
        if (pid, host) == (os.getpid(), platform.node()):
            who = f"this process (pid {pid})"
            hint = "another folder; a gw.Run has one for its checkpoints: gw.Checkpoints(run)"
        elif pid is None:
            who = "another process"
        else:
            who = f"the process with pid {pid} on {host}"
        return TrainingError(
            f"{self.what} is in use by {who}" + (f" since {since}" if since else ""),
            facts=[
                f"lock file {self.path}",
                *([f"it runs {c}"] if (c := holder.get("runs")) else []),
            ],
            hint=hint,
        )


def _write(descriptor: int) -> None:
    since = time.strftime("%Y-%m-%d %H:%M:%S %z")
    runs = Path(sys.argv[0]).name if sys.argv else ""
    holder = {"pid": os.getpid(), "host": platform.node(), "since": since, "runs": runs}
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.write(descriptor, json.dumps(holder).encode())


def _read(descriptor: int) -> dict[str, Any]:
    """Return what the holder has written, as far as it can be read."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    try:
        found = json.loads(os.read(descriptor, 4096))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _forked() -> None:
    """Close what a child has inherited: the lock would outlive the parent that holds it."""
    for lock in list(_held):
        if lock.is_held:
            os.close(lock._descriptor)
            lock._descriptor = -1


_held = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
