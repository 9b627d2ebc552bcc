"""Direct preference optimisation, and the losses of pairs that grew from it."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import GraphError
from ...words.jsonable import jsonable
from ..losses.dpo import DIVERGENCES, LOSSES, check_smoothing, dpo
from ..losses.loss import Loss, chosen_from
from ..objectives.asked import Asked, of_tokens
from .fixed import Referred
from .settings import is_a


@jsonable
@dataclass(frozen=True, kw_only=True)
class DPO(Referred):
    """Settings of direct preference optimisation (Rafailov et al. 2023, arXiv:2305.18290).

    Data has ``prompt``, ``chosen`` and ``rejected``. The reference is the model as it is before
    training; of a model with adapters, the model without them.

    Args:
        loss_type: one of fifteen losses, or several, whose weighted sum is trained; formulas stand
            at `dpo`.
        loss_weights: of several losses; 1 by default.
        beta: β, how strongly the policy is held to the reference.
        label_smoothing: the share of pairs that is taken to be the wrong way round.
        f_divergence_type: ``"reverse_kl"``, ``"forward_kl"``, ``"js_divergence"``,
            ``"alpha_divergence"``.
        f_alpha_divergence_coef: α of the last one.
        ld_alpha: weight of tokens beyond the shorter completion of a pair (LD-DPO).
        use_weighting: whether pairs weigh as the policy itself would say them (WPO).
        discopop_tau: τ of ``"discopop"``.

    The other settings are those of `Referred` and `Fixed`. Raises GraphError for what makes no
    sense, and for options of TRL that something else has.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2), eos=0)
    >>> trainer = gw.align.trainer(model, gw.align.DPO(), optimizer=gw.optim.Adam(0.02))
    >>> pairs = [{"prompt": [1, 2], "chosen": [3], "rejected": [4]}] * 4
    >>> history = trainer.fit(pairs, epochs=10, batch_size=4, progress=False)
    >>> history.last()["rewards/accuracies"]
    1.0
    """

    loss_type: str | tuple[str, ...] = "sigmoid"
    loss_weights: tuple[float, ...] | None = None
    beta: float = 0.1
    label_smoothing: float = 0.0
    f_divergence_type: str = "reverse_kl"
    f_alpha_divergence_coef: float = 0.5
    ld_alpha: float | None = None
    use_weighting: bool = False
    discopop_tau: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        types, weights = self.loss_type, self.loss_weights
        self.check(isinstance(types, str | list | tuple), "loss_type", "names of losses")
        if not isinstance(types, str):
            object.__setattr__(self, "loss_type", tuple(types))
        if weights is not None:
            alone = isinstance(weights, list | tuple) and all(is_a(w, "float") for w in weights)
            self.check(alone, "loss_weights", "a number for each loss")
            object.__setattr__(self, "loss_weights", tuple(map(float, weights)))
        names = (types,) if isinstance(types, str) else tuple(types)
        for name in names:
            chosen_from("loss_type", name, tuple(LOSSES))
            check_smoothing(name, self.label_smoothing)
        if not names or (self.loss_weights is not None and len(self.loss_weights) != len(names)):
            raise GraphError(
                f"{len(names)} losses with loss_weights={self.loss_weights}", need="one each"
            )
        chosen_from("f_divergence_type", self.f_divergence_type, DIVERGENCES)
        self.check_positive("beta", "discopop_tau")
        self.check(self.ld_alpha is None or 0 <= self.ld_alpha <= 1, "ld_alpha", "0 to 1")

    def loss(self, asked: Asked) -> Loss:
        """Return the loss of a batch, chosen completions above rejected ones."""
        said = asked.said
        found = dpo(
            *(said.log_probs, asked.referred, said.mask),
            beta=self.beta,
            loss_type=self.loss_type,
            loss_weights=self.loss_weights,
            label_smoothing=self.label_smoothing,
            f_divergence_type=self.f_divergence_type,
            f_alpha_divergence_coef=self.f_alpha_divergence_coef,
            ld_alpha=self.ld_alpha,
            discopop_tau=self.discopop_tau,
            log_sum_squares=said.log_sum_squares if self.use_weighting else None,
        )
        return found._replace(metrics={**found.metrics, **of_tokens(said)})
