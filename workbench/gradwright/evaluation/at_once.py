"""At once: predictions of arrays that make one batch, by a call that is found again."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..data.batches import named
from ..errors import FeedError, GradwrightError, ShapeError
from ..graph import Graph, Tensor
from ..graph.walk import placeholders
from ..session import Session
from ..session.feeds import are_named, as_feed
from ..session.idle import is_small
from .model import computed, resolved

Array = np.ndarray[Any, Any]


class Call:
    """Outputs of a model as a function of columns."""

    def __init__(
        self,
        session: Session,
        outputs: Mapping[str, Tensor],
        fetches: Sequence[Tensor],
        keys: Sequence[Any],
    ) -> None:
        self.outputs, self.fetches = tuple(outputs.items()), list(fetches)
        needed = placeholders([*outputs.values()])
        names = {t.name for t in needed}
        held = [k for k in keys if (k if isinstance(k, str) else k.name) in names]
        self.columns = tuple(named(session.graph, held, needed).items())
        feeds = [t for _, t in self.columns]
        self._request = session._request(self.fetches, feeds, None, False, None)
        self._shapes: Any = None
        self.is_small = True
        """Whether what the last run took may be kept."""

    def __call__(
        self, session: Session, data: Mapping[Any, Any], most: int, out: Any
    ) -> dict[str, Array] | None:
        """Return the outputs; None: the columns are no arrays of as many rows, or too many."""
        arrays: list[Array] = []
        rows = 0
        for key, t in self.columns:
            a = data[key]
            if type(a) is not np.ndarray or not a.ndim or (arrays and len(a) != rows):
                return None
            rows = len(a)
            if a.dtype is not t.dtype and (a := _feed(t, a)) is None:
                return None
            arrays.append(a)
        if not 0 < rows <= most:
            return None
        request = self._request
        given = None if out is None else self._given(out)
        found = session._execute(request, arrays, None, given)
        if request.shapes is not self._shapes:
            self._shapes, self.is_small = request.shapes, is_small(request.plan())
        results = {}
        for (name, t), array in zip(self.outputs, found):  # noqa: B905 - as many
            check_rows(t, array, rows)
            results[name] = array if array.flags.writeable else array.copy()
        return results

    def _given(self, out: Mapping[str, Array]) -> dict[Tensor, Array]:
        """Return arrays by what is fetched."""
        fetched = {name: t for (name, _), t in zip(self.outputs, self.fetches, strict=True)}
        check_names(out, fetched)
        return {fetched[name]: array for name, array in out.items()}


def _feed(t: Tensor, array: Array) -> Array | None:
    """Return an array as a feed; None: batches say which row is none."""
    try:
        with np.errstate(over="ignore"):
            return None if array.dtype.hasobject else as_feed(t, array)
    except GradwrightError:
        return None


def check_rows(t: Tensor, array: Array, rows: int) -> None:
    """Raise ShapeError for an output that has not one row per example."""
    if not array.ndim or len(array) != rows:
        raise ShapeError(
            f"{t.name!r} is {array.dtype}{list(array.shape)} for {rows} examples",
            need="one row per example",
        )


def check_names(out: Any, outputs: Mapping[str, Any]) -> None:
    """Raise FeedError for arrays that are not given by names of outputs."""
    if not isinstance(out, Mapping) or out.keys() - outputs.keys():
        said = list(out) if isinstance(out, Mapping) else type(out).__name__
        raise FeedError(f"out is {said}", need=f"arrays by {', '.join(map(repr, outputs))}")


def at_once(
    model: Any, session: Session, outputs: Any, data: Any, most: Any, out: Any
) -> dict[str, Array] | None:
    """Return outputs by name for data that is one batch of arrays; None for other data."""
    if type(data) is not dict or type(most) is not int:
        return None
    kind = type(outputs)
    try:
        if kind is Tensor or kind is str:
            asked = outputs
        else:
            asked = kind, *(outputs.items() if kind is dict else outputs)
        is_bare = model is session or type(model) is Graph  # a trainer has a precision of its own
        key = "predict", is_bare, asked, tuple(data)
        call = session.answers.get(key)
        if call is None or not (is_bare or _runs(model, call)):
            call = _made(model, session, outputs, data)
            if call is None:
                return None
            session.answers[key] = call
    except (GradwrightError, TypeError, AttributeError):  # said where batches are made
        return None
    found: dict[str, Array] | None = call(session, data, most, out)
    if type(model) is Graph and not call.is_small:
        session.release("gw.predict has ended")
    return found


def _runs(model: Any, call: Call) -> bool:
    """Tell whether a trainer still runs for outputs what it did."""
    fetches = computed(model, [t for _, t in call.outputs])
    return len(fetches) == len(call.fetches) and all(map(operator.is_, fetches, call.fetches))


def _made(model: Any, session: Session, outputs: Any, data: Mapping[Any, Any]) -> Call | None:
    """Return a call that may be found again; None where names may come to stand for others."""
    tensors = resolved(session.graph, outputs)
    call = Call(session, tensors, computed(model, [*tensors.values()]), list(data))
    given = [k for k, _ in call.columns], [t for _, t in call.columns]
    said = outputs.values() if isinstance(outputs, Mapping) else outputs
    said = [outputs] if isinstance(outputs, str | Tensor) else list(said)
    is_lasting = len({*tensors.values()}) == len(said) and are_named(said, [*tensors.values()])
    return call if is_lasting and are_named(*given) else None
