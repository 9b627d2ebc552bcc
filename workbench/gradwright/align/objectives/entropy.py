"""An entropy bonus whose weight follows the entropy that there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...evaluation.metrics import Metric
from ...graph import Tensor
from ...train.callbacks.base import Callback
from ...train.history import Record
from ..losses.loss import counted, kept
from .counted import Latest
from .terms import Step, needed

Array = np.ndarray[Any, Any]
NAME = "entropy_acting"


class EntropyControl(Callback):
    """The weight of an entropy bonus: more where entropy is low, none where it is high enough.

    c ← min(c + δ, most) where H ≤ target, else max(c − δ, least);  a step has c if H ≤ target, or 0

    H is the mean entropy of the tokens that the step before acted on; there is no bonus until one
    is known (Skywork-OR1, He et al. 2025, arXiv:2505.22312).

    >>> from gradwright.train import Record
    >>> control = EntropyControl(0.1, target=0.5, delta=0.25, least=0.0, most=1.0)
    >>> for entropy in (0.4, 0.3, 0.6):
    ...     control.on_step_end(None, Record(1, 1, {NAME: entropy}, 0.0))
    ...     print(round(control.coef, 2), round(control.weight, 2))
    0.35 0.35
    0.6 0.6
    0.35 0.0
    """

    def __init__(
        self, first: float, *, target: float, delta: float, least: float, most: float
    ) -> None:
        self.coef, self._entropy = first, float("inf")
        self._target, self._delta, self._least, self._most = target, delta, least, most

    @property
    def weight(self) -> float:
        """What the bonus of the next step weighs."""
        return self.coef if self._entropy <= self._target else 0.0

    def watched(self, step: Step, acting: Tensor) -> dict[str, Metric]:
        """Return what is measured of a step: the entropy that decides, and what the bonus weighs.

        ``acting`` is a mask of the tokens that the loss acts on.
        """
        found: dict[str, Metric] = {NAME: Acting(step.entropy, acting)}
        return found | {"entropy_coef": Latest(needed("an entropy bonus", step.entropy_coef))}

    def on_step_end(self, trainer: Any, record: Record) -> None:
        """Move the weight by the entropy of the step."""
        self._entropy = record.metrics[NAME]
        if self._entropy <= self._target:
            self.coef = min(self.coef + self._delta, self._most)
        else:
            self.coef = max(self.coef - self._delta, self._least)

    def state_dict(self) -> dict[str, Any]:
        """Return the weight, and the entropy that decides."""
        return {"coef": self.coef, "entropy": self._entropy}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from both."""
        self.coef, self._entropy = float(state["coef"]), float(state["entropy"])


class Acting(Metric):
    """The mean entropy of the tokens that count, over all batches of a window."""

    def __init__(self, entropy: Tensor, acting: Tensor) -> None:
        self.fetches = (kept(entropy, acting).sum(), counted(acting, entropy).sum())

    def start(self) -> Any:
        """Return the sums of no batch."""
        return 0.0, 0.0

    def add(self, total: Any, arrays: Sequence[Array], rows: float) -> Any:
        """Return sums with those of a batch."""
        return float(total[0]) + float(arrays[0]), float(total[1]) + float(arrays[1])

    def result(self, total: Any) -> float:
        """Return the mean; 0 where nothing counts."""
        return float(total[0]) / max(float(total[1]), 1.0)
