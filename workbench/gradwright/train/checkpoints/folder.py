"""A folder of checkpoints: what it holds, which are good, which is the best, which may go."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import ArchiveError, TrainingError
from ...files.plain import check_plain
from ...formats.archive.archive import opened
from ...formats.archive.container import Reader
from ...formats.checked import check_version, expect, expect_fields
from ...words.jsonable import from_json

RECORD = "checkpoint.json"
"""The member that tells what a checkpoint is of."""
FORMAT = 1
"""Version of the record; one that states none is of the first."""
PREFIX = ".checkpoint"
_NAME = re.compile(r"step-\d{9,}(\+\d+)?\.gw")
_TEMPORARY = re.compile(re.escape(PREFIX) + r"-[0-9a-f]{16}\.tmp")
_FIELDS = {
    **dict.fromkeys(("serial", "step", "epoch", "batch"), int),
    **dict.fromkeys(("training", "time", "monitor", "mode"), str),
    **dict.fromkeys(("metrics", "settings", "present", "tuning", "libraries"), dict),
    "is_epoch_end": bool,
}


def name_of(step: int, gathered: int = 0) -> str:
    """Return the name of the file for a step, and for batches that wait for the next one.

    >>> name_of(1200), name_of(1200, 2)
    ('step-000001200.gw', 'step-000001200+2.gw')
    """
    return f"step-{step:09}" + (f"+{gathered}" if gathered else "") + ".gw"


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint of a folder: where the training was, and what it had measured.

    >>> import gradwright as gw, tempfile
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=2.0)
    >>> checkpoints = gw.Checkpoints(tempfile.mkdtemp())
    >>> trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(0.25), callbacks=[checkpoints])
    >>> history = trainer.fit([{}, {}], epochs=2, progress=False)
    >>> last = checkpoints.list()[-1]
    >>> last.step, last.epoch, last.metrics["loss"], last.path.name
    (4, 2, 0.15625, 'step-000000004.gw')
    """

    path: Path
    nbytes: int
    serial: int
    """Which checkpoint of the folder it is, counted from 1 in the order of writing."""
    step: int
    epoch: int
    """Epochs that were done."""
    batch: int
    """Batches of the epoch after them that were done."""
    is_epoch_end: bool
    metrics: Mapping[str, float]
    """Those of the epoch at its end, else those of the latest step."""
    time: str
    """When it was taken, in UTC."""
    training: str = field(repr=False)
    """The same for all checkpoints of one training, however often it was resumed."""
    monitor: str = field(repr=False)
    mode: str = field(repr=False)
    settings: Mapping[str, Any] = field(repr=False)
    """What the training began with, as code wrote it."""
    present: Mapping[str, Any] = field(repr=False)
    """What had become of that when the checkpoint was taken."""
    tuning: Mapping[str, Any] = field(repr=False)
    libraries: Mapping[str, Any] = field(repr=False)
    made: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """How the trainer was made beside its configuration, where ``gw.save`` wrote it."""
    base: Mapping[str, int] = field(default_factory=dict, repr=False)
    """Checksums of the arrays of the model that were left out."""

    def rank(self, monitor: str, mode: str) -> float:
        """Return how good it is by a metric of epochs; the least is the best, NaN the worst."""
        value = self.metrics.get(monitor, math.nan) if self.is_epoch_end else math.nan
        if math.isnan(value):
            return math.inf
        return value if mode == "min" else -value


class Listing(tuple[Checkpoint, ...]):
    """The good checkpoints of a folder in the order of writing, shown as a table.

    ``damaged`` says of each other file that is called like one why it is none.

    >>> import gradwright as gw, tempfile
    >>> gw.Checkpoints(tempfile.mkdtemp()).list()
    no checkpoints
    """

    damaged: Mapping[Path, str]

    def __repr__(self) -> str:
        names = list(dict.fromkeys(n for c in self for n in c.metrics if n not in _HIDDEN))[:6]
        rows = [["step", "epoch", *names, "bytes", "time (UTC)", "file"]]
        for c in self:
            shown = [f"{c.metrics[n]:.4g}" if n in c.metrics else "" for n in names]
            at = f"{c.epoch}" if not c.batch else f"{c.epoch} + {c.batch} batches"
            rows.append([f"{c.step}", at, *shown, f"{c.nbytes:,}", c.time, c.path.name])
        widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(t.rjust(w) for t, w in zip(r, widths, strict=True)) for r in rows]
        lines = lines if self else ["no checkpoints"]
        return "\n".join([*lines, *(f"damaged: {p.name}: {t}" for p, t in self.damaged.items())])


