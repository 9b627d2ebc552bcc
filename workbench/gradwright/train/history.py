"""History: what training has measured, per step and per epoch."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import TrainingError
from ..files.whole import replacing
from .columns import Table
from .direction import falls
from .stateful import beneath

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


WHOLE = ("step", "epoch")
"""Columns of whole numbers."""


class Record(NamedTuple):
    """One finished step or epoch: its number and that of the epoch, both from 1, and numbers.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=3.0)
    >>> record = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(0.1)).step({})
    >>> record.step, record.metrics["loss"], record.metrics["grad_norm"]
    (1, 9.0, 6.0)
    """

    step: int
    epoch: int
    metrics: dict[str, float]
    seconds: float
    """Time spent training so far."""


@dataclass(frozen=True)
class FitEnd:
    """How the last fit of a training ended: ``history.end``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=2.0)
    >>> trainer = gw.Trainer(g, w * w, callbacks=[gw.train.MaxSteps(3)])
    >>> end = trainer.fit([{}, {}], epochs=9, progress=False).end
    >>> end.outcome, end.reason, end.steps, end.epochs, end.checkpoints
    ('stopped', '3 steps are done', 3, 1, ())
    """

    outcome: str
    """``"finished"``, ``"stopped"``, ``"terminated"`` or ``"failed"``."""
    reason: str
    """What was done, which callback stopped it and why, ``Ctrl-C``, ``SIGTERM``, or the error."""
    steps: int
    """Steps that this fit has taken."""
    epochs: int
    """Epochs that it has finished."""
    seconds: float
    """Time that it took, without pauses."""
    checkpoints: tuple[Path, ...]
    """The checkpoints that there are now, the oldest first."""


class History:
    """Loss and metrics of every step and every epoch, with the time spent.

    ``steps`` and ``epochs`` are tables: ``history.epochs["val_loss"]`` is an array. ``end`` tells
    how the last fit ended.

    >>> import gradwright as gw
    >>> history = gw.History()
    >>> history.add_step(gw.train.Record(step=1, epoch=1, metrics={"loss": 2.5}, seconds=0.1))
    >>> history.add_epoch(gw.train.Record(step=1, epoch=1, metrics={"loss": 2.5}, seconds=0.1))
    >>> history
    History: 1 epoch, 1 step, 0.1 s
    epoch  step  loss  seconds
        1     1   2.5      0.1
    >>> gw.History.from_dict(history.to_dict()).epochs["loss"].tolist()
    [2.5]
    """

    def __init__(self) -> None:
        self.steps, self.epochs = Table(), Table()
        self.end: FitEnd | None = None
        """How the last fit ended; None before, and after a resume."""

    def add_step(self, record: Record) -> None:
        """Note a step."""
        self.steps.append(_row(record))

    def add_epoch(self, record: Record) -> None:
        """Note an epoch."""
        self.epochs.append(_row(record))

    @property
    def seconds(self) -> float:
        """Time spent training, without pauses."""
        return max((t.last().get("seconds", 0.0) for t in (self.steps, self.epochs)), default=0.0)

    def last(self) -> dict[str, float]:
        """Return the numbers of the last epoch."""
        return self.epochs.last()

    def best(self, monitor: str | None = None, mode: str | None = None) -> dict[str, float]:
        """Return the numbers of the best epoch, its ``step`` and ``epoch`` among them.

        ``monitor`` is ``"val_loss"`` where that is measured, else ``"loss"``; ``mode``, ``"min"``
        or ``"max"``, is needed where the name does not tell. Raises TrainingError where no epoch
        has measured it.

        >>> import gradwright as gw
        >>> history = gw.History()
        >>> for step, loss in ((8, 0.5), (16, 0.25), (24, 0.3)):
        ...     history.add_epoch(gw.train.Record(step, step // 8, {"loss": loss}, 0.0))
        >>> history.best()["step"]
        16.0
        """
        name = monitor or ("val_loss" if "val_loss" in self.epochs else "loss")
        sign = 1.0 if falls(name, mode) else -1.0
        rows = self.epochs.snapshot()
        values = sign * rows.get(name, np.full(1, math.nan))
        if np.isnan(values).all():
            measured = ", ".join(self.epochs) or "nothing"
            raise TrainingError(f"no epoch has measured {name!r}", facts=[f"measured: {measured}"])
        best = int(np.nanargmin(values))
        return {column: float(numbers[best]) for column, numbers in rows.items()}

    # -- as data ---------------------------------------------------------------------------------

    def to_pandas(self, table: str = "epochs") -> pd.DataFrame:
        """Return ``"epochs"`` or ``"steps"`` as a pandas data frame.

        Steps and epochs are ints; what a row has not measured is NaN. Needs pandas:
        ``pip install 'gradwright[data]'``.

        >>> import gradwright as gw
        >>> history = gw.History()
        >>> history.add_epoch(gw.train.Record(8, 1, {"loss": 0.5}, 0.25))
        >>> history.to_pandas().to_dict("records")
        [{'step': 8, 'epoch': 1, 'loss': 0.5, 'seconds': 0.25}]
        """
        try:
            import pandas as pd
        except ImportError:
            hint = "pip install 'gradwright[data]'"
            raise TrainingError("pandas is not installed", hint=hint) from None

        columns = self._table(table).snapshot()
        whole = {name: columns[name].astype(np.int64) for name in WHOLE if name in columns}
        return pd.DataFrame({**columns, **whole})

    def to_csv(self, path: str | os.PathLike[str] | None = None, table: str = "epochs") -> str:
        """Return ``"epochs"`` or ``"steps"`` as CSV; with ``path`` write it, whole or not at all.

        Numbers are written so that they can be read back to the bit; where a row has not measured
        a metric, as epochs without validation, its field is empty.

        >>> import gradwright as gw
        >>> history = gw.History()
        >>> history.add_epoch(gw.train.Record(8, 1, {"loss": 0.5}, 0.25))
        >>> history.add_epoch(gw.train.Record(16, 2, {"loss": 0.25, "val_loss": 0.5}, 0.5))
        >>> print(history.to_csv())
        step,epoch,loss,seconds,val_loss
        8,1,0.5,0.25,
        16,2,0.25,0.5,0.5
        """
        columns = self._table(table).snapshot()
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow(_field(*pair) for pair in zip(columns, row, strict=True))
        if path is not None:
            with replacing(path) as file:
                file.write(text.getvalue().encode())
        return text.getvalue()

    def _table(self, name: str) -> Table:
        if name not in ("steps", "epochs"):
            raise TrainingError(f"a history has no table {name!r}", need="'steps' or 'epochs'")
        table: Table = getattr(self, name)
        return table

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return all columns by name: ``steps/loss``, ``epochs/val_loss`` ..."""
        tables = (("steps", self.steps), ("epochs", self.epochs))
        return {f"{kind}/{n}": c for kind, table in tables for n, c in table.snapshot().items()}

    state_dict = arrays

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` returned; raises TrainingError for what is no history."""
        loaded = History.from_arrays(state)
        self.steps, self.epochs = loaded.steps, loaded.epochs

    @classmethod
    def from_arrays(cls, columns: Mapping[str, Any]) -> History:
        """Return the history that has these columns."""
        history = cls()
        for kind, table in (("steps", history.steps), ("epochs", history.epochs)):
            own = beneath(f"{kind}/", columns)
            if len({len(c) for c in own.values()}) > 1:
                raise TrainingError(f"columns of {kind!r} differ in length, so this is no history")
            for row in zip(*own.values(), strict=True):
                table.append(dict(zip(own, map(float, row), strict=True)))
        return history

    def to_dict(self) -> dict[str, list[Any]]:
        """Return lists that strict JSON can hold: None for NaN, "inf" for infinity."""
        return {name: list(map(_plain, column)) for name, column in self.arrays().items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> History:
        """Return the history that ``to_dict`` wrote."""
        return cls.from_arrays({name: list(map(_number, c)) for name, c in data.items()})

    # -- to look at ------------------------------------------------------------------------------

    def __repr__(self) -> str:
        n_epochs, n_steps = self.epochs.rows, self.steps.rows
        head = (
            f"History: {n_epochs} epoch{'s' * (n_epochs != 1)}, "
            f"{n_steps} step{'s' * (n_steps != 1)}, {self.seconds:.3g} s"
        )
        end = self._end()
        if not n_epochs:
            return head + end
        own = ("epoch", "step", "seconds")
        names = ["epoch", "step", *(n for n in self.epochs if n not in own), "seconds"]
        columns = [self.epochs[n] for n in names]
        shown = list(range(n_epochs))
        if n_epochs > 12:
            shown = [*range(4), -1, *range(n_epochs - 6, n_epochs)]
        rows = [names]
        for i in shown:
            rows.append(["…"] * len(names) if i < 0 else [_text(c[i]) for c in columns])
        widths = [max(len(r[j]) for r in rows) for j in range(len(names))]
        lines = ["  ".join(c.rjust(w) for c, w in zip(r, widths, strict=True)) for r in rows]
        return "\n".join([head, *lines]) + end

    def _end(self) -> str:
        """Return a line on how the last fit ended."""
        if self.end is None:
            return ""
        kept = f"; {len(self.end.checkpoints)} checkpoints" if self.end.checkpoints else ""
        return f"\n{self.end.outcome}: {self.end.reason}{kept}"

    def plot(self) -> go.Figure:
        """Return a figure: one panel per metric over the steps, training and validation.

        The learning rate has a panel if it changed.
        """
        from plotly.subplots import make_subplots

        colors = {"step": "#9ecae1", "train": "#2171b5", "validation": "#d94801"}
        shapes = {"train": ("circle", "solid"), "validation": ("diamond", "dash")}
        seen = [*self.epochs, *self.steps]
        own = {"step", "epoch", "seconds", "grad_norm", "learning_rate"}
        names = list(dict.fromkeys(n.removeprefix("val_") for n in seen if n not in own))
        names += ["grad_norm"] * ("grad_norm" in self.steps)
        names += ["learning_rate"] * (len(set(self.steps.get("learning_rate", ()))) > 1)
        figure = make_subplots(
            rows=max(1, len(names)), cols=1, shared_xaxes=True, vertical_spacing=0.04
        )
        legend: set[str] = set()

        def line(row: int, kind: str, table: Table, column: str, **style: Any) -> None:
            data = table.snapshot("step", column)
            figure.add_scatter(
                x=data["step"],
                y=data[column],
                name=kind,
                legendgroup=kind,
                showlegend=kind not in legend,
                line={"color": colors[kind], **style.pop("line", {})},
                row=row,
                col=1,
                **style,
            )
            legend.add(kind)

        for row, name in enumerate(names, 1):
            if name in self.steps:
                line(row, "step", self.steps, name, mode="lines", line={"width": 1})
            for kind, column in (("train", name), ("validation", f"val_{name}")):
                if column in self.epochs:
                    symbol, dash = shapes[kind]
                    line(
                        row,
                        kind,
                        self.epochs,
                        column,
                        mode="lines+markers",
                        marker={"symbol": symbol, "size": 6},
                        line={"dash": dash},
                    )
            figure.update_yaxes(title_text=name, row=row, col=1)
        figure.update_xaxes(title_text="step", row=max(1, len(names)), col=1)
        figure.update_layout(
            template="plotly_white",
            height=120 + 200 * max(1, len(names)),
            hovermode="x unified",
            margin={"t": 40},
        )
        return figure


def _row(record: Record) -> dict[str, float]:
    step, epoch, metrics, seconds = record
    return {"step": step, "epoch": epoch, **metrics, "seconds": seconds}


def _field(name: str, value: float) -> str:
    """Return a number as a field of CSV."""
    if math.isnan(value):
        return ""
    return str(int(value)) if name in WHOLE else repr(float(value))


def _plain(value: float) -> Any:
    if math.isnan(value):
        return None
    return str(value) if math.isinf(value) else float(value)


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _text(value: float) -> str:
    whole = math.isfinite(value) and value == int(value) and abs(value) < 1e9
    return str(int(value)) if whole else f"{value:.4g}"
