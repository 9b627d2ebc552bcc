"""Preferences without a reference."""

from __future__ import annotations

from dataclasses import dataclass

from ...words.jsonable import jsonable
from ..losses.cpo import TYPES, cpo
from ..losses.loss import Loss, chosen_from
from ..objectives.asked import Asked
from .fixed import Fixed


@jsonable
@dataclass(frozen=True, kw_only=True)
class CPO(Fixed):
    """Settings of contrastive preference optimisation (Xu et al. 2024, arXiv:2401.08417).

    Data has ``prompt``, ``chosen`` and ``rejected``. `SimPO` has the defaults of that paper.

    Args:
        loss_type: ``"sigmoid"``, ``"hinge"``, ``"ipo"`` or ``"simpo"``; formulas stand at `cpo`.
        beta: β, how far apart completions shall be.
        label_smoothing: the share of pairs that is taken to be the wrong way round.
        cpo_alpha: weight of the next-token loss of chosen completions.
        simpo_gamma: γ, the margin of ``"simpo"``.
        alpha: of AlphaPO, where it is not 0.

    The other settings are those of `Fixed`. Raises GraphError for what makes no sense, and for
    options of TRL that something else has.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2), eos=0)
    >>> trainer = gw.align.trainer(model, gw.align.CPO(), optimizer=gw.optim.Adam(0.02))
    >>> pairs = [{"prompt": [1, 2], "chosen": [3], "rejected": [4]}] * 4
    >>> history = trainer.fit(pairs, epochs=10, batch_size=4, progress=False)
    >>> history.last()["rewards/accuracies"]
    1.0
    """

    loss_type: str = "sigmoid"
    beta: float = 0.1
    label_smoothing: float = 0.0
    cpo_alpha: float = 1.0
    simpo_gamma: float = 0.5
    alpha: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen_from("loss_type", self.loss_type, TYPES)
        self.check_positive("beta")
        self.check(0 <= self.label_smoothing < 1, "label_smoothing", "0 <= label_smoothing < 1")
        self.check(self.cpo_alpha >= 0, "cpo_alpha", "a number >= 0")

    def loss(self, asked: Asked) -> Loss:
        """Return the loss of a batch, chosen completions above rejected ones."""
        said = asked.said
        return cpo(
            *(said.log_probs, said.mask),
            beta=self.beta,
            loss_type=self.loss_type,
            label_smoothing=self.label_smoothing,
            cpo_alpha=self.cpo_alpha,
            simpo_gamma=self.simpo_gamma,
            alpha=self.alpha,
        )


@jsonable
@dataclass(frozen=True, kw_only=True)
class SimPO(CPO):
    """Settings of SimPO: `CPO` by means per token alone (Meng et al. 2024, arXiv:2405.14734).

    >>> import gradwright as gw
    >>> gw.align.SimPO(simpo_gamma=1.0).loss_type, gw.align.SimPO().cpo_alpha
    ('simpo', 0.0)
    """

    loss_type: str = "simpo"
    beta: float = 2.0
    cpo_alpha: float = 0.0
