"""Custom: an evaluation made of functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import TrainingError
from .base import Evaluation, State
from .inputs import Array

if TYPE_CHECKING:
    import plotly.graph_objects as go


def _added(a: Array, b: Array) -> Array:
    return a + b


@dataclass(eq=False, repr=False)
class Custom(Evaluation, saved=False):
    """Numbers of your own, from sums of your own.

    Args:
        measure: what a batch adds, a number or an array, of labels, predictions and mask (or None).
        result: what sums stand for, a number or numbers by name.
        merge: how the sums of two batches join; by default they are added. It must not matter which
            comes first, nor how they are grouped.

    Functions cannot be saved: ``restored(data)`` of an evaluation with the same functions takes the
    place of ``from_json``.

    >>> import gradwright as gw, numpy as np
    >>> largest = gw.evaluation.Custom(
    ...     lambda t, p, mask: np.abs(p - t).max(), result=float, merge=np.maximum
    ... )
    >>> largest.add([1.0, 2.0], [1.5, 2.0]).add([3.0], [2.0]).value()
    1.0
    """

    measure: Callable[[Array, Array, Array | None], Any]
    result: Callable[[Array], float | Mapping[str, float]] = float
    merge_sums: Callable[[Array, Array], Any] = _added

    numbers = ("value",)

    def __init__(
        self,
        measure: Callable[[Array, Array, Array | None], Any],
        result: Callable[[Array], float | Mapping[str, float]] = float,
        merge: Callable[[Array, Array], Any] = _added,
    ) -> None:
        self.measure, self.result, self.merge_sums = measure, result, merge
        self._state = {}

    def _measure(self, labels: Any, predictions: Any, mask: Any) -> State:
        t, p = np.asarray(labels), np.asarray(predictions)
        sums = np.asarray(self.measure(t, p, None if mask is None else np.asarray(mask)))
        if sums.dtype.kind not in "biuf":
            raise TrainingError(f"measure gave {sums.dtype}", need="a number or an array of them")
        wide = np.float64 if sums.dtype.kind == "f" else np.int64
        return {"count": np.array([len(t) if t.ndim else 1]), "sums": sums.astype(wide)}

    def _join(self, a: State, b: State) -> State:
        if not a or not b:
            return a or b
        sums = np.asarray(self.merge_sums(a["sums"], b["sums"]))
        wide = np.float64 if sums.dtype.kind == "f" else np.int64
        return {"count": a["count"] + b["count"], "sums": sums.astype(wide)}

    @property
    def unusable(self) -> int:
        """Zero: what predictions are of use is up to ``measure``."""
        return 0

    def value(self) -> float:
        """Return the number, or the first of several."""
        return next(iter(self.metrics().values()), float("nan"))

    def number(self, name: str) -> float:
        """Return one of the numbers; ``value`` is the first, and what there is not is NaN."""
        return self.value() if name == "value" else self.metrics().get(name, float("nan"))

    def metrics(self) -> dict[str, float]:
        """Return the numbers by name; a single one is called ``value``."""
        if not self._state:
            return {"value": float("nan")}
        found = self.result(self._state["sums"])
        named = found if isinstance(found, Mapping) else {"value": found}
        return {str(name): float(value) for name, value in named.items()}

    def _reason(self, name: str) -> str:
        return "result gave NaN" if self.count else super()._reason(name)

    def _settings(self) -> dict[str, Any]:
        functions = {"measure": self.measure, "result": self.result, "merge": self.merge_sums}
        return {k: getattr(f, "__qualname__", type(f).__name__) for k, f in functions.items()}

    def plot(self) -> go.Figure:
        """Return a figure of the numbers."""
        import html

        import plotly.graph_objects as go

        numbers = self.metrics()
        names = [html.escape(n, quote=False) for n in numbers]
        figure = go.Figure(go.Bar(x=names, y=list(numbers.values())))
        figure.update_layout(template="plotly_white", title=self._title())
        return figure
