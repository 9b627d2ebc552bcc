"""Stores: where arrays wait that are not needed now, in memory or on disk."""

from __future__ import annotations

import os
import queue
import shutil
import tempfile
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import GraphError, TrainingError

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]


class Store:
    """Groups of named arrays by key; base of where they are kept."""

    def put(self, key: str, arrays: Arrays) -> None:
        """Keep arrays; they must not be written any more."""
        raise NotImplementedError

    def get(self, key: str) -> dict[str, Array]:
        """Return the arrays of a key; raises GraphError if there are none."""
        raise NotImplementedError

    def drop(self, key: str) -> None:
        """Forget the arrays of a key."""
        raise NotImplementedError

    def prefetch(self, key: str) -> None:
        """Begin to fetch arrays that will be asked for soon."""

    def pop(self, key: str) -> dict[str, Array]:
        """Return the arrays of a key and forget them."""
        found = self.get(key)
        self.drop(key)
        return found

    def close(self) -> None:
        """Forget everything."""


class Memory(Store):
    """Keeps arrays where they are, in the host's memory.

    >>> import numpy as np
    >>> store = Memory()
    >>> store.put("layer", {"w": np.ones(2)})
    >>> store.pop("layer")["w"].tolist(), len(store)
    ([1.0, 1.0], 0)
    """

    def __init__(self) -> None:
        self._held: dict[str, dict[str, Array]] = {}

    def put(self, key: str, arrays: Arrays) -> None:
        """Keep arrays."""
        self._held[key] = dict(arrays)

    def get(self, key: str) -> dict[str, Array]:
        """Return the arrays of a key."""
        return dict(_found(self._held, key))

    def drop(self, key: str) -> None:
        """Forget the arrays of a key."""
        self._held.pop(key, None)

    def close(self) -> None:
        """Forget everything."""
        self._held.clear()

    def __len__(self) -> int:
        return len(self._held)

    def __repr__(self) -> str:
        return f"<Memory of {len(self)} groups>"


