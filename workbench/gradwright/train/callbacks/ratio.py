"""UpdateRatio: how far steps move each parameter, and a warning where that looks wrong."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import TrainingError
from ..columns import Table
from ..history import Record
from ..training import Training
from .base import Callback, Change
from .moments import norms

if TYPE_CHECKING:
    import plotly.graph_objects as go


class UpdateRatio(Callback):
    """Watches log₁₀(‖Δw‖/‖w‖) of every parameter, and warns of those outside a band.

    About -3 is healthy: a parameter that moves by a thousandth of its norm in a step. Far less
    learns slowly, far more learns badly. ``gw.ParameterStatistics`` computes the same ratio, among
    much else; this one is for keeping an eye on it. The numbers of the training stay the same, and
    steps that are not sampled take as long as ever.

    Args:
        every: steps between two samples.
        low, high: the band of log₁₀ ratios.
        patience: samples in a row outside of it before the warning, one for each parameter.

    Parameters that do not move, such as frozen ones, have the ratio -inf and are not warned of, and
    neither are those that begin at 0.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2,), init=[3.0, 4.0])
    >>> ratio = gw.train.UpdateRatio(every=1, high=0.0)
    >>> sgd = gw.optim.SGD(0.05)                        # takes a tenth of w away in each step
    >>> trainer = gw.Trainer(g, (w * w).sum(), optimizer=sgd, callbacks=[ratio])
    >>> history = trainer.fit([{}], epochs=3, progress=False)
    >>> ratio.history["w"].round(2).tolist(), ratio.outside
    ([-0.95, -0.95, -0.95], {})
    """

    def __init__(
        self, every: int = 50, *, low: float = -5.0, high: float = -1.0, patience: int = 5
    ) -> None:
        if every < 1 or not low < high or patience < 1:
            raise TrainingError(
                f"every={every}, low={low}, high={high}, patience={patience} make no sense",
                need="every >= 1; low < high; patience >= 1",
            )
        self.every, self.low, self.high, self.patience = every, low, high, patience
        self.history = Table()
        """Columns ``step`` and one for each parameter."""
        self.outside: dict[str, float] = {}
        """Parameters that have been warned of, and their ratio then."""
        self._row: dict[str, int] = {}

    def wants_changes(self, trainer: Training) -> bool:
        """Tell whether the next step is a sample."""
        return trainer.steps_done % self.every == 0

    def on_changes(self, trainer: Training, record: Record, changes: Mapping[str, Change]) -> None:
        """Take a sample, and warn."""
        after = [c.after for c in changes.values()]
        moved, _ = norms(after, [c.before for c in changes.values()])
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.log10(np.where(moved == 0, 0.0, moved / norms(after)[0]))
        self.history.append({"step": record.step, **dict(zip(changes, found, strict=True))})
        for (name, change), ratio in zip(changes.items(), found.tolist(), strict=True):
            if self.low <= ratio <= self.high or ratio == -math.inf or not change.before.any():
                self._row[name] = 0
                continue
            self._row[name] = self._row.get(name, 0) + 1
            if self._row[name] >= self.patience and name not in self.outside:
                self.outside[name] = ratio
                much = "much: a smaller" if ratio > self.high else "little: a larger"
                warnings.warn(
                    f"step {record.step}: {name!r} moves by 10^{ratio:.1f} of its norm in a step, "
                    f"which is {much} learning rate for it may do better",
                    stacklevel=2,
                )

    def plot(self) -> go.Figure:
        """Return a figure: the ratio of every parameter over the steps, and the band."""
        import plotly.graph_objects as go

        figure = go.Figure()
        data = self.history.snapshot()
        for name in (n for n in data if n != "step"):
            figure.add_scatter(x=data["step"], y=data[name], name=name, mode="lines")
        figure.add_hrect(y0=self.low, y1=self.high, opacity=0.08, line_width=0, fillcolor="#2171b5")
        figure.update_layout(
            template="plotly_white",
            xaxis_title="step",
            yaxis_title="log₁₀(‖Δw‖/‖w‖)",
            margin={"t": 40},
        )
        return figure

    def state_dict(self) -> dict[str, Any]:
        """Return the history."""
        return dict(self.history.snapshot())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict`` returned."""
        history = Table()
        for row in zip(*state.values(), strict=True):
            history.append(dict(zip(state, map(float, row), strict=True)))
        self.history, self.outside, self._row = history, {}, {}
