"""History: what training has measured, per step and per epoch."""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import TrainingError

if TYPE_CHECKING:
    import plotly.graph_objects as go


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


class Table(Mapping[str, np.ndarray[Any, Any]]):
    """Columns of numbers; 8 bytes each, NaN where a row has none.

    >>> from gradwright.train.history import Table
    >>> table = Table()
    >>> table.append({"loss": 2.0})
    >>> table.append({"loss": 1.0, "accuracy": 0.5})
    >>> table["accuracy"].tolist(), len(table), table.rows
    ([nan, 0.5], 2, 2)
    """

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._data = array("d")
        """Row after row, so that a step adds all its numbers at once."""
        self._lock = threading.RLock()

    @property
    def rows(self) -> int:
        """How many rows there are."""
        with self._lock:  # a new column changes both
            return len(self._data) // len(self._names) if self._names else 0

    def append(self, row: Mapping[str, float]) -> None:
        """Add a row; a new name becomes a column, empty so far."""
        self.add(tuple(row), list(row.values()))

    def add(self, names: tuple[str, ...], numbers: list[float]) -> None:
        """Add a row, as ``append`` does, whose names come apart from its numbers."""
        with self._lock:
            if names != self._names:
                if new := tuple(name for name in names if name not in self._names):
                    empty = np.full((self.rows, len(new)), math.nan)
                    data = np.hstack([self._table(), empty]).tobytes()
                    self._names, self._data = (*self._names, *new), array("d", data)
                row = dict(zip(names, numbers, strict=True))
                numbers = [row.get(name, math.nan) for name in self._names]
            self._data.fromlist(numbers)

    def _table(self) -> np.ndarray[Any, Any]:
        """Return a copy of all rows as a matrix."""
        return np.frombuffer(self._data.tobytes()).reshape(self.rows, len(self._names))

    def snapshot(self, *names: str, start: int = 0) -> dict[str, np.ndarray[Any, Any]]:
        """Return columns (default all) of one length, even while another thread appends.

        With ``start``, only the rows from that one on.
        """
        with self._lock:
            held, width = self._names, len(self._names)
            data = np.frombuffer(self._data[start * width :].tobytes()).reshape(-1, max(width, 1))
        return {name: data[:, held.index(name)].copy() for name in names or held}

    def last(self) -> dict[str, float]:
        """Return the last row."""
        with self._lock:
            return dict(zip(self._names, self._data[-len(self._names) :], strict=True))

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        if name not in self._names:
            raise KeyError(f"{name!r}; there are {', '.join(self._names) or 'no columns yet'}")
        return self.snapshot(name)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class History:
    """Loss and metrics of every step and every epoch, with the time spent.

    ``steps`` and ``epochs`` are tables: ``history.epochs["val_loss"]`` is an array.

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

    def add_step(self, record: Record) -> None:
        """Note a step."""
        _note(self.steps, record)

    def add_epoch(self, record: Record) -> None:
        """Note an epoch."""
        _note(self.epochs, record)

    @property
    def seconds(self) -> float:
        """Time spent training, without pauses."""
        return max((t.last().get("seconds", 0.0) for t in (self.steps, self.epochs)), default=0.0)

    def last(self) -> dict[str, float]:
        """Return the numbers of the last epoch."""
        return self.epochs.last()

    # -- as data ---------------------------------------------------------------------------------

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
            prefix = kind + "/"
            own = {k.removeprefix(prefix): v for k, v in columns.items() if k.startswith(prefix)}
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
        if not n_epochs:
            return head
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
        return "\n".join([head, *lines])

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


def _note(table: Table, record: Record) -> None:
    step, epoch, metrics, seconds = record
    table.add(("step", "epoch", *metrics, "seconds"), [step, epoch, *metrics.values(), seconds])


def _plain(value: float) -> Any:
    if math.isnan(value):
        return None
    return str(value) if math.isinf(value) else float(value)


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _text(value: float) -> str:
    whole = math.isfinite(value) and value == int(value) and abs(value) < 1e9
    return str(int(value)) if whole else f"{value:.4g}"
