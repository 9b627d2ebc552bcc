"""Resuming: a trainer takes over what a checkpoint holds, all of it or nothing."""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
import weakref
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ArchiveError, GradwrightError, TrainingError, user_frame
from ...formats.archive.archive import STATE, VALUES, opened
from ...formats.archive.tensors import read_tensors
from ...session import Session
from ...spec import TensorSpec
from ..trainer import Trainer
from ..training import Training
from .base import check_base
from .folder import Checkpoint, Listing, best, read_record, reason, scan
from .settings import MOST, adopt, differences, libraries, refused, settings_of
from .snapshot import TRAINER, Lineage

Array = np.ndarray[Any, Any]
LOG = logging.getLogger("gradwright.train")
CHECKPOINTS = "checkpoints"
"""The folder of checkpoints in the folder of a run."""

TRAININGS: weakref.WeakKeyDictionary[Training, Lineage] = weakref.WeakKeyDictionary()
"""Which training a trainer carries on: that of its checkpoints, or of the one it was resumed from.
"""


def resume(
    trainer: Trainer,
    folder: Any,
    which: str | int | os.PathLike[str] = "last",
    *,
    allow: str | Collection[str] = (),
    missing_ok: bool = False,
) -> Checkpoint | None:
    """Have a trainer go on from a checkpoint, and return which one that is.

    The trainer is made as it was then, by the same code; all that training has changed is taken
    over: variables, state of the optimizer and of callbacks, the place in schedules, random numbers
    and data, the history. In a deterministic session on the same machine the next step is, to the
    bit, that of a training that was never interrupted.

    Args:
        trainer: a trainer of the same graph; it must not be running.
        folder: a folder of checkpoints, or a run or its folder.
        which: ``"last"``, which is the newest that is whole: others are reported in a warning;
            ``"best"`` by the metric that was monitored; a number of steps; or a path.
        allow: what may differ from the settings that were saved: names of fields as the error
            lists them, such as ``"config.optimizer"``, or ``"all"``. The trainer's own then hold.
        missing_ok: return None where the folder holds nothing that is called like a checkpoint.

    Raises TrainingError where there is no such checkpoint, where all are damaged, and where
    settings, shapes, or the data of the next ``fit`` are others, as sizes, order and some 16 rows
    tell; then nothing has changed.

    >>> import gradwright as gw, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> def trainer():
    ...     g = gw.Graph()
    ...     w = g.variable("w", (), init=2.0)
    ...     checkpoints = gw.Checkpoints(folder)
    ...     return gw.Trainer(g, w * w, optimizer=gw.optim.Adam(0.1), callbacks=[checkpoints])
    >>> history = trainer().fit([{}, {}], epochs=3, progress=False)
    >>> again = trainer()
    >>> gw.resume(again, folder).epoch, again.steps_done
    (3, 6)
    """
    place = folder_of(folder)
    if not (found := scan(place)) and not found.damaged and (place / CHECKPOINTS).is_dir():
        place = _of_run(place)
        found = scan(place)
    if trainer.status != "idle":
        raise TrainingError(f"the trainer is {trainer.status}", hint="trainer.stop() first")
    trainer.parts.weights.check()
    if isinstance(which, str) and which not in ("last", "best"):
        which = Path(which)
    if missing_ok and not found and not found.damaged:
        return None
    chosen, content = _read(place, which, found)
    take_over(trainer, chosen, content, allow)
    return chosen


def folder_of(place: Any) -> Path:
    """Return the folder of checkpoints: a path, or the one that a run has for them."""
    if isinstance(place, str | os.PathLike):
        return Path(place)
    folder = getattr(place, "folder", None)
    if isinstance(folder, str | os.PathLike):
        return _of_run(Path(folder))
    raise TrainingError(f"{place!r} is no folder", need="a path, or a gw.Run")


def _of_run(folder: Path) -> Path:
    """Return the checkpoints of a run's folder; raises TrainingError where they lie elsewhere."""
    place = folder / CHECKPOINTS
    if place.is_symlink():
        raise TrainingError(
            f"{str(place)!r} is a symbolic link, which a run folder does not follow",
            hint=f"name the folder itself: {str(place.resolve())!r}",
        )
    return place


# -- reading --------------------------------------------------------------------------------------


def _read(
    place: Path, which: str | int | os.PathLike[str], found: Listing
) -> tuple[Checkpoint, tuple[dict[str, Array], dict[str, Array]]]:
    """Return the checkpoint that was asked for, with all its arrays; each byte is verified."""
    bad = {p.name: why for p, why in found.damaged.items()}
    for one in _candidates(place, which, found):
        try:
            with opened(one.path) as reader:
                values = read_tensors(reader, VALUES, mapped=False)
                state = read_tensors(reader, f"{STATE}/{TRAINER}", mapped=False)
        except (ArchiveError, OSError) as error:
            bad[one.path.name] = reason(error)
            continue
        if bad and which == "last":
            listed = "".join(f"\n  {name}: {why}" for name, why in bad.items())
            _warn(
                f"checkpoints of {str(place)!r} are damaged; {one.path.name} is whole and is "
                f"taken{listed}"
            )
        return one, (values, state)
    what = {"last": "checkpoint", "best": "best checkpoint"}.get(str(which), f"checkpoint {which}")
    raise TrainingError(
        f"the folder {str(place)!r} holds no whole {what}",
        facts=[f"{name}: {why}" for name, why in bad.items()][:MOST]
        + ([f"it holds steps {', '.join(str(c.step) for c in found)}"] if found else []),
        hint="" if bad else "missing_ok=True begins anew where there is none",
    )


