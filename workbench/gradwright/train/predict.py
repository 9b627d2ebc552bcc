"""Predictions over data: what a model says of all examples, in eval mode, in memory or on disk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..data import batches
from ..errors import ShapeError, TrainingError
from ..graph import Graph, Tensor
from ..io.container import replacing
from ..session import Session
from .backward import placeholders
from .callbacks import is_watched

Array = np.ndarray[Any, Any]


def predict(
    model: Any,
    outputs: Mapping[str, Tensor | str],
    data: Any,
    *,
    batch_size: int = 256,
    folder: str | os.PathLike[str] | None = None,
    progress: bool | str = "auto",
) -> dict[str, Array]:
    """Return each output for all examples of ``data``, by name, batch after batch in eval mode.

    Outputs have one row per example, f32[examples, ...]. With a ``folder`` they are written to
    ``<name>.npy`` there and come back as read-only memory maps, so they may be larger than memory.
    What ``data`` holds beyond what the outputs need is left alone. ``model`` is a graph, a session,
    or a trainer.

    Raises ShapeError for outputs that have no row per example, and FeedError as ``fit`` does.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (None, 2))
    >>> found = gw.predict(g, {"norm": gw.sqrt((x * x).sum(1))}, {"x": [[3.0, 4.0], [0.0, 1.0]]})
    >>> found["norm"].tolist()
    [5.0, 1.0]
    """
    session = session_of(model)
    graph = session.graph
    tensors = {n: graph[t] if isinstance(t, str) else t for n, t in outputs.items()}
    needed = placeholders(list(tensors.values()))
    if isinstance(data, Mapping):
        names = {t.name for t in needed}
        data = {k: v for k, v in data.items() if (k if isinstance(k, str) else k.name) in names}
    source = batches(graph, data, needed, batch_size, exact=False)
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
        for feeds, rows in source.epoch(0):
            found = session.run(list(tensors.values()), feeds)
            for (name, t), array in zip(tensors.items(), found, strict=True):
                if not array.ndim or len(array) != rows:
                    raise ShapeError(
                        f"{t.name!r} is {array.dtype}{list(array.shape)} for {rows} examples",
                        need="one row per example",
                    )
                kept[name].add(array)
            bar.update()
        for held in kept.values():
            held.end()
    return {name: held.whole() for name, held in kept.items()}


def session_of(model: Any) -> Session:
    """Return what runs a model: a session, that of a trainer, or a new one of a graph."""
    found = Session(model) if isinstance(model, Graph) else getattr(model, "session", model)
    if not isinstance(found, Session):
        raise TrainingError(
            f"a {type(model).__name__} cannot be evaluated", need="a graph, session or trainer"
        )
    return found


def _bar(total: int | None, progress: bool | str) -> Any:
    from tqdm.auto import tqdm

    shown = progress is True or (progress == "auto" and is_watched())
    return tqdm(total=total, unit="batch", desc="predict", disable=not shown)


class _Kept:
    """Rows in memory."""

    def __init__(self) -> None:
        self._parts: list[Array] = []

    def add(self, rows: Array) -> None:
        self._parts.append(rows)

    def end(self) -> None:
        pass

    def whole(self) -> Array:
        return np.concatenate(self._parts)


class _Written:
    """Rows in a ``.npy`` file, whose header is written again when their number is known.

    numpy leaves room in the header for the first axis to grow (numpy/lib/format.py).
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._file, self._n = path, file, 0
        self._row: tuple[np.dtype[Any], tuple[int, ...]] | None = None

    def add(self, rows: Array) -> None:
        row = rows.dtype, rows.shape[1:]
        if self._row is None:
            self._row = row
            self._write_header()
        elif row != self._row:
            raise ShapeError(f"rows {row[0]}{list(row[1])} follow {self._row[0]}{self._row[1]}")
        self._file.write(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data)
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
