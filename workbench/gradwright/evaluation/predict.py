"""Predictions over data: what a model says of all examples, in eval mode, in memory or on disk."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Protocol, runtime_checkable

import numpy as np

from ..data import batches
from ..errors import ShapeError, TrainingError
from ..files.whole import replacing
from ..graph import Graph, Tensor
from ..graph.walk import placeholders
from ..session import Session
from ..words.watched import is_watched

Array = np.ndarray[Any, Any]


def predict(
    model: Any,
    outputs: Mapping[str, Tensor | str] | Sequence[Tensor | str] | Tensor | str,
    data: Any,
    *,
    batch_size: int = 256,
    folder: str | os.PathLike[str] | None = None,
    progress: bool | str = "auto",
) -> dict[str, Array]:
    """Return each output for all examples of ``data``, by name, batch after batch in eval mode.

    Outputs have one row per example, f32[examples, ...], in the order of the data before shuffling:
    rows of ``.shuffle()`` and of ``gw.data.buckets`` go back to where they stand there. What the
    data cannot tell comes as it is given: a stream stirred by a buffer, a loader that shuffles,
    what ``.filter`` leaves of shuffled rows. With a ``folder`` outputs are written to
    ``<name>.npy`` there and come back as read-only memory maps, so they may be larger than memory.
    What ``data`` holds beyond what the outputs need is left alone. ``model`` is a graph, a session,
    or a trainer, whose precision then counts as in ``trainer.evaluate``; a graph or a session, such
    as ``trainer.session``, computes in the dtypes of the graph. Outputs that are no dict come back
    by the names they have in the graph.

    Raises TrainingError for outputs that are neither tensors nor names, ShapeError for those that
    have no row per example and for shuffled batches in which a function has left other rows, and
    FeedError as ``fit`` does.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (None, 2))
    >>> found = gw.predict(g, {"norm": gw.sqrt((x * x).sum(1))}, {"x": [[3.0, 4.0], [0.0, 1.0]]})
    >>> found["norm"].tolist()
    [5.0, 1.0]
    """
    session = session_of(model)
    graph = session.graph
    tensors = {n: graph[t] if isinstance(t, str) else t for n, t in _named(outputs).items()}
    needed = placeholders(list(tensors.values()))
    fetches = computed(model, list(tensors.values()))
    if isinstance(data, Mapping):
        names = {t.name for t in needed}
        data = {k: v for k, v in data.items() if (k if isinstance(k, str) else k.name) in names}
    source = batches(graph, data, needed, batch_size, exact=False)
    places = _places(source.row_numbers(0))
    kept: dict[str, Any] = {}
    with ExitStack() as files:
        for name in tensors:
            if folder is None:
                kept[name] = _Kept()
            else:
                path = Path(folder) / f"{name}.npy"
                path.parent.mkdir(parents=True, exist_ok=True)
                kept[name] = _Written(path, files.enter_context(replacing(path)))
        bar = files.enter_context(_bar(source.n_batches, progress))
        for number, (feeds, rows) in enumerate(source.epoch(0)):
            at = None if places is None else places[number]
            if at is not None and len(at) != rows:
                raise ShapeError(
                    f"batch {number} is fed {rows} rows, and was made of {len(at)} of the data",
                    need="the same rows, so that they can be put into the order of the data",
                    hint="predict without shuffling",
                )
            found = session.run(fetches, feeds)
            for (name, t), array in zip(tensors.items(), found, strict=True):
                if not array.ndim or len(array) != rows:
                    raise ShapeError(
                        f"{t.name!r} is {array.dtype}{list(array.shape)} for {rows} examples",
                        need="one row per example",
                    )
                kept[name].add(array, at)
            bar.update()
        for held in kept.values():
            held.end()
    return {name: held.whole() for name, held in kept.items()}


@runtime_checkable
class Model(Protocol):
    """What is trained: it runs in a session of its own, and in a precision of its own."""

    session: Session

    def in_its_precision(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return what computes tensors in the precision of training."""


