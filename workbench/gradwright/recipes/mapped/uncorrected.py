"""AdamW as some recipes have it: its moments are not corrected for their begin as zeros."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...graph import Tensor
from ...train.optim import AdamW
from ...words.jsonable import jsonable

LATE = 1_000_000
"""Updates after which the moments of Adam are as good as without a correction: 0.999^LATE = 0."""


@jsonable
@dataclass
class UncorrectedAdamW(AdamW):
    """AdamW whose moments are multiplied by β₁ and β₂ instead of being corrected for their begin.

    p ← p·(1 − lr·λ) − lr · β₁·m / (√(β₂·v) + ε)

    So the original's recipes from scratch have it: lr·β₁/√β₂ in the long run. State: ``m``, ``v``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=1.0)
    >>> trainer = gw.Trainer(g, w * 2.0, optimizer=UncorrectedAdamW(0.1, weight_decay=0.0))
    >>> record = trainer.step({})
    >>> round(1 - float(g.values["w"]), 4) == round(0.1 * 0.9 * 0.1 / (0.999 * 0.001) ** 0.5, 4)
    True
    """

    def update(
        self,
        param: Tensor,
        grad: Tensor,
        slots: Sequence[Tensor],
        scalars: Mapping[str, Tensor],
    ) -> Sequence[Tensor]:
        """Return the new parameter and its new moments."""
        share = scalars["beta1"] / scalars["beta2"].sqrt()
        own = {
            "step": scalars["step"] + LATE,
            "learning_rate": scalars["learning_rate"] * share,
            "weight_decay": scalars["weight_decay"] / share,
            "eps": scalars["eps"] / scalars["beta2"].sqrt(),
        }
        return super().update(param, grad, slots, {**scalars, **own})
