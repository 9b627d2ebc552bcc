"""Activations of single steps, saved; and where two trainings begin to differ."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import TrainingError
from ...gradient import gradients
from ...graph import Graph, Source, Tensor, ancestors
from ...spec import dtype_name
from ...words.jsonable import from_json_array, json_array
from ...words.tables import Table
from ..training import Training
from . import Callback

if TYPE_CHECKING:
    import plotly.graph_objects as go

Array = np.ndarray[Any, Any]
STATE = "activations"
GRADIENT = "gradient/"
"""What stands before the name of a parameter to name its gradient."""


class SaveActivations(Callback):
    """Saves what nodes compute in certain steps, to look at or to compare with another training.

    Before such a step, its batch is run once more, with the same values and random numbers, and
    nothing is committed: the numbers of the training stay the same, bit for bit. The file of a step
    is ``step-000000001.gw``, which ``load_activations`` reads.

    Args:
        folder: where the files go; made when the first is written.
        nodes: names or patterns of tensors, those of gradients included; default all that the loss
            depends on, but neither feeds nor parameters.
        steps: numbers of the steps, from 1.
        gradients: whether to save the gradients of the parameters, too, as ``gradient/...``; the
            loss is not scaled for them, and nothing is clipped.

    Raises TrainingError in ``fit`` where no node is called so.

    >>> import gradwright as gw, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2,), init=[0.0, 1.0])
    >>> save = gw.train.SaveActivations(folder, steps=[1, 2], gradients=True)
    >>> loss = gw.exp(w, name="e").sum(name="loss")
    >>> trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.5), callbacks=[save])
    >>> history = trainer.fit([{}] * 3, progress=False)
    >>> {name: a.shape for name, a in gw.train.load_activations(folder, 1).items()}
    {'e': (2,), 'loss': (), 'gradient/w': (2,)}
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        nodes: Iterable[str] | str | None = None,
        steps: Iterable[int] = (1,),
        *,
        gradients: bool = False,
    ) -> None:
        self.folder, self.steps = Path(folder), frozenset(steps)
        self.nodes = [nodes] if isinstance(nodes, str) else None if nodes is None else list(nodes)
        self.gradients = gradients
        if not self.steps or min(self.steps) < 1:
            raise TrainingError(f"steps={sorted(self.steps)} are none", need="numbers from 1 on")

    def wants_changes(self, trainer: Training) -> bool:
        """Save the step that comes next, if it is one of those; it is not watched otherwise."""
        number = trainer.steps_done + 1
        if number in self.steps:
            self._save(trainer, number)
        return False

    def _save(self, trainer: Training, number: int) -> None:
        from ...formats.archive import save

        chosen = self._chosen(trainer)
        arrays = trainer.session.run(
            list(chosen.values()), trainer.last_feeds, training=True, step=trainer.batches_taken
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        names = {f"{i:06}": name for i, name in enumerate(chosen)}  # the order of the graph
        facts = {name: {"op": t.node.op.name, "where": t.node.where} for name, t in chosen.items()}
        held: dict[str, Any] = dict(zip(names, arrays, strict=True))
        held["names"] = json_array([names, facts])
        save(Graph(STATE), self.folder / _file(number), state={STATE: held})

    def _chosen(self, trainer: Training) -> dict[str, Tensor]:
        """Return the tensors to save by name, in the order in which they are computed."""
        wanted: dict[str, Tensor] = {}
        if self.nodes is None:
            for node in ancestors([trainer.loss]):
                if not isinstance(node.op, Source):
                    wanted.update((t.name, t) for t in node.outputs[: node.op.n_public])
        else:
            every = [t for node in trainer.graph.all_nodes for t in node.outputs]
            for pattern in self.nodes:
                found = {t.name: t for t in every if fnmatchcase(t.name, pattern)}
                if not found:
                    raise TrainingError(
                        f"no tensor is called {pattern!r}, so that its activation could be saved",
                        hint="g.summary() shows the names",
                    )
                wanted.update(found)
            place = {n: i for i, n in enumerate(ancestors(list(wanted.values())))}
            wanted = dict(sorted(wanted.items(), key=lambda item: place[item[1].node]))
        if self.gradients:
            params = trainer.parameters
            pulled = gradients(trainer.loss, params)
            wanted.update((GRADIENT + p.name, g) for p, g in zip(params, pulled, strict=True))
        return wanted

    def __repr__(self) -> str:
        return f"<SaveActivations of {len(self.steps)} steps to {str(self.folder)!r}>"


def load_activations(folder: str | os.PathLike[str], step: int) -> dict[str, Array]:
    """Return what ``SaveActivations`` has saved of a step, in the order of the graph.

    Raises TrainingError, with the steps that are there, where that one is not.

    >>> import gradwright as gw, tempfile
    >>> g = gw.Graph()
    >>> loss = gw.exp(g.variable("w", (2,)), name="e").sum(name="loss")
    >>> folder = tempfile.mkdtemp()
    >>> trainer = gw.Trainer(g, loss, callbacks=[gw.train.SaveActivations(folder, steps=[1])])
    >>> history = trainer.fit([{}], progress=False)
    >>> {name: a.tolist() for name, a in gw.train.load_activations(folder, 1).items()}
    {'e': [1.0, 1.0], 'loss': 2.0}
    """
    return _load(folder, step)[0]


def _load(folder: str | os.PathLike[str], step: int) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the arrays of a step, and op and line of each."""
    from ...formats.archive import load_state

    path = Path(folder, _file(step))
    if not path.exists():
        raise TrainingError(
            f"{os.fspath(folder)!r} has no activations of step {step}",
            facts=[f"it has those of {', '.join(map(str, _steps(folder))) or 'none'}"],
        )
    held = load_state(path, STATE)
    names, facts = from_json_array(held["names"])
    return {name: held[key] for key, name in names.items()}, facts


def _file(step: int) -> str:
    return f"step-{step:09}.gw"


def _steps(folder: str | os.PathLike[str]) -> list[int]:
    return sorted(int(p.stem[5:]) for p in Path(folder).glob("step-*.gw") if p.stem[5:].isdigit())


# -- comparing -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """What two trainings have computed at one place."""

    step: int
    name: str
    op: str
    where: str
    largest: float
    """The largest |a − b|; inf where shapes or dtypes differ, or one only is NaN or infinite."""
    relative: float
    """That, by the largest |a|."""
    is_close: bool
    note: str = ""
    """How shapes or dtypes differ, or who has it alone."""


class ActivationComparison(Sequence[Difference]):
    """All places that two trainings have saved, in the order in which they were computed.

    ``gw.train.compare_activations`` returns one.
    """

    def __init__(self, found: Sequence[Difference]) -> None:
        self._found = list(found)

    def __getitem__(self, index: Any) -> Any:
        return self._found[index]

    def __len__(self) -> int:
        return len(self._found)

    @property
    def first(self) -> Difference | None:
        """The first place that differs: of the first step that does, the first in the graph."""
        return next((d for d in self._found if not d.is_close), None)

    def table(self, n: int = 40) -> Table:
        """Return the first ``n`` places that differ as a table."""
        apart = [d for d in self._found if not d.is_close]
        rows = [
            [str(d.step), d.name, d.op, f"{d.largest:.3g}", f"{d.relative:.3g}", d.where, d.note]
            for d in apart[:n]
        ]
        more = len(apart) - len(rows)
        return Table(
            ["step", "node", "op", "largest", "relative", "where", ""],
            rows,
            title=f"{len(apart)} of {len(self)} activations differ",
            notes=[f"and {more} more"] if more > 0 else [],
        )

    def plot(self) -> go.Figure:
        """Return a figure: the largest difference at each place, a line for each step."""
        import plotly.graph_objects as go

        figure = go.Figure()
        for step in dict.fromkeys(d.step for d in self._found):
            of = [d for d in self._found if d.step == step]
            figure.add_scatter(
                x=[d.name for d in of],
                y=[d.largest if 0 < d.largest < np.inf else None for d in of],
                name=f"step {step}",
                mode="lines+markers",
            )
        figure.update_layout(
            template="plotly_white",
            xaxis_title="node, in the order of the graph",
            yaxis={"title": "largest difference", "type": "log", "exponentformat": "power"},
            margin={"t": 40},
        )
        return figure

    def __repr__(self) -> str:
        first = self.first
        if first is None:
            return f"<{len(self)} activations agree>"
        return (
            f"<activations differ from step {first.step}, {first.op} {first.name!r} on, "
            f"by {first.largest:.3g}>"
        )

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def compare_activations(
    first: str | os.PathLike[str],
    second: str | os.PathLike[str],
    *,
    atol: float = 0.0,
    rtol: float = 0.0,
) -> ActivationComparison:
    """Return how the activations differ that two trainings have saved, and the first that does.

    They are close where |a − b| ≤ atol + rtol·|a| for all elements; NaN is close to NaN. Steps
    that only one folder has are left out; a node that only one has differs. Raises TrainingError
    where no step is in both.

    >>> import gradwright as gw, tempfile
    >>> def train(rate):
    ...     folder = tempfile.mkdtemp()
    ...     g = gw.Graph()
    ...     loss = gw.exp(g.variable("w", (2,), init=[0.0, 1.0]), name="e").sum(name="loss")
    ...     save = gw.train.SaveActivations(folder, steps=[1, 2])
    ...     trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(rate), callbacks=[save])
    ...     trainer.fit([{}] * 3, progress=False)
    ...     return folder
    >>> gw.train.compare_activations(train(0.1), train(0.1))
    <4 activations agree>
    >>> gw.train.compare_activations(train(0.1), train(0.2)).first.name
    'e'
    """
    steps = sorted({*_steps(first)} & {*_steps(second)})
    if not steps:
        raise TrainingError(
            "no step is in both folders",
            facts=[f"{os.fspath(f)!r}: {_steps(f) or 'none'}" for f in (first, second)],
            need="folders of SaveActivations with equal steps",
        )
    found: list[Difference] = []
    for step in steps:
        (a, facts), (b, others) = (_load(folder, step) for folder in (first, second))
        facts = others | facts
        for name in dict.fromkeys([*a, *b]):
            op, where = facts[name]["op"], facts[name]["where"]
            found.append(Difference(step, name, op, where, *_apart(a, b, name, atol, rtol)))
    return ActivationComparison(found)


def _apart(
    a: Mapping[str, Array], b: Mapping[str, Array], name: str, atol: float, rtol: float
) -> tuple[float, float, bool, str]:
    """Return largest and relative difference, whether that is close, and a note."""
    if name not in a or name not in b:
        return np.inf, np.inf, False, f"only the {'first' if name in a else 'second'} has it"
    x, y = a[name], b[name]
    if (x.shape, x.dtype) != (y.shape, y.dtype):
        first, second = (f"{dtype_name(z.dtype)}{list(z.shape)}" for z in (x, y))
        return np.inf, np.inf, False, f"{first} and {second}"
    if x.dtype.kind not in "fciubV":
        same = bool((x == y).all())
        return (0.0, 0.0, True, "") if same else (np.inf, np.inf, False, "")
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    x, y = x.astype(wide), y.astype(wide)
    with np.errstate(all="ignore"):
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        apart = np.where(same, 0.0, np.abs(x - y))
        apart = np.where(np.isnan(apart), np.inf, apart)
        close = bool((apart <= atol + rtol * np.where(np.isfinite(x), np.abs(x), 0.0)).all())
    largest = float(apart.max(initial=0.0))
    size = float(np.abs(x[np.isfinite(x)]).max(initial=0.0))
    return largest, largest / size if size else largest, close, ""
