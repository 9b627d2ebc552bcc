"""What every evaluation is: settings, and sums over the examples seen that add up."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..errors import TrainingError
from ..words.jsonable import json_array
from ..words.tables import Table
from .as_metric import EvaluationMetric

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from ..graph import Tensor

Array = np.ndarray[Any, Any]
State = dict[str, Any]
"""Sums by name. They are never changed, only replaced, so copies share them."""

_known: dict[str, type[Evaluation]] = {}


@dataclass(eq=False, repr=False)
class Evaluation:
    """Base of evaluations: what a batch adds, how sums join, and the numbers they stand for.

    A number that the examples seen do not define is NaN, and ``reasons()`` says why.

    >>> import gradwright as gw
    >>> roc = gw.evaluation.ROC().add([1, 1], [0.2, 0.9])
    >>> roc.auroc(), roc.reasons()["auroc"]
    (nan, 'every label is 1')
    """

    numbers: ClassVar[tuple[str, ...]] = ()
    """Names of the methods that give ``metrics()``; the first is what a trainer reports."""
    _state: State = field(init=False, default_factory=dict)

    def __init_subclass__(cls, saved: bool = True) -> None:
        if saved:
            _known[cls.__name__] = cls

    # -- what is seen ----------------------------------------------------------------------------

    def add(self, labels: Any, predictions: Any, mask: Any = None) -> Self:
        """Take in a batch and return the evaluation; ``mask`` is 0 where nothing counts.

        Raises ShapeError or TrainingError for arrays that do not fit; then nothing is taken in.
        """
        self._state = self._join(self._state, self._measure(labels, predictions, mask))
        return self

    def merge(self, other: Self) -> Self:
        """Take in all that another evaluation of these settings has seen, and return this one.

        Raises TrainingError if it is of another kind, or of other settings.
        """
        if type(other) is not type(self) or other._settings() != self._settings():
            raise TrainingError(
                f"{type(other).__name__} cannot be merged into {type(self).__name__}",
                facts=[f"{_said(self)} and {_said(other)}"],
                need="two evaluations of one kind with the same settings",
            )
        self._state = self._join(self._state, other._state)
        return self

    def copy(self) -> Self:
        """Return another evaluation that has seen the same."""
        return copy.copy(self)

    def fresh(self) -> Self:
        """Return an evaluation of these settings that has seen nothing."""
        made = copy.copy(self)
        made._state = {}
        return made

    def _measure(self, labels: Any, predictions: Any, mask: Any) -> State:
        """Return the sums of one batch alone."""
        raise NotImplementedError

    def _join(self, a: State, b: State) -> State:
        """Return the sums of what both have seen."""
        if not a or not b:
            return a or b
        for name, array in a.items():
            if array.shape != b[name].shape:
                raise TrainingError(
                    f"{type(self).__name__} has seen {len(array)} columns and now {len(b[name])}",
                    need="predictions of as many classes or outputs as before",
                )
        return self._sums(a, b)

    def _sums(self, a: State, b: State) -> State:
        """Return joined sums, both of which hold something; by default those of each array."""
        return {name: array + b[name] for name, array in a.items()}

    # -- numbers ---------------------------------------------------------------------------------

    def metrics(self) -> dict[str, float]:
        """Return the numbers by name."""
        return {name: self.number(name) for name in self.numbers}

    def number(self, name: str) -> float:
        """Return one of the numbers; raises TrainingError for a name that there is not."""
        if name not in self.numbers:
            raise TrainingError(
                f"{type(self).__name__} has no {name!r}", need=", ".join(self.numbers)
            )
        return float(getattr(self, name)())

    def reasons(self) -> dict[str, str]:
        """Return why numbers are NaN, by the names of those that are."""
        return {n: self._reason(n) for n, value in self.metrics().items() if math.isnan(value)}

    def _reason(self, name: str) -> str:
        """Say why a number is NaN."""
        if not self.count and not self.unusable:
            return "nothing has been seen"
        return f"{self.unusable} predictions are not {self._need()}"

    def _need(self) -> str:
        """Say what predictions must be to be of use."""
        return "finite"

    @property
    def count(self) -> int:
        """How many examples have been counted, in the column that has most of them."""
        return int(np.max(self._state["count"], initial=0)) if self._state else 0

    @property
    def unusable(self) -> int:
        """How many predictions were of no use, such as NaN; with one, all numbers are NaN."""
        return int(np.sum(self._state["unusable"])) if self._state else 0

    def _sound(self) -> float:
        """Return 1, or NaN if there is nothing to stand for: a factor of every number."""
        return 1.0 if self.count and not self.unusable else math.nan

    # -- in a graph ------------------------------------------------------------------------------

    def metric(
        self,
        labels: Tensor,
        predictions: Tensor,
        mask: Tensor | None = None,
        value: str | None = None,
    ) -> EvaluationMetric:
        """Return a metric of a trainer that reports ``value``, by default the first of numbers.

        Raises TrainingError for a value that there is not.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> t, p = g.placeholder("t", (None,)), g.placeholder("p", (None,))
        >>> loss = gw.mean(p * g.variable("w", ()))
        >>> auc = gw.evaluation.ROC().metric(t, p)
        >>> trainer = gw.Trainer(g, loss, metrics={"auc": auc})
        >>> trainer.evaluate({"t": [0, 0, 1, 1], "p": [0.1, 0.4, 0.35, 0.8]}, batch_size=2)["auc"]
        0.75
        """
        return EvaluationMetric(self, labels, predictions, mask, value)

    # -- as data ---------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return settings and sums as what ``json.dumps`` takes; ``from_json`` gives them back.

        >>> import gradwright as gw
        >>> seen = gw.evaluation.Regression().add([1.0, 2.0], [1.5, 2.5])
        >>> gw.evaluation.Evaluation.from_json(seen.to_json()).mae()
        0.5
        """
        return {
            "evaluation": type(self).__name__,
            "settings": self._settings(),
            "state": {name: _listed(np.asarray(a)) for name, a in self._arrays().items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the evaluation that ``to_json`` was asked of.

        Raises TrainingError for what is none, or is of another class than the one asked.
        """
        try:
            kind = _known[data["evaluation"]]
            made = kind(**data["settings"])
        except (KeyError, TypeError) as error:
            raise TrainingError(
                "this is no evaluation that JSON tells all of",
                facts=[repr(error)],
                need=f"what to_json gave of {', '.join(_known)}",
                hint="evaluation.restored(data), of one with the same functions",
            ) from None
        if not isinstance(made, cls):
            raise TrainingError(f"this is a {kind.__name__}", need=cls.__name__)
        return made.restored(data)

    def restored(self, data: Mapping[str, Any]) -> Self:
        """Return an evaluation of these settings that has seen what ``data``, of to_json, has."""
        if data.get("evaluation") != type(self).__name__ or data["settings"] != self._settings():
            raise TrainingError(
                f"this was saved by another evaluation than {_said(self)}",
                facts=[f"{data.get('evaluation')} with {data.get('settings')}"],
            )
        made = self.fresh()
        arrays = {name: _unlisted(a) for name, a in data["state"].items()}
        made._state = self._from_arrays(arrays) if arrays else {}
        return made

    def _settings(self) -> dict[str, Any]:
        """Return the settings as JSON."""
        found = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in found.items()}

    def _arrays(self) -> dict[str, Array]:
        """Return the sums as arrays."""
        return self._state

    def _from_arrays(self, arrays: dict[str, Array]) -> State:
        """Return the sums that ``_arrays`` gave."""
        return arrays

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the JSON as bytes: this is how a trainer saves what it has seen of an epoch."""
        return json_array(self.to_json())

    # -- to be read ------------------------------------------------------------------------------

    def stats(self) -> Table:
        """Return the numbers as a table, with what is to be known of them below."""
        rows = [[name, text_of(value)] for name, value in self.metrics().items()]
        return Table(["metric", "value"], rows, title=self._title(), notes=self._notes())

    def plot(self) -> go.Figure:
        """Return a figure of what has been seen."""
        raise NotImplementedError

    def _title(self) -> str:
        return f"{type(self).__name__} of {self.count} examples"

    def _notes(self) -> list[str]:
        """Return lines of what is to be known of the numbers."""
        said: dict[str, list[str]] = {}
        for name, why in self.reasons().items():
            said.setdefault(why, []).append(name)
        return [f"{', '.join(names)}: {why}" for why, names in said.items()]

    def __repr__(self) -> str:
        return str(self.stats())

    def _repr_html_(self) -> str:
        return self.stats()._repr_html_()


def text_of(value: float) -> str:
    """Return a number as a table shows it.

    >>> text_of(0.123456), text_of(float("nan")), text_of(12)
    ('0.1235', '-', '12')
    """
    return "-" if math.isnan(value) else f"{value:.4g}"


def _said(evaluation: Evaluation) -> str:
    given = ", ".join(f"{k}={v!r}" for k, v in evaluation._settings().items())
    return f"{type(evaluation).__name__}({given})"


def _listed(array: Array) -> dict[str, Any]:
    """Return an array as JSON; floats are written so that they come back to the bit."""
    flat = array.ravel().tolist()
    if array.dtype.kind == "f":
        flat = [v if math.isfinite(v) else str(v) for v in flat]
    return {"dtype": array.dtype.name, "shape": list(array.shape), "values": flat}


def _unlisted(data: Mapping[str, Any]) -> Array:
    if data["dtype"] not in ("int64", "float64"):
        raise TrainingError(f"an evaluation holds no {data['dtype']}", need="int64 or float64")
    values = [float(v) if isinstance(v, str) else v for v in data["values"]]
    return np.array(values, data["dtype"]).reshape(data["shape"])