_HIDDEN = ("grad_norm", "learning_rate")


def read_record(path: Path) -> Checkpoint:
    """Return what a file is a checkpoint of, without reading arrays.

    Raises ArchiveError where it is damaged or no checkpoint, OSError where it cannot be read.
    """
    with opened(path) as reader:
        return record_in(reader, path)


def record_in(reader: Reader, path: Path) -> Checkpoint:
    """Return what an open archive is a checkpoint of."""
    found = reader.json(RECORD)
    check_version(found.pop("format", 1), FORMAT)
    row = expect_fields(found, _FIELDS, ("made", "base"), "the record", RECORD)
    for name, kind in {**_FIELDS, "made": dict, "base": dict}.items():
        expect(row.get(name, {}), kind, name, RECORD)
    for name in ("settings", "present"):
        _check_settings(row[name], name)
    for name, number in row.get("base", {}).items():
        expect(number, int, f"the checksum of {name[:60]!r}", RECORD)
    least = min((row[name], name) for name in ("serial", "step", "epoch", "batch"))
    if least[0] < 0:
        raise ArchiveError(f"{least[1]} is {least[0]}", where=RECORD, need="an int >= 0")
    try:
        metrics = {name: float(value) for name, value in from_json(row["metrics"]).items()}
    except (TrainingError, TypeError, ValueError, AttributeError) as error:
        raise ArchiveError(f"metrics are no numbers: {error}", where=RECORD) from None
    return Checkpoint(path=path, nbytes=reader.nbytes, **row | {"metrics": metrics})


def _check_settings(saved: dict[str, Any], what: str) -> None:
    kinds: dict[str, type[Any]]
    kinds = {"config": dict, "variables": dict, "frozen": list, "session": dict}
    expect_fields(saved, kinds, (), what, RECORD)
    for name, kind in kinds.items():
        expect(saved[name], kind, f"{what}.{name}", RECORD)
    for text in (*saved["variables"].values(), *saved["frozen"]):
        expect(text, str, f"a variable of {what}", RECORD)


def scan(folder: Path) -> Listing:
    """Return the checkpoints of a folder; one that does not exist holds none.

    Links, pipes and devices that are called like one count as damaged. Raises TrainingError for a
    folder that cannot be read.
    """
    good: list[Checkpoint] = []
    damaged: dict[Path, str] = {}
    for path in _entries(folder):
        if not _NAME.fullmatch(path.name):
            continue
        try:
            check_plain(path)
            good.append(read_record(path))
        except FileNotFoundError:  # another process has deleted it meanwhile
            continue
        except (ArchiveError, OSError) as error:
            damaged[path] = reason(error)
    found = Listing(sorted(good, key=lambda c: (c.serial, c.step)))
    found.damaged = damaged
    return found


def reason(error: Exception) -> str:
    """Return one line that says why a file was refused."""
    if isinstance(error, ArchiveError):
        member = error.where.rpartition(", ")[2] if ", " in error.where else ""
        return f"{member}: {error.problem}" if member else error.problem
    return (error.strerror if isinstance(error, OSError) else "") or str(error)


def best(found: Iterable[Checkpoint], monitor: str, mode: str) -> list[Checkpoint]:
    """Return the ends of epochs that have the metric, the best first; of equals, the earlier."""
    ranked = sorted(found, key=lambda c: (c.rank(monitor, mode), c.serial))
    return [c for c in ranked if c.rank(monitor, mode) < math.inf]


def expendable(
    found: Listing, *, last: int, n_best: int, monitor: str, mode: str, every: int | None
) -> list[Checkpoint]:
    """Return what may go: neither among the last, nor the best, nor those kept for good.

    The latter are at least ``every`` steps apart, counted from 0.
    """
    kept = {c.path for c in found[-last:]} | {c.path for c in best(found, monitor, mode)[:n_best]}
    mark = 0
    for c in sorted(found, key=lambda c: c.step):
        if every is not None and c.step - mark >= every:
            kept.add(c.path)
            mark = c.step
    return [c for c in found if c.path not in kept]


def leftovers(folder: Path) -> list[Path]:
    """Return files that a process has begun to write before it died; only under the lock."""
    return [p for p in _entries(folder) if _TEMPORARY.fullmatch(p.name) and not _is_folder(p)]


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise TrainingError(
            f"the folder {str(folder)!r} cannot be read: {error.strerror}",
            hint="a folder that this process may read",
        ) from error


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def utc() -> str:
    """Return the time as it stands in records."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
