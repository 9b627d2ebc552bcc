"""Optimizers whose weights to use are an average that they keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...graph import Tensor
from ...op import find_op
from ...words.jsonable import jsonable
from .base import Number, Optimizer, Slot, applied, zeros


@jsonable
@dataclass
class ScheduleFreeAdamW(Optimizer):
    """AdamW that needs no schedule and no last step (Defazio et al. 2024, arXiv:2405.15682).

    v ← β₂·v + (1 − β₂)·g²        d = g/(√(v/(1 − β₂ᵗ)) + ε) + λ·y
    z ← z − lr·d        x ← (1 − c)·x + c·z        y ← (1 − β₁)·z + β₁·x
    c = w/Σw,  w = tʳ·hᵏ with h the largest learning rate so far and k = ``power``

    Gradients are taken at y, which the variables hold while training; the weights to evaluate and
    to use are the average x. A trainer's ``evaluate`` and validation see it, and
    ``trainer.averaged("optimizer")`` puts it into the variables, to save or use them; running means
    of layers are those of y. Warm the rate up with a schedule: small ones count less in x.

    State: ``z``, ``v`` and ``average``, x, which the authors recover from y and z instead; that
    saves a third, divides by β₁, and is lost on parameters of 16 bits. Two numbers more:
    ``weight_sum``, ``largest_rate``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=4.0)
    >>> trainer = gw.Trainer(g, w * 1.0, optimizer=gw.optim.ScheduleFreeAdamW(1.0, beta1=0.5))
    >>> record = trainer.step({}), trainer.step({})     # z: 3, 2; x: 3, 2.5; y: 3, 2.25
    >>> g.values["w"].round(4).item(), trainer.state_dict()["state/w/average"].round(4).item()
    (2.25, 2.5)
    """

    learning_rate: Number = 2.5e-3
    beta1: Number = 0.9
    beta2: Number = 0.999
    eps: Number = 1e-8
    r: float = 0.0
    power: float = 2.0
    weight_decay: Number = 0.0
    counts = True
    fixed = frozenset({"r", "power"})
    average = "average"

    def state(self, param: Tensor) -> dict[str, Slot]:
        """Return ``z``, ``v``, ``average`` and the two numbers of its shares."""
        number, start = Slot((), "float64"), zeros(param, "parameter")
        return {
            "z": start,
            "v": zeros(param),
            "average": start,
            "weight_sum": number,
            "largest_rate": number,
        }

    def update(
        self,
        param: Tensor,
        grad: Tensor,
        slots: Sequence[Tensor],
        scalars: Mapping[str, Tensor],
    ) -> Sequence[Tensor]:
        """Return the new parameter y and its new slots."""
        *tensors, weight_sum, largest = slots
        share_of = find_op("schedule_free_share")(r=self.r, power=self.power)
        share, weight_sum, largest = share_of(
            weight_sum, largest, scalars["step"], scalars["learning_rate"]
        )
        given = {**scalars, "share": share}
        moved = applied("schedule_free_update", {}, param, grad, tensors, given)
        return (*moved, weight_sum, largest)
