"""On-policy distillation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...words.jsonable import jsonable
from ..model import LanguageModel
from ..objectives.distilled import DistilledObjective
from ..rollouts.sampler import GenerationSampler
from .settings import Settings

REFUSED = {
    "teacher_model_name_or_path": "trainer(student, method, teacher=model)",
    "teacher_model_init_kwargs": "the teacher is given",
    "disable_dropout": "a model says its own dropout; the teacher's never acts",
}
"""Options of TRL that are refused, and why."""


@jsonable
@dataclass(frozen=True, kw_only=True)
class Distill(Settings):
    """Settings of generalised distillation (Agarwal et al. 2024, GKD, arXiv:2306.13649).

    A student follows what its teacher says of each token of completions, a share of which it draws
    itself: so it learns from its own mistakes. The loss is the mean over tokens of

    β·KL(t ‖ m) + (1 − β)·KL(s ‖ m), m = β·t + (1 − β)·s;  β = 0: KL(t ‖ s),  β = 1: KL(s ‖ t)

    with softmax of logits/``loss_temperature`` on both sides and no factor of its square. Data has
    ``prompt`` and ``completion``; the teacher is given to `trainer`, and left as it is.

    Args:
        lmbda: λ, the share of batches whose completions the student draws.
        beta: β, from forward to reverse KL.
        temperature: at which completions are drawn.
        loss_temperature: that of both sides in the loss; TRL's trainer has it at 1.
        max_new_tokens: where completions are cut.
        seq_kd: whether the other batches have completions that the teacher draws, not the data's.
        max_length: the length that rows of the data are cut to.
        pad_to_multiple_of: widths of batches are multiples of it.
        learning_rate: of AdamW, where a trainer is given no optimizer.

    Raises GraphError for what makes no sense, and for options of TRL that something else has.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> config = DecoderConfig(vocabulary=9, width=8, layers=1, heads=2)
    >>> student, teacher = Decoder(config, eos=0), Decoder(config, seed=99)
    >>> method = gw.align.Distill(lmbda=1.0, max_new_tokens=4)
    >>> trainer = gw.align.trainer(student, method, teacher=teacher)
    >>> record = trainer.step([{"prompt": [1, 2], "completion": [3]}] * 4)
    >>> record.metrics["on_policy"]
    1.0
    """

    lmbda: float = 0.5
    beta: float = 0.5
    temperature: float = 0.9
    loss_temperature: float = 1.0
    max_new_tokens: int = 128
    seq_kd: bool = False
    max_length: int | None = 1024
    pad_to_multiple_of: int = 8
    learning_rate: float = 1e-7

    refused = REFUSED

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("lmbda", "beta"):
            self.check(0 <= getattr(self, name) <= 1, name, "0 to 1")
        self.check_positive(
            "temperature", "loss_temperature", "max_new_tokens", "pad_to_multiple_of"
        )
        self.check(self.max_length is None or self.max_length > 1, "max_length", "an int > 1")

    def reading(self) -> Mapping[str, Any]:
        """Return settings of `examples`."""
        return {"max_length": self.max_length}

    def sampler(self, model: LanguageModel) -> GenerationSampler:
        """Return what draws completions from a student or a teacher."""
        return GenerationSampler(
            model,
            temperature=self.temperature,
            max_new_tokens=self.max_new_tokens,
            session={"deterministic": True},
        )

    def objective(
        self, model: LanguageModel, *, teacher: LanguageModel, tokenizer: Any = None, seed: int = 0
    ) -> DistilledObjective:
        """Return the objective that a trainer of ``model.graph`` takes in the place of a loss."""
        return DistilledObjective(model, self, teacher, tokenizer=tokenizer, seed=seed)
