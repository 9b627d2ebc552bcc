"""Settings: what a training may be told beside its optimizer: windows, averages, groups."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import TrainingError
from ..graph import Tensor
from ..ops.core.choice import Where
from ..words.jsonable import jsonable
from ..words.named import Named
from .optim import Optimizer, get
from .optim.base import Number

PENALTIES = ("l1", "l2", "weight_decay")
"""What pulls weights towards 0: numbers of all parameters, and of groups."""
WAYS = ("example", "batch", "token")
"""What a batch may weigh by."""


@jsonable
@dataclass(frozen=True)
class Accumulation:
    """Gradients of ``steps`` batches make one update.

    g = Σₖ wₖ·gₖ / Σₖ wₖ

    Sums are kept in float32 at least. A window never reaches over the end of an epoch: its last one
    may be of fewer batches, and is divided by what it really holds. A window that has begun is
    dropped by settings that hold it otherwise: another accumulation, or, of a table whose gradient
    is rows, an optimizer that moves all of them.

    Args:
        steps: how many batches an update takes.
        by: what a batch weighs. ``"example"``: its examples, so that the update is that of the
            one big batch for a loss that is a mean over examples. ``"batch"``: all the same.
            ``"token"``: the sum of ``tokens``, for a loss that is a mean over tokens.
        tokens: for ``by="token"``, the name of a tensor whose sum counts the tokens of a batch,
            such as a mask, or ``tokens`` of a ``Decoder``. A batch that counts less than 0 is
            refused: labels are no count.

    Raises TrainingError for anything else.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.placeholder("x", (None,)), g.variable("w", (), init=0.0)
    >>> trainer = gw.Trainer(
    ...     g, gw.mean(x * w), optimizer=gw.optim.SGD(1.0), accumulation=gw.Accumulation(2)
    ... )
    >>> history = trainer.fit([{"x": [1.0, 1.0]}, {"x": [4.0]}], progress=False)
    >>> g.values["w"].item(), history.steps.rows        # -(1 + 1 + 4)/3
    (-2.0, 1)
    """

    steps: int
    by: str = "example"
    tokens: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.tokens, Tensor):
            object.__setattr__(self, "tokens", self.tokens.name)
        if type(self.steps) is not int or self.steps < 1:
            raise TrainingError(f"steps={self.steps!r} are no batches", need="an int >= 1")
        if self.by not in WAYS:
            raise TrainingError(f"by={self.by!r} is not known", need=" or ".join(map(repr, WAYS)))
        if (self.by == "token") != (self.tokens is not None):
            raise TrainingError(
                f"by={self.by!r} does not go with tokens={self.tokens!r}",
                need="tokens with by='token', and with nothing else",
                hint="gw.Accumulation(4, by='token', tokens='mask')",
            )


@jsonable
@dataclass(frozen=True)
class EMA:
    """Exponential moving average of the weights (Polyak & Juditsky 1992).

    a ← w at update ``start``; then, every ``every`` updates,  a ← d·a + (1 − d)·w

    So it begins after the first update, as torch's ``AveragedModel`` does; the averages of Keras,
    timm and optax begin before it, with the first weights, or with zeros.

    It is kept in float32 at least. A variable that is not trained is not averaged; ``buffers``
    averages what updates of the graph set, such as running means, too.

    Args:
        decay: d; 0.999 remembers about 1000 updates.
        start: the first update that counts.
        every: how many updates lie between two that count.
        buffers: whether to average running means and the like.

    Raises TrainingError for numbers out of range.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=4.0)
    >>> trainer = gw.Trainer(g, w * 1.0, optimizer=gw.optim.SGD(1.0), ema=gw.EMA(0.5))
    >>> history = trainer.fit([{}], epochs=2, progress=False)       # w: 3, 2
    >>> with trainer.averaged("ema"):
    ...     g.values["w"].item()
    2.5
    """

    decay: Number = 0.999
    start: int = 1
    every: int = 1
    buffers: bool = False
    name = "ema"

    def __post_init__(self) -> None:
        check_number("EMA: decay", self.decay, most=1.0)
        _check_counts(self)

    def kept(self, averaged: Tensor, decay: Tensor | None) -> Tensor:
        """Return the share of the average that stays, after ``averaged`` updates that counted."""
        kept: Tensor = Where()(averaged > 0, decay, 0.0)
        return kept


@jsonable
@dataclass(frozen=True)
class SWA:
    """Equal average of the weights of many updates (Izmailov et al. 2018, arXiv:1803.05407).

    a ← (n·a + w)/(n + 1),  from update ``start`` on, every ``every`` updates

    Args are those of ``EMA``. Raises TrainingError for numbers out of range.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=4.0)
    >>> trainer = gw.Trainer(g, w * 1.0, optimizer=gw.optim.SGD(1.0), swa=gw.SWA())
    >>> history = trainer.fit([{}], epochs=3, progress=False)       # w: 3, 2, 1
    >>> with trainer.averaged("swa"):
    ...     g.values["w"].item()
    2.0
    """

    start: int = 1
    every: int = 1
    buffers: bool = False
    name = "swa"

    def __post_init__(self) -> None:
        _check_counts(self)

    def kept(self, averaged: Tensor, decay: Tensor | None) -> Tensor:
        """Return the share of the average that stays, after ``averaged`` updates that counted."""
        n = averaged.astype("float64")
        return n / (n + 1.0)


Average = EMA | SWA


@jsonable
@dataclass(frozen=True)
class Group(Named):
    """Variables that are trained otherwise than the rest; what is None is as for all others.

    Args:
        variables: names, patterns such as ``"*/bias"``, or tensors; one of them, or several.
        optimizer: moves them instead of the trainer's, with its own learning rate.
        lr_multiplier: factor on the learning rate; 0 leaves them where they are.
        l1, l2, weight_decay: as in ``TrainingConfig``, for these alone.

    Raises TrainingError for numbers out of range, TypeError for a setting that it does not have;
    the trainer, TrainingError for a variable of two groups.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w, b = g.variable("w", (), init=1.0), g.variable("b", (), init=1.0)
    >>> slow = gw.Group("b", lr_multiplier=0.1)
    >>> trainer = gw.Trainer(g, w + b, optimizer=gw.optim.SGD(0.5), groups=[slow])
    >>> record = trainer.step({})
    >>> g.values["w"].item(), round(g.values["b"].item(), 3)
    (0.5, 0.95)
    """

    variables: tuple[str, ...]
    optimizer: Optimizer | None = None
    lr_multiplier: Number = 1.0
    l1: Number | None = None
    l2: Number | None = None
    weight_decay: Number | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "variables", names_of(self.variables, "a group"))
        if self.optimizer is not None:
            object.__setattr__(self, "optimizer", get(self.optimizer))
        for name in ("lr_multiplier", *PENALTIES):
            value = getattr(self, name)
            if value is not None:
                check_number(f"a group's {name}", value)


def names_of(given: object, what: str) -> tuple[str, ...]:
    """Return names for a name, a tensor, or several; raises TrainingError for anything else."""
    several = [given] if isinstance(given, str | Tensor) else given
    if not isinstance(several, Iterable):
        raise TrainingError(f"{what} cannot be {given!r}", need="names, patterns or tensors")
    names = [t.name if isinstance(t, Tensor) else t for t in several]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise TrainingError(f"{what} cannot be {given!r}", need="names, patterns or tensors")
    return tuple(names)


def check_number(what: str, value: object, most: float = math.inf) -> None:
    """Raise TrainingError for anything but a finite number from 0 to ``most``, or a schedule."""
    if callable(value):
        return  # what it says is looked at in each step
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not (good and 0 <= value <= most and value < math.inf):  # type: ignore[operator]
        limit = "" if most == math.inf else f" <= {most:g}"
        raise TrainingError(f"{what}={value!r} is out of range", need=f"a number >= 0{limit}")


def _check_counts(average: Average) -> None:
    for name in ("start", "every"):
        value = getattr(average, name)
        if type(value) is not int or value < 1:
            raise TrainingError(
                f"{type(average).__name__}: {name}={value!r} is no number of updates",
                need="an int >= 1",
            )
