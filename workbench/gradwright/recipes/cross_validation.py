"""Cross-validation: k trainings, each measured on the fold of the data that it has not seen."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data import k_folds
from ..errors import TrainingError
from ..graph import Values
from ..train.history import History
from ..train.placed import placed
from ..train.trainer import Trainer
from ..words.tables import Table, Tabular

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, repr=False)
class CrossValidation(Tabular):
    """What k trainings have given: ``gw.train.cross_validate`` returns one."""

    scores: Mapping[str, Array]
    """By metric f64[k], of each fold that was held out, when its training had ended."""
    histories: tuple[History, ...]
    """What each training has measured; ``val_...`` is of the fold."""
    sizes: tuple[int, ...]
    """How many rows each fold holds."""

    @property
    def mean(self) -> dict[str, float]:
        """The mean of each metric over the folds, all of which count alike."""
        return {name: float(values.mean()) for name, values in self.scores.items()}

    @property
    def std(self) -> dict[str, float]:
        """The standard deviation of each metric over the folds: √(Σ (x − mean)²/k), as numpy's."""
        return {name: float(values.std()) for name, values in self.scores.items()}

    def table(self) -> Table:
        """Return a row for each fold, and mean and standard deviation below."""
        names = list(self.scores)
        rows = [
            [
                f"{i + 1}",
                f"{size:,}",
                f"{h.epochs.rows}",
                *(f"{self.scores[n][i]:.4g}" for n in names),
            ]
            for i, (size, h) in enumerate(zip(self.sizes, self.histories, strict=True))
        ]
        for label, found in (("mean", self.mean), ("std", self.std)):
            rows.append([label, "", "", *(f"{found[n]:.4g}" for n in names)])
        return Table(["fold", "rows", "epochs", *names], rows)

    __repr__ = Tabular.__str__


def cross_validate(
    make: Callable[[int], Trainer],
    data: Any,
    k: int = 5,
    *,
    shuffle: bool = True,
    seed: int = 0,
    stratify: Any = None,
    **fit: Any,
) -> CrossValidation:
    """Train k times, each time on all but one fold of the data, and measure on that fold.

    Args:
        make: returns the trainer of a fold, counted from 0, with a graph of its own: what one
            training has learnt must not reach the next.
        data: what ``gw.data.k_folds`` takes; arrays by placeholder name, or a tuple for a trainer
            that knows ``features`` and ``labels``.
        k: how many folds.
        shuffle: whether rows are shuffled before the folds are cut.
        seed: decides how.
        stratify: a column, or labels by row, of which every fold has its share.
        **fit: what else ``trainer.fit`` takes, such as ``epochs=20`` and ``batch_size=64``; it
            shuffles batches whatever ``shuffle`` is here.

    Each fold is also the validation data of its training, so that callbacks such as
    ``gw.EarlyStopping("val_loss")`` can watch it; scores are then a little too good.

    Raises TrainingError where ``make`` returns no trainer, or one that has been trained before, and
    as ``gw.data.k_folds`` and ``trainer.fit`` do.

    >>> import gradwright as gw, numpy as np
    >>> def line(fold):
    ...     g = gw.Graph()
    ...     x, t = g.placeholder("x", (None,)), g.placeholder("t", (None,))
    ...     loss = gw.mean((x * g.variable("w", ()) - t) ** 2.0)
    ...     return gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.5))
    >>> xs = np.linspace(-1, 1, 10)
    >>> report = gw.train.cross_validate(line, {"x": xs, "t": 3 * xs}, k=3, epochs=60)
    >>> report.sizes, {name: round(value, 6) for name, value in report.mean.items()}
    ((4, 3, 3), {'loss': 0.0})
    """
    if "validation" in fit:
        raise TrainingError("validation= is the fold that is held out", hint="leave it out")
    scores: list[dict[str, float]] = []
    histories: list[History] = []
    seen: list[weakref.ref[Values]] = []
    trainer = _fresh(make, 0, seen)
    names = placed(trainer.graph, trainer.config)
    folds = k_folds(data, k, shuffle=shuffle, seed=seed, stratify=stratify, names=names)
    for i, (train, held) in enumerate(folds):
        trainer = _fresh(make, i, seen) if i else trainer
        histories.append(trainer.fit(train, validation=held, **fit))
        scores.append(trainer.evaluate(held, batch_size=fit.get("batch_size")))
    return CrossValidation(
        {name: np.array([found[name] for found in scores]) for name in scores[0]},
        tuple(histories),
        tuple(held.n for _, held in folds),
    )


def _fresh(make: Callable[[int], Trainer], fold: int, seen: list[weakref.ref[Values]]) -> Trainer:
    """Return the trainer of a fold; raises TrainingError for one that has learnt something."""
    trainer = make(fold)
    if not isinstance(trainer, Trainer):
        raise TrainingError(
            f"make({fold}) has returned a {type(trainer).__name__}",
            need="a function of the fold's number that returns a trainer",
        )
    if trainer.steps_done or any(held() is trainer.values for held in seen):
        raise TrainingError(
            f"make({fold}) has returned a trainer of values that were trained before",
            need="a new graph in each fold, or the fold that is held out has been seen",
            hint="build the graph within the function",
        )
    seen.append(weakref.ref(trainer.values))
    return trainer
