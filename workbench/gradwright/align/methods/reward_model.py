"""Reward models: which of two completions is better, as one number each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...words.jsonable import jsonable
from ..losses.loss import Loss
from ..losses.reward import reward
from ..objectives.asked import Asked
from ..scalar_head import reward_head
from .fixed import Fixed


@jsonable
@dataclass(frozen=True, kw_only=True)
class RewardModel(Fixed):
    """Settings of a reward model (Bradley and Terry 1952; Stiennon et al. 2020, arXiv:2009.01325).

    Data has ``prompt``, ``chosen`` and ``rejected``, perhaps ``margin``: by how much they differ.
    Pairs of which one row is longer than ``max_length`` are left out: the end of a completion is
    what it is read at. The model gets a `reward_head`.

    Args:
        center_rewards_coefficient: c of c·mean (r_w + r_l)², which keeps rewards around 0.

    The other settings are those of `Fixed`. Raises GraphError for what makes no sense, and for
    options of TRL that something else has.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2), eos=0)
    >>> trainer = gw.align.trainer(model, gw.align.RewardModel(), optimizer=gw.optim.Adam(0.02))
    >>> pairs = [{"prompt": [1, 2], "chosen": [3], "rejected": [4]}] * 4
    >>> history = trainer.fit(pairs, epochs=10, batch_size=4, progress=False)
    >>> history.last()["accuracy"]
    1.0
    """

    center_rewards_coefficient: float | None = None
    learning_rate: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.center_rewards_coefficient is not None:
            self.check_positive("center_rewards_coefficient")

    def reading(self) -> dict[str, Any]:
        """Return settings of `examples`."""
        return {"max_length": self.max_length, "truncation": "drop"}

    def loss(self, asked: Asked) -> Loss:
        """Return the loss of a batch, chosen completions above rejected ones."""
        c = self.center_rewards_coefficient
        return reward(reward_head(asked.model), asked.margin, center_rewards_coefficient=c)
