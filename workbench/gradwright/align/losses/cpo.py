"""Preferences without a reference: CPO, SimPO and AlphaPO."""

from __future__ import annotations

from ...graph import Tensor
from ...ops.core.activation import Relu
from ...ops.core.exponential import Exp
from .dpo import log_sigmoid
from .loss import (
    Loss,
    chosen_from,
    counted,
    halves,
    of_pairs,
    row_means,
    row_sums,
    same,
    still,
    token_mean,
)

TYPES = ("sigmoid", "hinge", "ipo", "simpo")


def cpo(
    logps: Tensor,
    mask: Tensor,
    *,
    beta: float = 0.1,
    loss_type: str = "sigmoid",
    label_smoothing: float = 0.0,
    cpo_alpha: float = 1.0,
    simpo_gamma: float = 0.5,
    alpha: float = 0.0,
) -> Loss:
    """Return a loss of pairs without a reference (Xu et al. 2024, arXiv:2401.08417).

    mean −(1 − ε)·log σ(βd) − ε·log σ(−βd) + cpo_alpha·NLL(chosen),  d = r_w − r_l

    ``logps`` and ``mask`` are f32[2·B, T], B chosen completions, then the rejected ones. r = Σ log
    π for ``sigmoid`` and ``hinge``, max(0, 1 − βd); its mean per token for ``ipo``, (d −
    1/2β)², and ``simpo``, with βd − simpo_gamma for βd. ``alpha`` ≠ 0 is AlphaPO: (1 − e^−αr)/α for
    r (arXiv:2501.03884). NLL is the mean over tokens of the chosen completions.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, mask = g.constant([[-1.0], [-1.0]]), g.constant([[1], [1]])
    >>> loss = gw.align.cpo(x, mask)
    >>> [round(float(v), 4) for v in g.output({}, loss.value).values()]
    [1.6931]
    """
    chosen_from("loss_type", loss_type, TYPES)
    same(logps=logps, mask=mask)
    of_row = row_means if loss_type in ("ipo", "simpo") else row_sums
    said = halves(of_row(logps, mask))
    chosen, rejected = (x if not alpha else (1 - Exp()(-alpha * x)) / alpha for x in said)
    apart = chosen - rejected
    if loss_type == "hinge":
        each = Relu()(1 - beta * apart)
    elif loss_type == "ipo":
        off = apart - 1 / (2 * beta)
        each = off * off
    else:
        x = beta * apart - (simpo_gamma if loss_type == "simpo" else 0.0)
        each = -(1 - label_smoothing) * log_sigmoid(x) - label_smoothing * log_sigmoid(-x)
    value, metrics = (
        each.mean(),
        of_pairs((beta * chosen, beta * rejected), said),
    )
    if cpo_alpha:
        pairs = (2, -1, mask.shape[1])
        nll = -token_mean(logps.reshape(pairs)[0], counted(mask, logps).reshape(pairs)[0])
        value, metrics["nll_loss"] = value + cpo_alpha * nll, still(nll)
    return Loss(value, metrics)


def simpo(
    logps: Tensor,
    mask: Tensor,
    *,
    beta: float = 2.0,
    gamma: float = 0.5,
    label_smoothing: float = 0.0,
) -> Loss:
    """Return SimPO's loss of pairs (Meng et al. 2024, arXiv:2405.14734).

    −mean log σ(β(p̄_w − p̄_l) − γ),  p̄ the mean log-probability per token of a completion

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, mask = g.constant([[-1.0], [-1.25]]), g.constant([[1], [1]])
    >>> loss = gw.align.simpo(x, mask)  # apart by γ: log 2
    >>> [round(float(v), 4) for v in g.output({}, loss.value).values()]
    [0.6931]
    """
    return cpo(
        logps,
        mask,
        beta=beta,
        loss_type="simpo",
        simpo_gamma=gamma,
        label_smoothing=label_smoothing,
        cpo_alpha=0.0,
    )
