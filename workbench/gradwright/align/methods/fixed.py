"""What methods share whose completions are all given by the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ...errors import GraphError
from ..losses.loss import Loss
from ..model import LanguageModel
from ..objectives.asked import Asked
from ..objectives.offline import OfflineObjective
from .settings import Settings

REFUSED = {
    "truncation_mode": "the data has it: examples(data, kind, tokenizer, truncation='keep_end')",
    "padding_free": "rows are padded; SFT(packing=True) packs them",
    "dataset_num_proc": "rows are read in one process",
    "dataset_text_field": "the column is called text",
    "max_completion_length": "max_length is of prompt and completion together",
    "generate_during_eval": "gw.align has evaluations of its own",
    "eval_packing": "what is measured is packed as what is trained",
    "activation_offloading": "the trainer has it: checkpoint=",
    "router_aux_loss_coef": "routers have no loss of their own here",
    "precompute_ref_batch_size": "as many rows as fit are asked at once",
    "model_init_kwargs": "the model is given",
    "chat_template_path": "templates belong to the data: examples(data, kind, template=...)",
    "eos_token": "the model has it, and examples(data, kind, eos=...)",
    "pad_token": "padding needs no token of its own",
}
"""Options of TRL that are refused, and why."""


@dataclass(frozen=True, kw_only=True)
class Fixed(Settings):
    """Settings of methods whose completions the data gives.

    Args:
        max_length: the length that rows are cut to, prompt and completion together.
        pad_to_multiple_of: widths of batches are multiples of it: few shapes, few plans.
        group_by_length: whether shuffled batches hold rows of about the same length, as `ByLength`
            has them: less padding.
        disable_dropout: whether training drops nothing; a reference never does.
        learning_rate: of AdamW, where a trainer is given no optimizer.
    """

    max_length: int | None = 1024
    pad_to_multiple_of: int = 8
    group_by_length: bool = False
    disable_dropout: bool = True
    learning_rate: float = 1e-6

    kinds: ClassVar[tuple[str, ...]] = ("pair",)
    refused = REFUSED

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check(self.max_length is None or self.max_length > 1, "max_length", "an int > 1")
        self.check(self.pad_to_multiple_of >= 1, "pad_to_multiple_of", "an int >= 1")
        self.check_positive("learning_rate")

    # -- what an objective asks ------------------------------------------------------------------

    @property
    def mismatched(self) -> bool:
        """Whether prompts stand before completions of others, too."""
        return False

    @property
    def packed(self) -> str:
        """How rows share the rows of a batch; empty where they do not."""
        return ""

    @property
    def precomputed(self) -> bool:
        """Whether the reference is asked once, before training."""
        return False

    @property
    def sync(self) -> tuple[float, int] | None:
        """Which share of the policy the reference takes on, and every how many steps."""
        return None

    def reading(self) -> Mapping[str, Any]:
        """Return settings of `examples`."""
        return {"max_length": self.max_length}

    def loss(self, asked: Asked) -> Loss:
        """Return the loss of a batch."""
        raise NotImplementedError

    def objective(
        self, model: LanguageModel, *, tokenizer: Any = None, seed: int = 0
    ) -> OfflineObjective:
        """Return the objective that a trainer of ``model.graph`` takes in the place of a loss."""
        return OfflineObjective(model, self, tokenizer=tokenizer, seed=seed)


@dataclass(frozen=True, kw_only=True)
class Referred(Fixed):
    """Settings of methods that hold a policy against a reference.

    Args:
        precompute_ref_log_probs: whether the reference is asked once for all rows, before training.
        sync_ref_model: whether the reference follows the policy (TR-DPO).
        ref_model_mixup_alpha: α of ref ← α·policy + (1 − α)·ref.
        ref_model_sync_steps: after every how many steps it does.
    """

    precompute_ref_log_probs: bool = False
    sync_ref_model: bool = False
    ref_model_mixup_alpha: float = 0.6
    ref_model_sync_steps: int = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check(0 <= self.ref_model_mixup_alpha <= 1, "ref_model_mixup_alpha", "0 to 1")
        self.check(self.ref_model_sync_steps >= 1, "ref_model_sync_steps", "an int >= 1")
        if self.sync_ref_model and self.precompute_ref_log_probs:
            raise GraphError(
                "a reference that follows the policy cannot be asked before training",
                hint="sync_ref_model=False, or precompute_ref_log_probs=False",
            )

    @property
    def precomputed(self) -> bool:
        """Whether the reference is asked once, before training."""
        return self.precompute_ref_log_probs

    @property
    def sync(self) -> tuple[float, int] | None:
        """Which share of the policy the reference takes on, and every how many steps."""
        if not self.sync_ref_model:
            return None
        return self.ref_model_mixup_alpha, self.ref_model_sync_steps