def _candidates(
    place: Path, which: str | int | os.PathLike[str], found: Listing
) -> list[Checkpoint]:
    """Return what to try, in turn."""
    if isinstance(which, os.PathLike):
        path = Path(which)
        try:
            return [read_record(path)]
        except (ArchiveError, OSError) as error:
            raise TrainingError(f"{path} is no checkpoint: {reason(error)}") from error
    if which == "last":
        return list(reversed(found))
    if which == "best":
        monitor, mode = (found[-1].monitor, found[-1].mode) if found else ("", "")
        ranked = best(found, monitor, mode)
        if found and not ranked:
            measured = dict.fromkeys(n for c in found if c.is_epoch_end for n in c.metrics)
            raise TrainingError(
                f"no checkpoint of {str(place)!r} has measured {monitor!r}",
                facts=["measured: " + (", ".join(measured) or "nothing")],
                hint="Checkpoints(monitor=...)",
            )
        return ranked[:1]
    if type(which) is not int:
        raise TrainingError(
            f"which={which!r} is no checkpoint", need='"last", "best", a number of steps or a path'
        )
    return [c for c in found if c.step == which]


# -- taking over ----------------------------------------------------------------------------------


def take_over(
    trainer: Trainer,
    one: Checkpoint,
    content: tuple[dict[str, Array], dict[str, Array]],
    allow: str | Collection[str],
) -> None:
    """Have a trainer go on from a checkpoint's values and state, all of it or nothing."""
    with _state_of(one):
        values, state = content
        present = settings_of(trainer)
        differing, since = differences(one.settings, present), differences(one.present, present)
        edits = {name: text for name, text in since.items() if name.startswith("variables.")}
        if since and (other := refused(differing or edits, allow)):
            lines = [f"{name}: {text}" for name, text in other.items()]
            raise TrainingError(
                f"{one.path.name} is of a training with other settings, so nothing was taken over",
                facts=lines[:MOST] + ([f"and {len(lines) - MOST} more"] if lines[MOST:] else []),
                need="the settings that were saved (left)",
                hint=f"allow={next(iter(other))!r} if that is meant, or allow='all'",
            )
        check_base(trainer, one)
        own = _fitting(trainer, one, values)
        record = _tuning_for(trainer.session, one)
        is_free = not refused({"data": ""}, allow)
        with trainer.parts.all_or_nothing():
            if not differing and since:
                adopt(trainer, one.present)
            trainer.values.restore(own)
            trainer.load_state_dict(state)
            trainer.parts.position.is_bound = trainer.batches_done > 0 and not is_free
            began = settings_of(trainer) if differing else one.settings
            if record is not None:
                trainer.session.retune(record)
        TRAININGS[trainer] = Lineage(one.training, began)
        LOG.debug("resumed from %s, step %d", one.path.name, one.step)


@contextlib.contextmanager
def _state_of(one: Checkpoint) -> Iterator[None]:
    """Have whatever a block makes of a checkpoint's content be a TrainingError that names it."""
    try:
        yield
    except (GradwrightError, MemoryError, Warning):
        raise
    except Exception as error:  # of whatever kind: what a callback, a class or a metric makes of it
        raise TrainingError(
            f"{one.path.name} holds what is no state of this training: "
            f"{type(error).__name__}: {error}",
            facts=["the trainer is as it was"],
            hint="gw.resume(trainer, folder, step) with the step of an earlier checkpoint",
        ) from error


def _fitting(trainer: Trainer, one: Checkpoint, values: Mapping[str, Array]) -> dict[str, Array]:
    """Return the saved values of the graph's variables; raises TrainingError for other shapes."""
    own = {}
    for t in trainer.graph.variables:
        if t.name not in values:
            continue
        held = trainer.values[t.name]
        spec, came = (TensorSpec(a.shape, a.dtype) for a in (held, values[t.name]))
        if came != spec:
            raise TrainingError(
                f"variable {t.name!r} is {spec}, in {one.path.name} {came}",
                need=f"{came}, or another checkpoint",
            )
        own[t.name] = values[t.name]
    return own


def _tuning_for(session: Session, one: Checkpoint) -> Mapping[str, Any] | None:
    """Return how a session is to use threads, as the one that wrote the checkpoint did.

    None where its plans are there already. What cannot be had again, such as another version of
    numpy, is told before anything changes: bits may then differ.
    """
    known = session.tuning
    written = {"device": "cpu", **one.tuning}  # which was the only one
    can_be_had = not session.plans and written["device"] == known["device"]
    if can_be_had and written.get("threads"):
        known = known | {"threads": written["threads"]}
    saved = {**written, **one.libraries, "choices": {}}
    if other := differences(saved, {**known, **libraries(), "choices": {}}):
        hint = (
            "\n  try:  gw.Trainer(..., deterministic=True), or gw.Checkpoints among its callbacks"
        )
        _warn(
            f"{one.path.name} was written under other conditions, so the last bits of numbers may "
            f"differ: {', '.join(f'{name} {text}' for name, text in other.items())}"
            + ("" if session.deterministic else hint)
        )
    return one.tuning if can_be_had else None


def _warn(text: str) -> None:
    """Warn at the user's line, however many calls lie between."""
    frame = user_frame()
    if frame is None:
        warnings.warn(text, stacklevel=2)
        return
    seen = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(
        text, UserWarning, frame.f_code.co_filename, frame.f_lineno, registry=seen
    )
