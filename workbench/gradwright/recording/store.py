"""Store: the index of runs, in SQLite, which many notebooks and processes write at once.

It is a cache: the run folders hold the truth. Whatever is amiss with the database, it is made again
from them, with a warning.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from ..errors import TrainingError
from ..files.lock import Lock
from ..files.plain import check_plain, opened
from .course import fields as fields_of
from .course import real, text, time_of, whole
from .events import number, plain
from .folder import RunFolder, RunSummary, is_run

T = TypeVar("T")
VERSION = 1
PATIENCE = 30.0
"""Seconds to wait for others that write."""
COLUMNS = [f.name for f in fields(RunSummary)]
_OTHERS = [name for name in COLUMNS if name != "folder"]
_SCHEMA = f"CREATE TABLE IF NOT EXISTS runs (folder TEXT PRIMARY KEY, {', '.join(_OTHERS)})"
_PUT = (
    f"INSERT OR REPLACE INTO runs ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
)


def default_root() -> Path:
    """Return where runs go: ``$GRADWRIGHT_RUNS``, else a folder among the user's data.

    >>> default_root().is_absolute()
    True
    """
    chosen = os.environ.get("GRADWRIGHT_RUNS", "")
    if chosen:
        return Path(chosen).expanduser().absolute()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Application Support"
    else:
        base = os.environ.get("XDG_DATA_HOME", "") or "~/.local/share"
    return Path(base).expanduser().absolute() / "gradwright" / "runs"


class Store:
    """The index of the runs in a folder, and of those elsewhere that were entered into it.

    Args:
        root: the folder; default ``$GRADWRIGHT_RUNS``, else one among the user's data. The index is
            ``runs.db`` there; nothing is made before a run is entered.

    >>> import tempfile, gradwright as gw
    >>> store = gw.train.Store(tempfile.mkdtemp())
    >>> g = gw.Graph("parabola")
    >>> w = g.variable("w", (), init=2.0)
    >>> trainer = gw.Trainer(g, w * w, callbacks=[gw.Run(store=store)])
    >>> history = trainer.fit([{}], progress=False)
    >>> [row.name for row in store.rows()]
    ['parabola']
    """

    def __init__(self, root: str | os.PathLike[str] | None = None) -> None:
        self.root = default_root() if root is None else Path(root).absolute()
        self.path = self.root / "runs.db"
        self._elsewhere = self.root / "elsewhere.jsonl"
        """Folders of runs that are not in ``root``, one JSON string a line."""

    def put(self, row: RunSummary) -> None:
        """Enter a run, or what has become of it. An index that cannot be written is a warning."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self._remember(row.folder)
            self._do(lambda db: db.execute(_PUT, _stored(row)))
        except (OSError, sqlite3.Error, TrainingError) as error:
            warnings.warn(
                f"a run is not in the index {str(self.path)!r}: {error}; its folder has it all",
                stacklevel=2,
            )

    def rows(self) -> list[RunSummary]:
        """Return all runs, the latest first; those whose folder is gone are forgotten.

        Folders that are new in ``root``, such as copied ones, are entered. Where the index cannot
        be used, as on a disk that is full or read-only, the folders tell, with a warning.
        """
        if not self.root.is_dir():
            return []
        try:
            rows = self._indexed()
        except (OSError, sqlite3.Error, TrainingError) as error:
            warnings.warn(
                f"the index of runs {str(self.path)!r} is not used: {error}; the run folders are "
                "read instead",
                stacklevel=3,
            )
            rows = [row for folder in self._folders() for row in _summary(folder)]
        return sorted(rows, key=lambda row: -row.created)

    def _indexed(self) -> list[RunSummary]:
        found = {row.folder: row for row in self._do(_read)}
        gone = [folder for folder in found if not is_run(folder)]
        new = [row for folder in self._folders() if folder not in found for row in _summary(folder)]
        for row in new:
            self.put(row)
        if gone:
            self._do(
                lambda db: db.executemany("DELETE FROM runs WHERE folder = ?", [(f,) for f in gone])
            )
        return [row for row in found.values() if row.folder not in gone] + new

    def rebuild(self) -> None:
        """Make the index again from the run folders.

        It takes the place of the old one as a whole. Raises TrainingError where others make it for
        over half a minute.
        """
        with self._alone():
            try:
                self._try(self._refill)  # others go on with the file, so it stays
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError:
                self._replace()

    # -- the database ----------------------------------------------------------------------------

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do ``work`` in a transaction; make the database again first where it is damaged.

        What a newer gradwright has made is left to it: that is a TrainingError.
        """
        try:
            return self._try(work)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_IOERR:
                raise  # a full disk, a lock that is held: the database itself is sound
            return self._try(work)  # somebody has put a sound file in its place meanwhile
        except sqlite3.DatabaseError as error:
            with self._alone():
                try:
                    return self._try(work)  # another process may have mended it
                except sqlite3.DatabaseError:
                    warnings.warn(
                        f"the index of runs {str(self.path)!r} is damaged ({error}); it is made "
                        "again from the run folders",
                        stacklevel=4,
                    )
                    self._replace()
                    return self._try(work)

    def _try(self, work: Callable[[sqlite3.Connection], T]) -> T:
        check_plain(self.path)
        with _opened(self.path, "WAL") as db:
            return work(db)

    def _refill(self, db: sqlite3.Connection) -> None:
        """Read the folders within a transaction: what a run enters comes before or after it."""
        rows = [_stored(row) for folder in self._folders() for row in _summary(folder)]
        db.execute("DELETE FROM runs")
        db.executemany(_PUT, rows)

    def _replace(self) -> None:
        """Put a new file in the place of one that is damaged."""
        part = self.path.with_suffix(f".{os.getpid()}.part")
        part.unlink(missing_ok=True)
        with _opened(part, "DELETE") as db:
            self._refill(db)
        for ending in ("-wal", "-shm"):
            self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
        part.replace(self.path)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Be the one process that makes the database again."""
        lock, until = Lock(self.root / ".rebuild", "the index of runs"), time.monotonic() + PATIENCE
        while True:
            try:
                lock.acquire()
                break
            except TrainingError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
        with lock:
            yield

    # -- the folders -----------------------------------------------------------------------------

    def _folders(self) -> list[str]:
        """Return all run folders that are there."""
        inside = [str(path) for path in sorted(self.root.iterdir()) if is_run(path)]
        return list(dict.fromkeys([*inside, *self._others()]))

    def _others(self) -> list[str]:
        found = []
        try:
            with opened(self._elsewhere) as file:
                for line in file:
                    with contextlib.suppress(ValueError, RecursionError):  # torn by a crash
                        folder = json.loads(line)
                        if isinstance(folder, str) and is_run(folder):
                            found.append(folder)
        except FileNotFoundError:
            pass
        except OSError as error:
            warnings.warn(
                f"{str(self._elsewhere)!r} cannot be read: {error.strerror}", stacklevel=2
            )
        return found

    def _remember(self, folder: str) -> None:
        """Note a folder that is not in ``root``, for when the index is made again."""
        if Path(folder).parent != self.root and folder not in self._others():
            with opened(self._elsewhere, "ab") as file:
                file.write(json.dumps(folder).encode() + b"\n")

    def __repr__(self) -> str:
        return f"<Store {str(self.path)!r}>"


