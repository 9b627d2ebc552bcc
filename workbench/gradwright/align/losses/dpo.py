"""Direct preference optimisation, and the losses of pairs that grew from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import GraphError
from ...graph import Tensor
from ...ops.core.activation import Relu, Sigmoid
from ...ops.core.choice import Minimum
from ...ops.core.exponential import Exp
from ...ops.core.reduce import Cumsum
from ...ops.core.sorting import Sort
from ...ops.layers.smooth import LogSigmoid
from .loss import (
    Loss,
    chosen_from,
    counted,
    halves,
    kept,
    lengths,
    of_pairs,
    row_sums,
    same,
    still,
    token_mean,
)

DIVERGENCES = ("reverse_kl", "forward_kl", "js_divergence", "alpha_divergence")


@dataclass(frozen=True)
class Pairs:
    """What a loss of pairs may look at: of B pairs, sums over completions, chosen then rejected."""

    beta: float
    smoothing: float
    tau: float
    logps: tuple[Tensor, Tensor]
    refs: tuple[Tensor, Tensor]
    scores: tuple[Tensor, Tensor]
    sizes: tuple[Tensor, Tensor]
    nll: Callable[[], Tensor] = field(repr=False)

    @property
    def ratios(self) -> tuple[Tensor, Tensor]:
        """Δ = Σ log π − Σ log π_ref of the chosen and the rejected."""
        (a, b), (p, q) = self.logps, self.refs
        return a - p, b - q

    @property
    def margin(self) -> Tensor:
        """β·(u_w − u_l), u the scores by the divergence: β(Δ_w − Δ_l) for reverse KL."""
        return self.beta * (self.scores[0] - self.scores[1])

    @property
    def mean_margin(self) -> Tensor:
        """u_w/|y_w| − u_l/|y_l|."""
        (a, b), (m, n) = self.scores, self.sizes
        return a / m - b / n

    def smoothed(self, x: Tensor) -> Tensor:
        """−(1 − ε)·log σ(x) − ε·log σ(−x)."""
        return -(1 - self.smoothing) * log_sigmoid(x) - self.smoothing * log_sigmoid(-x)


def log_sigmoid(x: Tensor) -> Tensor:
    """Return log σ(x)."""
    found: Tensor = LogSigmoid()(x)
    return found


def sigmoid(x: Tensor) -> Tensor:
    """Return σ(x)."""
    found: Tensor = Sigmoid()(x)
    return found


def _hinge(p: Pairs) -> Tensor:
    found: Tensor = Relu()(1 - p.margin)
    return found


def _ipo(p: Pairs) -> Tensor:
    off = p.mean_margin - 1 / (2 * p.beta)
    return off * off


def _robust(p: Pairs) -> Tensor:
    e = p.smoothing
    wrong = e * log_sigmoid(-p.margin)
    return (wrong - (1 - e) * log_sigmoid(p.margin)) / (1 - 2 * e)


def _exo(p: Pairs) -> Tensor:
    x, e = p.margin, p.smoothing
    right = sigmoid(x) * (log_sigmoid(x) - math.log1p(-e))
    return right + sigmoid(-x) * (log_sigmoid(-x) - math.log(e))


def _nca(p: Pairs) -> Tensor:
    w, x = (p.beta * r for r in p.ratios)
    return -log_sigmoid(w) - 0.5 * log_sigmoid(-w) - 0.5 * log_sigmoid(-x)


def _bco(p: Pairs) -> Tensor:
    w, x = (p.beta * r for r in p.ratios)
    return -log_sigmoid(w) - log_sigmoid(-x)


def _sppo(p: Pairs) -> Tensor:
    w, x = p.ratios
    w, x = w - 0.5 / p.beta, x + 0.5 / p.beta
    return w * w + x * x


def _aot(p: Pairs) -> Tensor:
    (a, b), (c, d) = p.logps, p.refs
    return p.smoothed(p.beta * (Sort()(a - b) - Sort()(c - d)))


def _aot_unpaired(p: Pairs) -> Tensor:
    w, x = p.ratios
    return p.smoothed(p.beta * (Sort()(w) - Sort()(x)))


def _apo_zero(p: Pairs) -> Tensor:
    w, x = p.ratios
    return 1 - sigmoid(p.beta * w) + sigmoid(p.beta * x)


def _apo_down(p: Pairs) -> Tensor:
    w, x = p.ratios
    return sigmoid(p.beta * w) + 1 - sigmoid(p.beta * (w - x))


def _discopop(p: Pairs) -> Tensor:
    x = p.margin
    t = sigmoid(x / p.tau)
    found: Tensor = t * Exp()(-x) - (1 - t) * log_sigmoid(x)
    return found


LOSSES: dict[str, Callable[[Pairs], Tensor]] = {
    "sigmoid": lambda p: -log_sigmoid(p.margin),
    "hinge": _hinge,
    "ipo": _ipo,
    "exo_pair": _exo,
    "nca_pair": _nca,
    "robust": _robust,
    "bco_pair": _bco,
    "sppo_hard": _sppo,
    "aot": _aot,
    "aot_unpaired": _aot_unpaired,
    "apo_zero": _apo_zero,
    "apo_down": _apo_down,
    "discopop": _discopop,
    "sft": lambda p: p.nll(),
    "sigmoid_norm": lambda p: -log_sigmoid(p.beta * p.mean_margin),
}
"""Name -> the loss of each pair; ``sft`` is one number for all."""


def dpo(
    logps: Tensor,
    ref_logps: Tensor,
    mask: Tensor,
    *,
    beta: float = 0.1,
    loss_type: str | Sequence[str] = "sigmoid",
    loss_weights: Sequence[float] | None = None,
    label_smoothing: float = 0.0,
    f_divergence_type: str = "reverse_kl",
    f_alpha_divergence_coef: float = 0.5,
    ld_alpha: float | None = None,
    discopop_tau: float = 0.05,
    log_sum_squares: Tensor | None = None,
) -> Loss:
    """Return a loss of pairs against a reference (Rafailov et al. 2023, arXiv:2305.18290).

    −mean log σ(β(Δ_w − Δ_l)),  Δ = Σ_t (log π(y_t) − log π_ref(y_t)) over a completion's tokens

    ``logps`` and ``mask`` are f32[2·B, T] per token, B chosen completions, then the B rejected ones
    of the same prompts; prompts and padding are 0 in the mask. ``ref_logps`` is of the same shape,
    or f32[2·B] where sums were computed before. No gradient flows to it.

    ``loss_type`` is one of `LOSSES`, or several, summed with ``loss_weights``. With scores u by
    ``f_divergence_type`` (reverse_kl: Δ; forward_kl: 1 − e^−Δ; js_divergence: log 2 + log σ(Δ);
    alpha_divergence: (e^((α−1)Δ) − 1)/(α − 1)), d = u_w − u_l, n the lengths of completions, ε
    label_smoothing and ℓ = log σ:

        sigmoid −ℓ(βd) · hinge max(0, 1 − βd) · ipo (u_w/n_w − u_l/n_l − 1/2β)² · sigmoid_norm
        −ℓ(β(u_w/n_w − u_l/n_l)) · robust (ε·ℓ(−βd) − (1−ε)·ℓ(βd))/(1−2ε) · exo_pair
        σ(βd)(ℓ(βd) − ln(1−ε)) + σ(−βd)(ℓ(−βd) − ln ε) · discopop with t = σ(βd/τ): t·e^−βd −
        (1−t)·ℓ(βd) · nca_pair −ℓ(βΔ_w) − ½ℓ(−βΔ_w) − ½ℓ(−βΔ_l) · bco_pair −ℓ(βΔ_w) − ℓ(−βΔ_l) ·
        sppo_hard (Δ_w − 1/2β)² + (Δ_l + 1/2β)² · apo_zero 1 − σ(βΔ_w) + σ(βΔ_l) · apo_down σ(βΔ_w)
        + 1 − σ(β(Δ_w − Δ_l)) · aot, aot_unpaired: −(1−ε)ℓ(βs) − ε·ℓ(−βs), s the differences of
        sorted log π_w − log π_l and of the reference's, or of sorted Δ_w and Δ_l · sft −mean log π
        of the chosen tokens

    ``ld_alpha`` weighs tokens beyond the shorter completion of a pair (LD-DPO, arXiv:2409.06411).
    ``log_sum_squares``, log Σ_v π(v)² per token, weighs pairs by how likely the policy itself is to
    say them (WPO, arXiv:2406.11827). Raises GraphError for unknown names and for a smoothing that a
    loss does not take, ShapeError where tensors do not fit.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> logps, mask = g.constant([[-1.0, -1.0], [-2.0, 0.0]]), g.constant([[1, 1], [1, 0]])
    >>> loss = gw.align.dpo(logps, logps, mask)  # the policy is its reference: log 2
    >>> [round(float(v), 4) for v in g.output({}, loss.value).values()]
    [0.6931]
    """
    same(logps=logps, mask=mask, log_sum_squares=log_sum_squares)
    summed = ref_logps.rank == 1
    same(**({"mask of a row": mask[:, 0]} if summed else {"logps": logps}), ref_logps=ref_logps)
    names = (loss_type,) if isinstance(loss_type, str) else tuple(loss_type)
    weights = (1.0,) * len(names) if loss_weights is None else tuple(loss_weights)
    if not names or len(names) != len(weights):
        raise GraphError(f"{len(names)} losses with {len(weights)} weights", need="one each")
    for name in names:
        chosen_from("loss_type", name, tuple(LOSSES))
        check_smoothing(name, label_smoothing)
    chosen_from("f_divergence_type", f_divergence_type, DIVERGENCES)

    counts = shared_first(mask, logps, ld_alpha)
    sums = halves((kept(logps, mask) * counts).sum(-1))
    refs = ref_logps if summed else (kept(ref_logps, mask) * counts).sum(-1)
    refs_of = halves(still(refs))
    ratios = sums[0] - refs_of[0], sums[1] - refs_of[1]
    w, x = (_score(r, f_divergence_type, f_alpha_divergence_coef) for r in ratios)
    n = counted(mask, logps).reshape((2, -1, mask.shape[1]))
    pairs = Pairs(
        beta=beta,
        smoothing=label_smoothing,
        tau=discopop_tau,
        logps=sums,
        refs=refs_of,
        scores=(w, x),
        sizes=halves(lengths(mask, logps)),
        nll=lambda: -token_mean(logps.reshape(n.shape)[0], n[0]),
    )
    value: Any = 0.0
    for name, weight in zip(names, weights, strict=True):
        each = LOSSES[name](pairs)
        if log_sum_squares is not None:
            each = each * _own_share(logps, log_sum_squares, mask)
        value = value + (each.mean() if each.rank else each) * weight
    return Loss(value, of_pairs((beta * ratios[0], beta * ratios[1]), sums))


def check_smoothing(name: str, value: float) -> None:
    """Refuse a smoothing that a loss does not take."""
    least, most = (0.0, 0.5) if name == "robust" else (0.0, 1.0)
    open_at_0 = name == "exo_pair"
    if not least <= value < most or (open_at_0 and not value):
        raise GraphError(
            f"label_smoothing={value} is no share of wrong labels for {name}",
            need=f"{'0 <' if open_at_0 else '0 <='} label_smoothing < {most}",
        )


def _score(ratio: Tensor, divergence: str, alpha: float) -> Any:
    if divergence == "forward_kl":
        return 1 - Exp()(-ratio)
    if divergence == "js_divergence":
        return math.log(2) + log_sigmoid(ratio)
    if divergence == "alpha_divergence" and abs(alpha - 1) >= 1e-6:
        return (Exp()(Minimum()((alpha - 1) * ratio, 80.0)) - 1) / (alpha - 1)
    return ratio


def shared_first(mask: Tensor, logps: Tensor, alpha: float | None) -> Tensor:
    """Return per token 1, or alpha beyond the shorter completion of a pair; f32[2·B, T]."""
    counts = counted(mask, logps)
    if alpha is None:
        return counts
    shorter = counts.sum(-1).reshape((2, -1)).min(0)
    at: Tensor = Cumsum(axis=1)(counts).reshape((2, -1, mask.shape[1]))
    shared = counted(at <= shorter.expand_dims(-1), logps).reshape(logps.shape)
    return counts * (shared + alpha * (1 - shared))


def _own_share(logps: Tensor, log_sum_squares: Tensor, mask: Tensor) -> Any:
    """Return exp of the mean over a completion of log π − log Σ_v π², of both multiplied."""
    own = row_sums(logps - log_sum_squares, mask) / lengths(mask, logps)
    a, b = halves(still(own))
    return Exp()(a + b)
