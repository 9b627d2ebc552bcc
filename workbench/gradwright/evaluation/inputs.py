"""Labels, predictions and masks of any shape as the rows that an evaluation counts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..errors import ShapeError, TrainingError

Array = np.ndarray[Any, Any]


class Rows(NamedTuple):
    """Examples in rows: what the mask leaves, without predictions that are of no use."""

    labels: Array
    """Class numbers, i64[N], or a matrix, f64[N, K]."""
    predictions: Array
    """f64[N, K]."""
    keep: Array
    """Which elements count, b[N, K], or which rows, b[N]: all of them, for class numbers."""
    unusable: Array
    """How many predictions were left out because they are of no use, i64[1]."""


def class_rows(labels: Any, predictions: Any, mask: Any = None, low_high: Any = None) -> Rows:
    """Return class numbers and scores per class of the examples that count.

    Args:
        labels: class numbers, i64[...], or one-hot, [..., classes].
        predictions: scores, f32[..., classes].
        mask: f32[...] or fewer of those axes; 0 leaves an example out.
        low_high: bounds that scores must keep to be of use.

    Raises ShapeError for shapes that do not fit, TrainingError for labels that are no classes.

    >>> rows = class_rows([[0, 1]], [[[0.9, 0.1], [0.5, 0.5]]], mask=[[1.0, 0.0]])
    >>> rows.labels.tolist(), rows.predictions.tolist()
    ([0], [[0.9, 0.1]])
    """
    p, t = _floats("predictions", predictions), np.asarray(labels)
    if p.ndim >= 2 and t.shape == (*p.shape[:-1], 1) and p.shape[-1] > 1:
        t = t[..., 0]
    if p.ndim < 2 or t.shape not in (p.shape, p.shape[:-1]):
        raise _misfit(t, p, "class numbers i64[...] or one-hot [..., classes] for [..., classes]")
    keep = _spread(mask, p.shape[:-1], p.shape).ravel()
    n = p.shape[-1]
    p = p.reshape(-1, n)[keep]
    t = _one_hot(t.reshape(-1, n)[keep]) if t.ndim == len(_shape(predictions)) else t.ravel()[keep]
    numbers = class_numbers(t, n)
    useful = _useful(p, low_high).all(1)
    bad = np.array([np.count_nonzero(~useful)])
    return Rows(numbers[useful], p[useful], np.ones(np.count_nonzero(useful), bool), bad)


def column_rows(labels: Any, predictions: Any, mask: Any = None, low_high: Any = None) -> Rows:
    """Return labels and predictions as matrices, one column per output.

    Args:
        labels: [..., K], or [N] for one output.
        predictions: of the same shape.
        mask: f32[...], for all outputs of an example, or f32[..., K]; 0 leaves out.
        low_high: bounds that predictions must keep to be of use.

    Raises ShapeError for shapes that do not fit.

    >>> column_rows([1.0, 2.0], [[1.0], [3.0]]).predictions.shape
    (2, 1)
    """
    p, t = _floats("predictions", predictions), _floats("labels", labels)
    if t.ndim == 1 and p.shape == (len(t), 1):
        p = p[:, 0]
    if p.ndim == 1 and t.shape == (len(p), 1):
        t = t[:, 0]
    if p.shape != t.shape or not p.ndim:
        raise _misfit(t, p, "labels and predictions of one shape, [..., outputs] or [N]")
    if p.ndim == 1:
        p, t = p[:, None], t[:, None]
        mask = None if mask is None else np.asarray(mask).reshape(-1, 1)
    keep = _spread(mask, p.shape[:-1], p.shape, whole=True)
    n = p.shape[-1]
    p, t, keep = p.reshape(-1, n), t.reshape(-1, n), keep.reshape(-1, n)
    useful = _useful(p, low_high)
    if np.isnan(t[keep]).any():
        raise TrainingError("a label is NaN", hint="mask it")
    bad = np.array([np.count_nonzero(keep & ~useful)])
    return Rows(t, p, keep & useful, bad)


def class_numbers(labels: Array, n: int) -> Array:
    """Return labels as i64; raises TrainingError if one of them is none of ``n`` classes.

    >>> class_numbers(np.array([1.0, 0.0]), 2).tolist()
    [1, 0]
    """
    numbers = labels.astype(np.int64) if labels.dtype.kind in "biuf" else np.full(len(labels), -1)
    wrong = np.flatnonzero((numbers != labels) | (numbers < 0) | (numbers >= n))
    if wrong.size:
        raise TrainingError(
            f"label {labels[wrong[0]]} of example {wrong[0]} is no class",
            need=f"whole numbers from 0 to {n - 1}",
            hint="mask=..., 0 where nothing is to be counted",
        )
    return numbers


def zero_or_one(labels: Array, keep: Array) -> Array:
    """Return labels as booleans; raises TrainingError if one that counts is neither 0 nor 1.

    >>> zero_or_one(np.array([1.0, 7.0]), np.array([True, False])).tolist()
    [True, True]
    """
    wrong = keep & (labels != 0) & (labels != 1)
    if wrong.any():
        raise TrainingError(
            f"{labels[wrong][0]} is no label of yes or no", need="0 or 1, for each output"
        )
    return np.asarray(labels != 0)


def binned(where: Array, n: int, weights: Any = None) -> Array:
    """Return how much of each column falls into each of ``n`` bins, [K, n], of bins [N, K].

    >>> binned(np.array([[0, 2], [0, 1]]), 3).tolist()
    [[2, 0, 0], [0, 1, 1]]
    """
    k = where.shape[1]
    flat = None if weights is None else np.broadcast_to(weights, where.shape).ravel()
    return np.bincount((where + n * np.arange(k)).ravel(), flat, k * n).reshape(k, n)


def _one_hot(rows: Array) -> Array:
    """Return the class of each row."""
    hot = rows == 1
    wrong = np.flatnonzero((hot.sum(1) != 1) | ((rows != 0) & ~hot).any(1))
    if wrong.size:
        raise TrainingError(
            f"the labels of example {wrong[0]} are not one-hot: {rows[wrong[0]].tolist()[:8]}",
            need="one 1 among zeros",
            hint="labels.argmax(-1) for soft labels, mask=... for padding",
        )
    classes: Array = hot.argmax(1)
    return classes


def _useful(p: Array, low_high: Any) -> Array:
    useful = np.isfinite(p)
    if low_high is not None:
        useful &= (p >= low_high[0]) & (p <= low_high[1])
    return np.asarray(useful)


def _spread(mask: Any, axes: tuple[int, ...], shape: tuple[int, ...], whole: bool = False) -> Array:
    """Return a mask as booleans over ``axes``, or with ``whole`` over all of ``shape``."""
    over = shape if whole else axes
    if mask is None:
        return np.ones(over, bool)
    held = _floats("the mask", mask)
    leading = axes[: held.ndim] == held.shape
    if np.isnan(held).any() or not (leading or (whole and held.shape == shape)):
        raise ShapeError(
            f"a mask of shape {held.shape} does not fit predictions of {shape}",
            need=f"{axes}, or its first axes, without NaN",
        )
    return np.broadcast_to((held != 0).reshape(*held.shape, *(1,) * (len(over) - held.ndim)), over)


def _floats(name: str, values: Any) -> Array:
    array = np.asarray(values)
    if array.dtype.kind in "OSUMmc":
        raise TrainingError(f"{name} are {array.dtype}", need="real numbers")
    return array.astype(np.float64)


def _shape(values: Any) -> tuple[int, ...]:
    return np.shape(values)


def _misfit(t: Array, p: Array, need: str) -> ShapeError:
    return ShapeError(
        "labels do not fit the predictions",
        facts=[f"labels : {t.dtype}{list(t.shape)}", f"predictions : {p.dtype}{list(p.shape)}"],
        need=need,
    )
