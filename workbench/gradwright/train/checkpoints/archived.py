"""Archived trainings: ``gw.save(g, path, trainer=...)`` and ``gw.load(path).trainer()``.

The archive is a checkpoint by content (:mod:`.snapshot`), written where and when the user says, so
``gw.resume`` and ``gw.inspect`` read it, too. What is code has no place in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ...errors import ArchiveError, GradwrightError, TrainingError
from ...evaluation.metrics import Metric
from ...formats.archive.archive import ORIGINS, STATE, reopened
from ...formats.archive.document import DOCUMENT
from ...formats.archive.tensors import read_tensors
from ...formats.checked import expect
from ...graph import Graph, Tensor
from ...session import Session
from ...words.jsonable import from_json
from ..callbacks import Callback
from ..config import TrainingConfig
from ..objective import Supervised, own_objective
from ..trainer import Trainer
from ..validation import swapped_out
from .folder import RECORD, Checkpoint, record_in
from .resuming import TRAININGS, take_over
from .settings import settings_of
from .snapshot import TRAINER, Documents, Lineage, taken

Array = np.ndarray[Any, Any]


def archived(
    graph: Graph, trainer: Any
) -> tuple[dict[str, bytes], Mapping[str, Array], dict[str, Mapping[str, Array]]]:
    """Return what an archive of a trainer holds: texts, values, and its state as a set of arrays.

    Raises TrainingError for what is no trainer of the graph or runs in another thread, and for a
    configuration that JSON does not hold, naming the field.
    """
    if not isinstance(trainer, Trainer):
        raise TrainingError(f"trainer={trainer!r} is no trainer", need="a gw.Trainer")
    if trainer.graph is not graph:
        raise TrainingError(
            f"the trainer trains another graph, {trainer.graph.name!r}",
            hint="gw.save(trainer.graph, path, trainer=trainer)",
        )
    if trainer.parts.control.is_elsewhere:
        raise TrainingError("the trainer is running", hint="trainer.pause(wait=True)")
    if trainer.swapped:
        raise swapped_out(trainer.swapped)
    trainer.config.to_json()  # raises for a schedule that is a function
    history, is_epoch_end = trainer.history, trainer.epochs_done > 0 and not trainer.batches_done
    table = history.epochs if is_epoch_end else history.steps
    row = table.last() if table.rows else {}
    snapshot = taken(
        trainer,
        Documents(),
        lineage=TRAININGS.get(trainer) or Lineage(os.urandom(8).hex(), settings_of(trainer)),
        metrics={n: v for n, v in row.items() if n not in ("step", "epoch", "seconds")},
        is_epoch_end=is_epoch_end,
        monitor="loss",
        mode="min",
    )
    record = snapshot.record | {"serial": 1, "made": _made_of(trainer)}
    texts = {DOCUMENT: snapshot.document, RECORD: json.dumps(record, allow_nan=False).encode()}
    return texts, snapshot.values, {TRAINER: snapshot.state}


def _made_of(trainer: Trainer) -> dict[str, Any]:
    """Return how a trainer is made beside its configuration, as far as that is no code."""
    session, objective = trainer.session, trainer.parts.objective
    is_own = not isinstance(objective, Supervised)
    return {
        "objective": type(objective).__name__ if is_own else "",
        "losses": {} if is_own else {name: t.name for name, t in objective.losses.items()},
        "metrics": {
            name: type(m).__name__ for name, m in objective.metrics.items() if isinstance(m, Metric)
        },
        "session": {
            "deterministic": session.deterministic,
            "check": session.check,
            "kernels": session.options.kernels,
            "checkpoint": session.options.checkpoint,
            "skip_rewrites": session.options.skip,
        },
    }


def trainer(
    graph: Graph,
    loss: Any = None,
    *,
    metrics: Mapping[str, Tensor | Metric | str] | None = None,
    callbacks: Iterable[Callback] = (),
    session: Session | None = None,
) -> Trainer:
    """Return the trainer that was saved with a graph; see ``Graph.trainer``."""
    if graph not in ORIGINS:
        raise TrainingError(
            f"graph {graph.name!r} was not loaded from an archive, so no trainer was saved with it",
            hint="gw.save(g, path, trainer=trainer), and later gw.load(path).trainer()",
        )
    path = ORIGINS[graph].path
    with reopened(graph) as reader:
        if RECORD not in reader.members:
            raise TrainingError(
                f"{path} holds a model and no trainer",
                hint="gw.save(g, path, trainer=trainer) keeps it; gw.Trainer(g, loss) begins anew",
            )
        one = record_in(reader, path)
        state = read_tensors(reader, f"{STATE}/{TRAINER}", mapped=False)
        try:
            made = _made(graph, one, loss, metrics or {}, callbacks, session)
            take_over(made, one, ({}, state), ())
        except GradwrightError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ArchiveError(f"it holds no training: {error}", where=RECORD) from error
    return made


def _made(
    graph: Graph,
    one: Checkpoint,
    loss: Any,
    metrics: Mapping[str, Tensor | Metric | str],
    callbacks: Iterable[Callback],
    session: Session | None,
) -> Trainer:
    """Return a trainer as it was when it was saved, which has not taken a step yet."""
    config = from_json(one.present["config"], "config")
    if not isinstance(config, TrainingConfig):
        raise ArchiveError("'config' is no TrainingConfig", where=RECORD)
    _check_code(one, loss, metrics)
    if session is None:
        session = _session(graph, one, config)
    is_own = own_objective(loss) is not None
    return Trainer(
        graph,
        loss if is_own or loss is not None else dict(one.made.get("losses", {})) or None,
        metrics={} if is_own else {**config.metrics, **metrics},
        callbacks=callbacks,
        session=session,
        config=config,
    )


def _session(graph: Graph, one: Checkpoint, config: TrainingConfig) -> Session:
    """Return a session as the one that ran the training; what ``Checkpoints`` wrote repeats."""
    how = {
        "deterministic": config.deterministic is not False,
        "kernels": config.kernels,
        "checkpoint": config.checkpoint,
        **{n: v for n, v in one.made.get("session", {}).items() if n in _OF_SESSION},
    }
    seed = expect(one.present["session"]["seed"], int, "seed", RECORD)
    device = expect(one.tuning.get("device", "cpu"), str, "device", RECORD)
    return Session(graph, device, seed=seed, threads=config.threads, **how)


_OF_SESSION = ("deterministic", "check", "kernels", "checkpoint", "skip_rewrites")


def _check_code(one: Checkpoint, loss: Any, metrics: Mapping[str, Any]) -> None:
    """Raise TrainingError for what was trained or measured by code that is not given anew."""
    objective = one.made.get("objective", "")
    if objective and loss is None:
        raise TrainingError(
            f"the training had an objective of its own, {objective}, and an archive holds no code",
            hint=f"gw.load(path).trainer({objective}(...))",
        )
    lacking = {n: kind for n, kind in one.made.get("metrics", {}).items() if n not in metrics}
    if lacking:
        name, kind = next(iter(lacking.items()))
        raise TrainingError(
            f"the training measured {', '.join(map(repr, lacking))}, and an archive holds no code",
            hint=f"gw.load(path), and then .trainer(metrics={{{name!r}: {kind}(...)}})",
        )