@contextlib.contextmanager
def _opened(path: Path, journal: str) -> Iterator[sqlite3.Connection]:
    """Open the database for one transaction, and make its table where it is new."""
    db = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
    try:
        db.execute(f"PRAGMA journal_mode = {journal}")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("BEGIN IMMEDIATE")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            db.execute(_SCHEMA)
            db.execute(f"PRAGMA user_version = {VERSION}")
        elif version > VERSION:
            raise TrainingError(
                f"it was written by a newer gradwright (format {version}; this reads up to "
                f"{VERSION})"
            )
        elif version != VERSION:
            raise sqlite3.DatabaseError(f"it has version {version}, and not {VERSION}")
        yield db
        db.execute("COMMIT")
    finally:
        db.close()


def _stored(row: RunSummary) -> list[Any]:
    """Return a row as SQLite holds it: tags and metrics as JSON."""
    found = asdict(row)
    found["tags"] = json.dumps(list(row.tags))
    found["metrics"] = json.dumps({k: plain(v) for k, v in row.metrics.items()}, allow_nan=False)
    return [found[name] for name in COLUMNS]


def _read(db: sqlite3.Connection) -> list[RunSummary]:
    """Return all rows; raises DatabaseError for what is none."""
    found = []
    for values in db.execute(f"SELECT {', '.join(COLUMNS)} FROM runs"):
        try:
            found.append(_row(dict(zip(COLUMNS, values, strict=True))))
        except (TypeError, ValueError, AttributeError, RecursionError) as error:
            raise sqlite3.DatabaseError(f"a row of it cannot be read: {error}") from error
    return found


def _row(held: dict[str, Any]) -> RunSummary:
    """Return a row of the table as it was put in; raises ValueError and others for what is none."""
    checks: dict[str, Callable[[Any], Any]] = {
        **dict.fromkeys(held, text),
        **dict.fromkeys(("steps", "epochs", "pid"), whole),
        **dict.fromkeys(("created", "updated"), time_of),
        "seconds": real,
        "tags": lambda v: tuple(map(text, json.loads(v))),
        "metrics": lambda v: {n: number(x) for n, x in fields_of(json.loads(v)).items()},
    }
    return RunSummary(**{name: checks[name](value) for name, value in held.items()})


def _summary(folder: str) -> list[RunSummary]:
    """Return the row of a folder; none, and a warning, where it cannot be read."""
    try:
        return [RunFolder(folder).summary()]
    except Exception as error:  # of whatever kind: one folder never hides the others
        warnings.warn(f"the run folder {folder!r} is left out: {error}", stacklevel=2)
        return []
