"""Predictions over data: what a model says of all examples, in eval mode, in memory or on disk."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from ..data import batches
from ..errors import ShapeError
from ..files.whole import replacing
from ..graph import Graph, Tensor
from ..graph.walk import placeholders
from ..session import Session
from ..session.idle import SMALL, give_back, taken
from ..words.watched import is_watched
from .at_once import at_once, check_rows
from .kept import Given, Kept, Written, check_out
from .model import computed, resolved, session_of

Array = np.ndarray[Any, Any]


def predict(
    model: Any,
    outputs: Mapping[str, Tensor | str] | Sequence[Tensor | str] | Tensor | str,
    data: Any,
    *,
    batch_size: int = 256,
    folder: str | os.PathLike[str] | None = None,
    progress: bool | str = "auto",
    out: Mapping[str, Array] | None = None,
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
    by the names they have in the graph. ``out`` gives arrays of all examples for outputs, by these
    names, which are written batch by batch and come back.

    A graph is run in a session that it keeps, so kernels come by the third batch, whoever asks for
    it; arrays that make one batch are run at once, and what was asked before is found again: that
    costs what a call of ``session.prepare`` does.

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
    session = taken(model, "background") if type(model) is Graph else session_of(model)
    found = None
    if folder is None and progress is not True:
        found = at_once(model, session, outputs, data, batch_size, out)
    if found is None:
        found = _by_batches(model, session, outputs, data, batch_size, folder, progress, out)
        if type(model) is Graph and session.memory.held > SMALL:
            session.release("gw.predict has ended")
    if type(model) is Graph:
        give_back(session)
    return found


def _by_batches(
    model: Any,
    session: Session,
    outputs: Any,
    data: Any,
    batch_size: int,
    folder: str | os.PathLike[str] | None,
    progress: bool | str,
    out: Mapping[str, Array] | None,
) -> dict[str, Array]:
    """Run over batches, and put their rows together."""
    graph = session.graph
    tensors = resolved(graph, outputs)
    needed = placeholders(list(tensors.values()))
    fetches = computed(model, list(tensors.values()))
    if isinstance(data, Mapping):
        names = {t.name for t in needed}
        data = {k: v for k, v in data.items() if (k if isinstance(k, str) else k.name) in names}
    source = batches(graph, data, needed, batch_size, exact=False)
    numbers = source.row_numbers(0)
    places = _places(numbers)
    if out is not None:
        rows = None if numbers is None else sum(map(len, numbers))
        check_out(tensors, out, data if isinstance(data, Mapping) else {}, rows)
    kept: dict[str, Any] = {}
    with ExitStack() as files:
        for name in tensors:
            if out is not None and name in out:
                kept[name] = Given(name, out[name])
            elif folder is None:
                kept[name] = Kept()
            else:
                path = Path(folder) / f"{name}.npy"
                path.parent.mkdir(parents=True, exist_ok=True)
                kept[name] = Written(path, files.enter_context(replacing(path)))
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
                check_rows(t, array, rows)
                kept[name].add(array, at)
            bar.update()
        for held in kept.values():
            held.end()
    return {name: held.whole() for name, held in kept.items()}


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
