"""Preferences and fine-tuning in one, by odds."""

from __future__ import annotations

from dataclasses import dataclass

from ...words.jsonable import jsonable
from ..losses.loss import Loss
from ..losses.orpo import orpo
from ..objectives.asked import Asked
from .fixed import Fixed


@jsonable
@dataclass(frozen=True, kw_only=True)
class ORPO(Fixed):
    """Settings of ORPO, which needs no reference (Hong, Lee and Thorne 2024, arXiv:2403.07691).

    Data has ``prompt``, ``chosen`` and ``rejected``. The part that fine-tunes is over the tokens
    of prompts and chosen completions, as in the paper's code.

    Args:
        beta: weight of the odds ratio, λ in the paper.

    The other settings are those of `Fixed`. Raises GraphError for what makes no sense, and for
    options of TRL that something else has.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2), eos=0)
    >>> trainer = gw.align.trainer(model, gw.align.ORPO(), optimizer=gw.optim.Adam(0.02))
    >>> pairs = [{"prompt": [1, 2], "chosen": [3], "rejected": [4]}] * 4
    >>> history = trainer.fit(pairs, epochs=10, batch_size=4, progress=False)
    >>> history.last()["rewards/accuracies"]
    1.0
    """

    beta: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_positive("beta")

    def loss(self, asked: Asked) -> Loss:
        """Return the loss of a batch, chosen completions above rejected ones."""
        whole = asked.whole
        return orpo(whole.log_probs, asked.said.mask, whole.mask, beta=self.beta)
