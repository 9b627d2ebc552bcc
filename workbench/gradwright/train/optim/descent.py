"""Optimizers that follow the gradient or its running mean: SGD, Nesterov, Lion, and NoOp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...errors import TrainingError
from ...graph import Tensor
from ...words.jsonable import jsonable
from .base import Number, Optimizer, Slot, applied, zeros


@jsonable
@dataclass
class SGD(Optimizer):
    """Stochastic gradient descent with optional momentum and L2 decay.

    Default of torch: ``learning_rate=0.001``.

    u ← μ·u + g + λ·p        p ← p − lr·u;        Nesterov: p ← p − lr·(g + λ·p + μ·u)

    As torch.optim.SGD: the velocity has no learning rate in it, so a change of that acts at once on
    all of the step. ``Nesterov`` is the other convention. State: ``velocity``, with momentum.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=4.0)
    >>> trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(0.25))
    >>> [trainer.step({}).metrics["loss"] for _ in range(3)]
    [16.0, 4.0, 1.0]
    """

    learning_rate: Number = 0.01
    momentum: Number = 0.0
    nesterov: bool = False
    weight_decay: Number = 0.0
    switches = frozenset({"momentum"})
    takes_complex = True
    by_rows = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and not self.momentum:
            raise TrainingError("Nesterov's method needs momentum", hint="momentum=0.9")

    def state(self, param: Tensor) -> dict[str, Slot]:
        """Return ``velocity``, where there is momentum."""
        return {"velocity": zeros(param)} if self.momentum else {}

    def update(
        self,
        param: Tensor,
        grad: Tensor,
        slots: Sequence[Tensor],
        scalars: Mapping[str, Tensor],
    ) -> Sequence[Tensor]:
        """Return the new parameter and velocity."""
        if not slots:
            return applied("sgd_update", {}, param, grad, slots, scalars)
        attributes = {"nesterov": self.nesterov}
        return applied("momentum_update", attributes, param, grad, slots, scalars)


@jsonable
@dataclass
class Nesterov(Optimizer):
    """Nesterov's momentum with the learning rate in the velocity (Sutskever et al. 2013).

    torch's form is ``SGD(momentum=μ, nesterov=True)``: no learning rate in the velocity.

    v ← μ·v − lr·(g + λ·p)        p ← p + μ·v − lr·(g + λ·p)

    What a learning rate has put into the velocity stays when the rate changes; while it does not,
    both are the same. State: ``velocity``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=4.0)
    >>> trainer = gw.Trainer(g, w * 1.0, optimizer=gw.optim.Nesterov(1.0, momentum=0.5))
    >>> [trainer.step({}).metrics["loss"] for _ in range(3)]
    [4.0, 2.5, 0.75]
    """

    learning_rate: Number = 0.1
    momentum: Number = 0.9
    weight_decay: Number = 0.0
    op = "nesterov_update"
    slots = ("velocity",)
    takes_complex = True


@jsonable
@dataclass
class Lion(Optimizer):
    """Sign of a momentum, with decoupled decay (Chen et al. 2023, arXiv:2302.06675).

    p ← p·(1 − lr·λ) − lr·sign(β₁·m + (1 − β₁)·g)        m ← β₂·m + (1 − β₂)·g

    Every weight moves by lr: the paper takes a third to a tenth of AdamW's rate, and a decay that
    is as much larger. State: ``m``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2,), init=[1.0, -8.0])
    >>> trainer = gw.Trainer(g, (w * w).sum(), optimizer=gw.optim.Lion(0.5))
    >>> record = trainer.step({})
    >>> g.values["w"].tolist()
    [0.5, -7.5]
    """

    learning_rate: Number = 1e-4
    beta1: Number = 0.9
    beta2: Number = 0.99
    weight_decay: Number = 0.0
    op = "lion_update"
    slots = ("m",)


@jsonable
@dataclass
class NoOp(Optimizer):
    """Leaves parameters where they are, while their gradients are computed and recorded.

    p ← p

    For a group that is to be watched and not moved; freezing saves its gradients, too.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=4.0)
    >>> record = gw.Trainer(g, w * w, optimizer=gw.optim.NoOp()).step({})
    >>> g.values["w"].item(), record.metrics["grad_norm"]
    (4.0, 8.0)
    """

    learning_rate: Number = 0.0
    takes_complex = True

    def update(
        self,
        param: Tensor,
        grad: Tensor,
        slots: Sequence[Tensor],
        scalars: Mapping[str, Tensor],
    ) -> Sequence[Tensor]:
        """Return the parameter."""
        return (param,)
