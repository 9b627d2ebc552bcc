"""Splitting data for validation, and weights that make rare classes count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import FeedError, TrainingError
from .columns import Array, order
from .dataset import Table
from .row_stages import Chosen
from .sources import dataset


def split(
    data: Any, validation: float = 0.1, *, seed: int = 0, stratify: Any = None, names: Any = None
) -> tuple[Table, Table]:
    """Return two data sets: what to train on, and a random part to validate on.

    Rows are chosen by a function of seed and number of rows, and stay in order. Nothing is copied.

    Args:
        data: what `dataset` takes and can be read at random.
        validation: which part of the rows to hold out, between 0 and 1.
        seed: decides which.
        stratify: a column, or labels by row: each class is then split alike, to a row.
        names: names of the parts of a tuple.

    Raises TrainingError for a part of no rows, and FeedError for a stream.

    >>> import gradwright as gw, numpy as np
    >>> train, held_out = gw.data.split({"x": np.arange(10)}, validation=0.3)
    >>> len(train), len(held_out)
    (7, 3)
    """
    table = _table(data, names, "split by a fraction", "validation=data, with data of its own")
    if isinstance(validation, bool) or not 0 < validation < 1:
        raise TrainingError(f"validation={validation!r} is no part", need="0 < validation < 1")
    n = table.n
    held = np.zeros(n, bool)
    for rows in [np.arange(n)] if stratify is None else _classes(table, stratify):
        held[rows[order(seed, 0, len(rows))[: round(len(rows) * validation)]]] = True
    if held.all() or not held.any():
        raise TrainingError(
            f"validation={validation} of {n} rows leaves {n - held.sum()} to train on "
            f"and {held.sum()} to validate on",
            need="at least one of each",
        )
    return Chosen(table, np.flatnonzero(~held)), Chosen(table, np.flatnonzero(held))


def k_folds(
    data: Any,
    k: int = 5,
    *,
    shuffle: bool = False,
    seed: int = 0,
    stratify: Any = None,
    names: Any = None,
) -> list[tuple[Table, Table]]:
    """Return k pairs of data sets: what to train on, and the fold that is held out.

    Each of the n rows is in one fold. The first n mod k folds hold n//k + 1 rows, the others n//k,
    one after the other as scikit-learn's ``KFold`` cuts them; rows stay in order. Nothing is
    copied.

    Args:
        data: what `dataset` takes and can be read at random.
        k: how many folds.
        shuffle: whether folds are cut of rows in an order that is a function of ``seed`` and n.
        seed: decides which order.
        stratify: a column, or labels by row: every fold then has its share of each class, to a row,
            dealt as scikit-learn's ``StratifiedKFold`` does.
        names: names of the parts of a tuple.

    Raises TrainingError for fewer than two folds, or more than rows, and FeedError for a stream.

    >>> import gradwright as gw, numpy as np
    >>> folds = gw.data.k_folds({"x": np.arange(7)}, k=3)
    >>> [next(held.batch(7).epoch(0))["x"].tolist() for _, held in folds]
    [[0, 1, 2], [3, 4], [5, 6]]
    """
    table = _table(data, names, "cut into folds", "gw.data.dataset of arrays")
    n = table.n
    if type(k) is not int or not 2 <= k <= n:
        raise TrainingError(f"{n} rows cannot be cut into k={k!r} folds", need=f"2 <= k <= {n}")
    if stratify is None:
        fold = np.empty(n, np.int64)
        fold[order(seed, 0, n) if shuffle else np.arange(n)] = _dealt(n, k)
    else:
        fold = _stratified(_classes(table, stratify), n, k, seed if shuffle else None)
    return [
        (Chosen(table, np.flatnonzero(fold != i)), Chosen(table, np.flatnonzero(fold == i)))
        for i in range(k)
    ]


def _dealt(n: int, k: int) -> Array:
    """Return the fold of each of n rows in a row."""
    return np.repeat(np.arange(k), [n // k + (i < n % k) for i in range(k)])


def _stratified(classes: list[Array], n: int, k: int, seed: int | None) -> Array:
    """Return the fold of each row: every k-th of the rows in the order of their classes.

    That says how many of a class each fold has; the first of its rows go to the first of them. As
    scikit-learn, classes count in the order in which they first occur.
    """
    classes = sorted(classes, key=lambda rows: int(rows[0]))
    turn = np.empty(n, np.int64)
    turn[np.concatenate(classes)] = np.arange(n) % k
    for rows in classes:
        folds = np.sort(turn[rows])
        turn[rows] = folds if seed is None else folds[order(seed, 0, len(rows))]
    return turn


def _table(data: Any, names: Any, what: str, hint: str) -> Table:
    table = dataset(data, names)
    if not isinstance(table, Table):
        need = "rows that can be read at random"
        raise FeedError(f"{table!r} cannot be {what}", need=need, hint=hint)
    return table


def _classes(table: Table, stratify: Any) -> list[Array]:
    """Return the rows of each class."""
    labels = np.asarray(stratify)
    if isinstance(stratify, str):
        labels = table.columns(stratify).rows(0, slice(0, table.n))[stratify]  # type: ignore[attr-defined]
    if labels.shape != (table.n,):
        raise FeedError(f"labels of shape {labels.shape} for {table.n} rows", need=f"[{table.n}]")
    values, of = np.unique(labels, return_inverse=True)  # NaN is a class, equal to itself here
    return [np.flatnonzero(of == c) for c in range(len(values))]


def class_weights(labels: Any, n_classes: int | None = None) -> Array:
    """Return a weight for each class, so that every class counts alike: ``f32[C]``.

    wᶜ = n / (C · nᶜ), scikit-learn's ``class_weight="balanced"``. Classes are 0 to C - 1; one that
    does not occur has weight 0, and C counts those that do.

    Raises FeedError for labels that are no class numbers.

    >>> import gradwright as gw
    >>> gw.data.class_weights([0, 0, 1, 1, 1, 1]).tolist()
    [1.5, 0.75]
    """
    array = np.asarray(labels)
    if array.ndim != 1 or not array.size or array.dtype.kind not in "biu" or array.min() < 0:
        raise FeedError(
            f"labels are {array.dtype}{list(array.shape)}",
            need="class numbers from 0, one a row",
            hint="np.unique(labels, return_inverse=True)[1], or pd.factorize(labels)[0]"
            if array.ndim == 1 and array.dtype.kind in "OSUT"
            else "",
        )
    counts = np.bincount(array, minlength=n_classes or 0)
    if n_classes is not None and len(counts) > n_classes:
        raise FeedError(f"label {len(counts) - 1} is beyond n_classes={n_classes}")
    weights = np.zeros(len(counts), np.float32)
    there = counts > 0
    weights[there] = len(array) / (there.sum() * counts[there])
    return weights


def example_weights(labels: Any, weights: Mapping[int, float] | Any = None) -> Array:
    """Return the weight of each example by its class, a column for a weights placeholder.

    ``weights`` are by class; by default `class_weights`, whose mean over examples is 1.

    >>> import gradwright as gw
    >>> gw.data.example_weights([0, 1, 1], {0: 1.0, 1: 0.5}).tolist()
    [1.0, 0.5, 0.5]
    """
    array = np.asarray(labels)
    if isinstance(weights, Mapping):
        missing = sorted(set(array.ravel().tolist()) - weights.keys())
        if missing:
            raise FeedError(f"class {missing[0]!r} has no weight", need="a weight for each class")
        return np.array([weights[label] for label in array.ravel().tolist()], np.float32)
    table = class_weights(array) if weights is None else np.asarray(weights, np.float32)
    if array.size and array.max() >= len(table):
        raise FeedError(f"class {array.max()} has no weight", need="a weight for each class")
    weighed: Array = table[array]
    return weighed
