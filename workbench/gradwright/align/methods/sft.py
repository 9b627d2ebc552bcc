"""Supervised fine-tuning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...words.jsonable import jsonable
from ..data.packing import STRATEGIES
from ..losses.loss import Loss, chosen_from
from ..losses.sft import sft
from ..objectives.asked import Asked
from .fixed import Fixed


@jsonable
@dataclass(frozen=True, kw_only=True)
class SFT(Fixed):
    """Settings of supervised fine-tuning: the next token of completions, or of texts.

    Data has ``text``, or ``prompt`` and ``completion``, or ``messages``.

    Args:
        loss_type: ``"nll"``, or ``"dft"``, which weighs tokens by their probability (Wu et al.
            2025, arXiv:2508.05629).
        completion_only_loss: whether prompts are left out; None: where the data has prompts.
        assistant_only_loss: whether of messages only the assistant's count.
        packing: whether rows share rows of ``max_length``, none seeing another; the model has
            ``position_ids`` for that.
        packing_strategy: ``"bfd"``, ``"bfd_split"`` or ``"wrapped"``, as of `pack`.

    The other settings are those of `Fixed`. Raises GraphError for what makes no sense, and for
    options of TRL that something else has.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2), eos=0)
    >>> trainer = gw.align.trainer(model, gw.align.SFT(), optimizer=gw.optim.Adam(0.02))
    >>> data = [{"prompt": [1, 2], "completion": [3]}] * 4
    >>> history = trainer.fit(data, epochs=40, batch_size=4, progress=False)
    >>> history.last()["mean_token_accuracy"]
    1.0
    """

    loss_type: str = "nll"
    completion_only_loss: bool | None = None
    assistant_only_loss: bool = False
    packing: bool = False
    packing_strategy: str = "bfd"
    disable_dropout: bool = False
    learning_rate: float = 2e-5

    kinds = ("text", "completion", "label")

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen_from("loss_type", self.loss_type, ("nll", "dft"))
        chosen_from("packing_strategy", self.packing_strategy, STRATEGIES)
        self.check(not self.packing or self.max_length is not None, "max_length", "an int > 1")
        alone = not (self.packing and self.group_by_length)
        self.check(alone, "group_by_length", "False: packed rows are all of one length")

    @property
    def packed(self) -> str:
        """How rows share the rows of a batch; empty where they do not."""
        return self.packing_strategy if self.packing else ""

    def reading(self) -> dict[str, Any]:
        """Return settings of `examples`; packing cuts rows by itself."""
        alone = self.completion_only_loss is not False
        return {
            "max_length": None if self.packing else self.max_length,
            "completion_only_loss": alone,
            "assistant_only_loss": self.assistant_only_loss,
        }

    def loss(self, asked: Asked) -> Loss:
        """Return the loss of a batch."""
        said = asked.said
        return sft(
            said.log_probs,
            said.mask,
            loss_type=self.loss_type,
            entropy=said.entropy,
            is_top=said.is_top,
        )
