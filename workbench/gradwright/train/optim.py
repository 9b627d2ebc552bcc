"""Optimizers: which update op moves a parameter, with which state and which scalars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from ..errors import TrainingError
from ..graph import Tensor
from ..ops import member
from ..ops.optimizer import AdamUpdate, MomentumUpdate, SgdUpdate
from ..spelling import meant
from .schedules import Schedule


def __getattr__(name: str) -> Any:
    """Return what an optimizer does as a function: adam_update, clip_by_global_norm ..."""
    return member(__name__, name, "training")


@dataclass
class Optimizer:
    """Base of optimizers: a dataclass of hyperparameters, and ``update``, which builds graph.

    Numbers among the fields reach ``update`` as 0-d tensors; they may be changed while a trainer
    runs and count from the next step. A parameter of 16 bits has float32 slots.

    >>> import gradwright as gw
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class SignSGD(gw.optim.Optimizer):
    ...     '''p ← p − lr·sign(g) (Bernstein et al. 2018, arXiv:1802.04434).'''
    ...     learning_rate: float = 1e-3
    ...     def update(self, param, grad, slots, scalars):
    ...         return (param - scalars["learning_rate"].astype(param.dtype) * gw.sign(grad),)
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2,), init=[3.0, -5.0])
    >>> trainer = gw.Trainer(g, (w * w).sum(), optimizer=SignSGD(0.5))
    >>> record = trainer.step({})
    >>> g.values["w"].tolist()
    [2.5, -4.5]
    """

    learning_rate: float | Schedule
    slots: ClassVar[tuple[str, ...]] = ()
    """Names of the state tensors of each parameter; they have its shape and begin as zeros."""
    counts: ClassVar[bool] = False
    """Whether ``update`` reads ``scalars["step"]``, the number of this update from 1."""

    def __new__(cls, *given: Any, **named: Any) -> Self:
        """Refuse names that are none of its fields, and say which were meant."""
        known = [f.name for f in fields(cls)]
        for name in named:
            if name not in known:
                close = meant(name, known)
                hint = f"; did you mean {close!r}?" if close else ""
                raise TypeError(f"{cls.__name__} has no {name!r}; it has {', '.join(known)}{hint}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        self.check()

    def update(
        self,
        param: Tensor,
        grad: Tensor,
        slots: Sequence[Tensor],
        scalars: Mapping[str, Tensor],
    ) -> Sequence[Tensor]:
        """Return the new parameter and its new slots."""
        raise NotImplementedError(f"{type(self).__name__} has no update")

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        rate = self.learning_rate
        value = float(rate(step) if callable(rate) else rate)
        if not 0 <= value < float("inf"):
            raise TrainingError(f"step {step + 1}: the learning rate is {value}", need=">= 0")
        return value

    def scalars(self) -> dict[str, float]:
        """Return the hyperparameters beside the learning rate that are numbers."""
        found = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "learning_rate"}
        return {k: v for k, v in found.items() if not isinstance(v, bool | str | None)}

    def check(self) -> None:
        """Raise TrainingError for hyperparameters that make no sense."""
        named = self.scalars()
        if not callable(self.learning_rate):
            named["learning_rate"] = self.learning_rate
        for name, value in named.items():
            if isinstance(value, Tensor | Sequence):
                raise TrainingError(
                    f"{type(self).__name__}: {name} is a {type(value).__name__}, not a number",
                    hint="gw.Trainer(..., parameters=[...]) says what is trained; default: all",
                )
            below_one = name in ("beta1", "beta2", "momentum")
            if not (0 <= value < 1 if below_one else 0 <= value < float("inf")):
                raise TrainingError(
                    f"{type(self).__name__}: {name}={value!r} is out of range",
                    need=f"0 <= {name} < {'1' if below_one else 'inf'}",
                )


@dataclass
class SGD(Optimizer):
    """Stochastic gradient descent with optional momentum and L2 decay.

    u ← μ·u + g + λ·p        p ← p − lr·u;        Nesterov: p ← p − lr·(g + λ·p + μ·u)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=4.0)
    >>> trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(0.25))
    >>> [trainer.step({}).metrics["loss"] for _ in range(3)]
    [16.0, 4.0, 1.0]
    """

    learning_rate: float | Schedule = 0.01
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and not self.momentum:
            raise TrainingError("Nesterov's method needs momentum", hint="momentum=0.9")

    @property
    def slots(self) -> tuple[str, ...]:  # type: ignore[override]
        """``velocity``, where there is momentum."""
        return ("velocity",) if self.momentum else ()

    def update(
        self,
        param: Tensor,
        grad: Tensor,
        slots: Sequence[Tensor],
        scalars: Mapping[str, Tensor],
    ) -> Sequence[Tensor]:
        """Return the new parameter and velocity."""
        rate, decay = scalars["learning_rate"], scalars["weight_decay"]
        if not slots:
            return (SgdUpdate()(param, grad, rate, decay),)
        op = MomentumUpdate(nesterov=self.nesterov)
        moved: tuple[Tensor, ...] = op(param, grad, *slots, rate, scalars["momentum"], decay)
        return moved


@dataclass
class Adam(Optimizer):
    """Adam (Kingma & Ba 2015, arXiv:1412.6980).

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²
    p ← p − lr · m/(1 − β₁ᵗ) / (√(v/(1 − β₂ᵗ)) + ε)

    t counts the updates of the parameter itself: one that is unfrozen late starts at 1.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2,), init=[1.0, -8.0])
    >>> trainer = gw.Trainer(g, (w * w).sum(), optimizer=gw.optim.Adam(0.5))
    >>> record = trainer.step({})           # the first step is lr·sign(g)
    >>> g.values["w"].round(4).tolist()
    [0.5, -7.5]
    """

    learning_rate: float | Schedule = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    slots = ("m", "v")
    counts = True

    def update(
        self,
        param: Tensor,
        grad: Tensor,
        slots: Sequence[Tensor],
        scalars: Mapping[str, Tensor],
    ) -> Sequence[Tensor]:
        """Return the new parameter and moments."""
        names = ("step", "learning_rate", "beta1", "beta2", "eps")
        decay = scalars.get("weight_decay", 0.0)
        moved: tuple[Tensor, ...] = AdamUpdate()(
            param, grad, *slots, *(scalars[n] for n in names), decay
        )
        return moved


@dataclass
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv:1711.05101).

    p ← p·(1 − lr·λ) − lr · m/(1 − β₁ᵗ) / (√(v/(1 − β₂ᵗ)) + ε)

    >>> import gradwright as gw
    >>> gw.optim.AdamW(gw.schedules.Cosine(1e-3, steps=1000, warmup=100)).scalars()
    {'beta1': 0.9, 'beta2': 0.999, 'eps': 1e-08, 'weight_decay': 0.01}
    """

    weight_decay: float = 0.01
