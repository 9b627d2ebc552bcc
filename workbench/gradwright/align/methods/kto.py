"""Completions that are good or bad by themselves."""

from __future__ import annotations

from dataclasses import dataclass

from ...words.jsonable import jsonable
from ..losses.kto import kto
from ..losses.loss import Loss, chosen_from, counted, row_sums, still, token_mean
from ..objectives.asked import Asked
from .fixed import Referred


@jsonable
@dataclass(frozen=True, kw_only=True)
class KTO(Referred):
    """Settings of KTO (Ethayarajh et al. 2024, arXiv:2402.01306).

    Data has ``prompt``, ``completion`` and ``label``, whether the completion is good. Each prompt
    stands in the batch a second time, before the completion of the row before it in the data, from
    which the distance to the reference is estimated; no gradient flows there. Rows that follow each
    other are of other prompts, then: the good ones of all prompts before the bad ones.

    Args:
        loss_type: ``"kto"``, or ``"apo_zero_unpaired"``, which needs no such rows.
        beta: β, how strongly the policy is held to the reference.
        desirable_weight: weight of good completions.
        undesirable_weight: weight of bad ones.

    The other settings are those of `Referred` and `Fixed`. Raises GraphError for what makes no
    sense, and for options of TRL that something else has.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2), eos=0)
    >>> trainer = gw.align.trainer(model, gw.align.KTO(), optimizer=gw.optim.Adam(0.02))
    >>> said = {"prompt": [[1, 2]] * 2, "completion": [[3], [4]], "label": [True, False]}
    >>> history = trainer.fit(said, epochs=10, batch_size=2, progress=False)
    >>> history.last()["rewards/margins"] > 0
    True
    """

    loss_type: str = "kto"
    beta: float = 0.1
    desirable_weight: float = 1.0
    undesirable_weight: float = 1.0

    kinds = ("label",)

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen_from("loss_type", self.loss_type, ("kto", "apo_zero_unpaired"))
        self.check_positive("beta", "desirable_weight", "undesirable_weight")

    @property
    def mismatched(self) -> bool:
        """Whether prompts stand before completions of others, too."""
        return self.loss_type == "kto"

    def loss(self, asked: Asked) -> Loss:
        """Return the loss of a batch, mismatched rows below its own."""
        said, ref, kl = asked.said, asked.referred, None
        parts = 2 if self.mismatched else 1
        shape = (parts, -1, said.mask.shape[1])
        logps, mask = said.log_probs.reshape(shape), said.mask.reshape(shape)
        refs = ref.reshape(shape)
        if self.mismatched:
            kl = row_sums(still(logps[1]) - refs[1], mask[1])
        found = kto(
            *(logps[0], refs[0], mask[0], asked.desirable, kl),
            beta=self.beta,
            loss_type=self.loss_type,
            desirable_weight=self.desirable_weight,
            undesirable_weight=self.undesirable_weight,
        )
        good = counted(asked.desirable, logps).expand_dims(-1)
        counts, logits = counted(mask[0], logps), still(said.mean_logit).reshape(shape)[0]
        more = {
            "entropy": still(token_mean(said.entropy.reshape(shape)[0], mask[0])),
            "logits/chosen": token_mean(logits, counts * good),
            "logits/rejected": token_mean(logits, counts * (1 - good)),
        }
        return found._replace(metrics={**found.metrics, **more})
