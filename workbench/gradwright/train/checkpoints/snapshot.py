"""Snapshot: all that a checkpoint needs, taken between two steps and written at leisure.

Taking one copies nothing large: it holds the arrays of the values and of the optimizer, and who
holds an array has it to himself, since the next commit then makes new ones.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...formats.archive.archive import STATE, VALUES, streams_of, write_archive
from ...formats.archive.document import DOCUMENT, DocumentWriter
from ...formats.archive.tensors import check_tensors
from ...graph import Graph, Values
from ...words.jsonable import to_json
from ..training import Training
from .folder import FORMAT, PREFIX, RECORD, name_of, utc
from .settings import libraries, settings_of

Array = np.ndarray[Any, Any]

TRAINER = "trainer"
"""The name of the state that holds what ``trainer.state_dict`` returned."""


@dataclass(frozen=True)
class Lineage:
    """What is the same for all checkpoints of a training, however often it was resumed."""

    name: str
    settings: Mapping[str, Any]
    """Those that it began with."""


class Documents:
    """The document of a graph, written anew only when the graph has changed: 10 us a node."""

    def __init__(self) -> None:
        self._stamp: Any = None
        self._data = b""
        self._names: list[str] = []
        self._fixed: dict[str, Array] = {}
        """Constants of sub-graphs."""

    def of(
        self, graph: Graph, values: Values, apart: Collection[str] = ()
    ) -> tuple[bytes, dict[str, Array]]:
        """Return the document of a graph and the arrays that it refers to, but for those apart."""
        graph.settle()
        streams = streams_of(graph)
        stamp = (
            graph,
            graph.revision,
            streams,
            tuple(apart),
            [(n.name, n.trainable, n.op) for n in graph.all_nodes],
            [(v.name, d.value.name, d.when) for v, d in graph.updates.declared.items()],
        )
        held = values.snapshot()
        if stamp != self._stamp:
            document = DocumentWriter(apart)
            self._data = document.write(graph, held, streams)
            self._fixed = {n: a for n, a in document.arrays.items() if n not in held}
            self._names = [n for n in document.arrays if n in held]
            self._stamp = stamp
        return self._data, {name: held[name] for name in self._names} | self._fixed


@dataclass
class Snapshot:
    """A training between two steps."""

    step: int
    name: str
    """Of the file."""
    record: dict[str, Any]
    document: bytes
    values: Mapping[str, Array]
    state: Mapping[str, Array]

    def write(self, folder: Path, serial: int) -> Path:
        """Write it, as a whole or not at all, and return the file.

        Raises OSError where that fails; what was there before is as it was.
        """
        path = folder / self.name
        record = json.dumps(self.record | {"serial": serial}, allow_nan=False).encode()
        texts = {DOCUMENT: self.document, RECORD: record}
        write_archive(path, texts, self.values, {TRAINER: self.state}, prefix=PREFIX, follow=False)
        return path


def taken(
    trainer: Training,
    documents: Documents,
    *,
    lineage: Lineage,
    metrics: Mapping[str, float],
    is_epoch_end: bool,
    monitor: str,
    mode: str,
    base: Mapping[str, int] | None = None,
) -> Snapshot:
    """Return a snapshot of a trainer between two steps; what can be written to is copied.

    ``base`` are checksums of arrays that are left out.

    Raises GraphError for what an archive cannot hold, be it of the graph or of a callback's state.
    """
    document, values = documents.of(trainer.graph, trainer.values, base or ())
    state = {
        name: value if name.startswith("history/") else _stored(value)  # columns are copies
        for name, value in trainer.state_dict().items()
    }
    record = {
        "format": FORMAT,
        "training": lineage.name,
        "step": trainer.steps_done,
        "epoch": trainer.epochs_done,
        "batch": trainer.batches_done,
        "is_epoch_end": is_epoch_end,
        "metrics": to_json({name: float(value) for name, value in metrics.items()}),
        "monitor": monitor,
        "mode": mode,
        "time": utc(),
        "settings": lineage.settings,
        "present": settings_of(trainer),
        "tuning": trainer.session.tuning,
        "libraries": libraries(),
    } | ({} if base is None else {"base": dict(base)})
    return Snapshot(
        trainer.steps_done,
        name_of(trainer.steps_done, trainer.window[0]),
        record,
        document,
        check_tensors(values, VALUES),
        check_tensors(state, f"{STATE}/{TRAINER}"),
    )


def _stored(value: Any) -> Array:
    """Return an array that nobody writes to any more; text as archives have it."""
    array = np.asarray(value)
    if array.dtype.kind == "U":
        return array.astype(np.dtypes.StringDType())
    return array.copy() if array.flags.writeable else array
