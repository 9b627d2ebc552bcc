"""At once: predictions of arrays that make one batch, by a call that is found again."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..data.batches import named
from ..errors import GradwrightError, ShapeError
from ..graph import Tensor
from ..graph.walk import placeholders
from ..session import Session
from ..session.feeds import are_named, as_feed

Array = np.ndarray[Any, Any]
Computed = Callable[[Sequence[Tensor]], Sequence[Tensor]]
"""Given tensors, what a model runs for them."""


class Call:
    """Outputs of a model as a function of columns."""

    def __init__(
        self, session: Session, outputs: Mapping[str, Tensor], fetches: Sequence[Tensor], keys: Any
    ) -> None:
        self._outputs, self.tensors, self.fetches = dict(outputs), [*outputs.values()], [*fetches]
        needed = placeholders(self.tensors)
        names = {t.name for t in needed}
        held = [k for k in keys if (k if isinstance(k, str) else k.name) in names]
        self._columns = tuple(named(session.graph, held, needed).items())
        self._run = session.prepare(self.fetches, [t for _, t in self._columns])
        self.is_lasting = len({*self.tensors}) == len(self.tensors) and are_named(
            [k for k, _ in self._columns], [t for _, t in self._columns]
        )
        """Whether each output is an array of its own, and what keys stand for stays the same."""

    def __call__(self, data: Mapping[Any, Any], most: Any, out: Any) -> dict[str, Array] | None:
        """Return the outputs; None: the columns are no arrays of as many rows, or too many."""
        arrays, rows = [], 0
        for key, t in self._columns:
            a = data[key]
            if type(a) is not np.ndarray or not a.ndim or (arrays and len(a) != rows):
                return None
            if a.dtype is not t.dtype:
                if a.dtype.hasobject:
                    return None
                try:
                    with np.errstate(over="ignore"):
                        a = as_feed(t, a)
                except GradwrightError:  # said with the row that does not fit, by batches
                    return None
            rows = len(a)
            arrays.append(a)
        if not 0 < rows <= most:
            return None
        found = self._run(*arrays, out=out and self._given(out))
        results = {}
        for (name, t), array in zip(self._outputs.items(), found, strict=True):
            check_rows(t, array, rows)
            results[name] = array if array.flags.writeable else array.copy()
        return results

    def _given(self, out: Mapping[str, Array]) -> dict[Tensor, Array]:
        fetched = dict(zip(self._outputs, self.fetches, strict=True))
        return {fetched[name]: array for name, array in out.items()}


def check_rows(t: Tensor, array: Array, rows: int) -> None:
    """Raise ShapeError for an output that has not one row per example."""
    if not array.ndim or len(array) != rows:
        raise ShapeError(
            f"{t.name!r} is {array.dtype}{list(array.shape)} for {rows} examples",
            need="one row per example",
        )


def at_once(
    session: Session, outputs: Any, data: Any, most: Any, out: Any, resolve: Any, computed: Computed
) -> dict[str, Array] | None:
    """Return outputs by name for data that is one batch of arrays; None for other data.

    ``resolve`` gives outputs as tensors by name, and ``computed`` what the model runs for them.
    """
    if type(data) is not dict or type(most) is not int:
        return None
    one = isinstance(outputs, str | Tensor)
    several = outputs.items() if isinstance(outputs, Mapping) else outputs
    try:
        key = "predict", outputs if one else tuple(several), tuple(data)
        call = session.answers.get(key)
        if call is None or not all(map(operator.is_, call.fetches, computed(call.tensors))):
            tensors = resolve(outputs)
            call = Call(session, tensors, computed([*tensors.values()]), data)
            if not call.is_lasting:
                return None
            session.answers[key] = call
    except (GradwrightError, TypeError, AttributeError):  # said where batches are made
        return None
    found: dict[str, Array] | None = call(data, most, out)
    return found