def session_of(model: Any) -> Session:
    """Return what runs a model: a session, that of a trainer, or a new one of a graph."""
    found = Session(model) if isinstance(model, Graph) else getattr(model, "session", model)
    if not isinstance(found, Session):
        raise TrainingError(
            f"a {type(model).__name__} cannot be evaluated", need="a graph, session or trainer"
        )
    return found


def computed(model: Any, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return what a model runs for tensors: a trainer computes in its precision."""
    return model.in_its_precision(tensors) if isinstance(model, Model) else tensors


def _named(outputs: Any) -> dict[str, Tensor | str]:
    """Return outputs by the name each comes back by."""
    if isinstance(outputs, Mapping):
        found = dict(outputs)
    else:
        several = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
        found = {t.name if isinstance(t, Tensor) else str(t): t for t in several}
    for t in found.values():
        if not isinstance(t, Tensor | str):
            raise TrainingError(
                f"an output is of type {type(t).__name__}",
                need="a tensor of the graph or its name, several in a list, or a dict of them",
                hint='gw.predict(model, {"probs": probs}, data)',
            )
    return found


def _places(numbers: list[Array] | None) -> list[Array] | None:
    """Return where the rows of each batch belong; None where they come in order."""
    if numbers is None:
        return None
    flat = np.concatenate(numbers)
    if (np.diff(flat) > 0).all():
        return None
    places = np.empty(len(flat), np.int64)
    places[np.argsort(flat, kind="stable")] = np.arange(len(flat))
    return np.split(places, np.cumsum([len(batch) for batch in numbers])[:-1])


def _bar(total: int | None, progress: bool | str) -> Any:
    from tqdm.auto import tqdm

    shown = progress is True or (progress == "auto" and is_watched())
    return tqdm(total=total, unit="batch", desc="predict", disable=not shown)


class _Kept:
    """Rows in memory."""

    def __init__(self) -> None:
        self._parts: list[Array] = []
        self._places: list[Array] = []

    def add(self, rows: Array, places: Array | None) -> None:
        self._parts.append(rows)
        if places is not None:
            self._places.append(places)

    def end(self) -> None:
        pass

    def whole(self) -> Array:
        joined = np.concatenate(self._parts)
        if not self._places:
            return joined
        ordered = np.empty_like(joined)
        ordered[np.concatenate(self._places)] = joined
        return ordered


class _Written:
    """Rows in a ``.npy`` file, whose header is written again when their number is known.

    numpy leaves room in the header for the first axis to grow (numpy/lib/format.py).
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._file, self._n, self._start = path, file, 0, 0
        self._row: tuple[np.dtype[Any], tuple[int, ...]] | None = None

    def add(self, rows: Array, places: Array | None) -> None:
        row = rows.dtype, rows.shape[1:]
        if self._row is None:
            self._row = row
            self._write_header()
            self._start = self._file.tell()
        elif row != self._row:
            raise ShapeError(f"rows {row[0]}{list(row[1])} follow {self._row[0]}{self._row[1]}")
        data = np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data
        if places is None:
            self._file.write(data)
        else:
            width = rows.nbytes // len(rows)
            for i, place in enumerate(places.tolist()):
                self._file.seek(self._start + place * width)
                self._file.write(data[i * width : (i + 1) * width])
        self._n += len(rows)

    def _write_header(self) -> None:
        assert self._row is not None
        dtype, shape = self._row
        stated = {
            "descr": np.lib.format.dtype_to_descr(dtype),
            "fortran_order": False,
            "shape": (self._n, *shape),
        }
        np.lib.format.write_array_header_1_0(self._file, stated)

    def end(self) -> None:
        self._file.seek(0)
        self._write_header()

    def whole(self) -> Array:
        assert self._row is not None
        mapped: Array = np.load(self._path, mmap_mode="r")
        return mapped.view(self._row[0])  # numpy's files know no bfloat16