class Disk(Store):
    """Keeps arrays in files of a scratch folder, written and read ahead by a thread of its own.

    Memory holds what is on its way to the disk, at most ``ahead`` groups, and what was read ahead.
    The files are raw bytes and mean nothing without this object: for what shall last there are
    checkpoints. The folder is removed with the store.

    Args:
        folder: where the scratch folder is made; default the system's folder for such files, which
            may itself be in memory.
        ahead: how many groups may wait to be written before ``put`` waits.

    Raises TrainingError, at the next call, when a file could not be written. What it should hold
    stays in memory, and it is tried again.

    >>> import numpy as np
    >>> with Disk() as store:
    ...     store.put("layer", {"w": np.arange(3.0), "b": np.zeros((), "float32")})
    ...     store.get("layer")["w"].tolist()
    [0.0, 1.0, 2.0]
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, *, ahead: int = 2) -> None:
        try:
            self.folder = Path(tempfile.mkdtemp(prefix="gradwright-", dir=folder))
        except OSError as error:
            raise TrainingError(
                f"no scratch folder can be made in {os.fspath(folder or tempfile.gettempdir())!r}",
                facts=[str(error)],
                hint="Disk(folder) names one that can be written",
            ) from None
        self._lock = threading.Condition()
        self._specs: dict[str, dict[str, tuple[np.dtype[Any], tuple[int, ...]]]] = {}
        self._files: dict[str, Path] = {}
        self._writing: dict[str, dict[str, Array]] = {}
        """What is not on the disk yet."""
        self._read: dict[str, dict[str, Array]] = {}
        """What was fetched ahead."""
        self._reading = ""
        """What the thread reads now."""
        self._ahead, self._count = ahead, 0
        self._error: OSError | None = None
        self._work: queue.SimpleQueue[tuple[str, str] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=_serve, args=(weakref.ref(self), self._work), name="offload", daemon=True
        )
        self._thread.start()
        self._end = weakref.finalize(self, _remove, self.folder, self._work, self._thread)

    # -- what is asked ---------------------------------------------------------------------------

    def put(self, key: str, arrays: Arrays) -> None:
        """Keep arrays; returns before they are written, unless too many wait for that."""
        held = {name: np.ascontiguousarray(a) for name, a in arrays.items()}
        held = {name: a.reshape(np.shape(arrays[name])) for name, a in held.items()}
        with self._lock:
            self._check()
            while len(self._writing) >= self._ahead and key not in self._writing:
                self._lock.wait()
                self._check()
            self._forget(key)
            self._specs[key] = {name: (a.dtype, a.shape) for name, a in held.items()}
            self._writing[key] = held
            self._work.put(("write", key))

    def get(self, key: str) -> dict[str, Array]:
        """Return the arrays of a key; those from disk are fresh."""
        with self._lock:
            self._check()
            specs = _found(self._specs, key)
            while self._reading == key:
                self._lock.wait()
            if key in self._writing:
                return dict(self._writing[key])
            if key in self._read:
                return self._read.pop(key)
            return _load(self._files[key], specs)

    def drop(self, key: str) -> None:
        """Forget the arrays of a key and remove their file."""
        with self._lock:
            self._forget(key)

    def prefetch(self, key: str) -> None:
        """Have the arrays of a key read in the background."""
        with self._lock:
            if key in self._specs and key not in self._writing and key not in self._read:
                self._work.put(("read", key))

    def close(self) -> None:
        """Stop the thread and remove all files."""
        self._end()
        with self._lock:
            for held in (self._specs, self._files, self._writing, self._read):
                held.clear()

    def __enter__(self) -> Disk:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._specs)

    def __repr__(self) -> str:
        return f"<Disk of {len(self)} groups in {self.folder}>"

    # -- under the lock --------------------------------------------------------------------------

    def _check(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            for key in self._writing:  # they are still in memory
                self._work.put(("write", key))
            raise TrainingError(
                f"arrays cannot be offloaded to {self.folder}",
                facts=[str(error)],
                hint="free some space: it is tried again; or Disk(folder) on another disk",
            )
        if not self._end.alive:
            raise GraphError("this store is closed")

    def _forget(self, key: str) -> None:
        self._specs.pop(key, None)
        self._writing.pop(key, None)
        self._read.pop(key, None)
        if path := self._files.pop(key, None):
            path.unlink(missing_ok=True)

    # -- in the thread ---------------------------------------------------------------------------

    def _do(self, what: str, key: str) -> None:
        if what == "write":
            self._write(key)
        else:
            self._fetch(key)

    def _write(self, key: str) -> None:
        with self._lock:
            held = self._writing.get(key)
            self._count += 1
            path = self.folder / str(self._count)
        if held is None:  # dropped meanwhile
            return
        try:
            with path.open("wb") as file:
                for array in held.values():
                    file.write(array.reshape(-1).view(np.uint8).data)
        except OSError as error:
            path.unlink(missing_ok=True)
            with self._lock:
                self._error = error
                self._lock.notify_all()
            return
        with self._lock:
            if self._writing.get(key) is held:
                del self._writing[key]
                self._files[key] = path
            else:  # dropped, or put anew
                path.unlink(missing_ok=True)
            self._lock.notify_all()

    def _fetch(self, key: str) -> None:
        with self._lock:
            path, specs = self._files.get(key), self._specs.get(key)
            if path is None or specs is None or key in self._read:
                return
            self._reading = key
        found = None
        try:
            found = _load(path, specs)
        except OSError:
            pass  # dropped meanwhile, or whoever asks for it will meet the error
        finally:
            with self._lock:
                if found is not None and self._files.get(key) is path:
                    self._read[key] = found
                self._reading = ""
                self._lock.notify_all()


def _load(
    path: Path, specs: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]]
) -> dict[str, Array]:
    found: dict[str, Array] = {}
    with path.open("rb") as file:
        for name, (dtype, shape) in specs.items():
            found[name] = array = np.empty(shape, dtype)
            file.readinto(array.reshape(-1).view(np.uint8).data)
    return found


def _serve(store: weakref.ref[Disk], work: queue.SimpleQueue[tuple[str, str] | None]) -> None:
    while (item := work.get()) is not None:
        held = store()
        if held is None:
            return
        held._do(*item)
        del held


def _remove(
    folder: Path, work: queue.SimpleQueue[tuple[str, str] | None], thread: threading.Thread
) -> None:
    work.put(None)
    if thread is not threading.current_thread():
        thread.join(5)
    shutil.rmtree(folder, ignore_errors=True)


def _found(held: Mapping[str, Any], key: str) -> Any:
    if key not in held:
        raise GraphError(f"nothing is kept under {key!r}")
    return held[key]
