"""Completions that are good or bad by themselves, without pairs."""

from __future__ import annotations

from ...errors import GraphError
from ...graph import Tensor
from ...ops.core.choice import Maximum, Where
from .dpo import sigmoid
from .loss import Loss, chosen_from, counted, row_sums, same, still


def kto(
    logps: Tensor,
    ref_logps: Tensor,
    mask: Tensor,
    desirable: Tensor,
    kl: Tensor | None = None,
    *,
    beta: float = 0.1,
    loss_type: str = "kto",
    desirable_weight: float = 1.0,
    undesirable_weight: float = 1.0,
) -> Loss:
    """Return the loss of completions against a reference point (Ethayarajh et al. 2024).

    mean w·(1 − σ(±β(Δ − z₀))), + with the weight of desirable rows, − with that of the others;
    Δ = Σ_t (log π − log π_ref), z₀ = max(0, mean ``kl``), without gradient

    ``logps``, ``ref_logps`` and ``mask`` are f32[B, T]; ``desirable`` is bool[B]. ``kl``, f32[B],
    are Σ_t (log π − log π_ref) of other prompts' completions put behind these prompts. With
    ``apo_zero_unpaired`` z₀ is 0 (arXiv:2408.06266). Raises GraphError where kl is missing.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, mask = g.constant([[-1.0], [-2.0]]), g.constant([[1], [1]])
    >>> loss = gw.align.kto(x, x, mask, g.constant([True, False]), g.constant([0.0, 0.0]))
    >>> [float(v) for v in g.output({}, loss.value).values()]
    [0.5]
    """
    chosen_from("loss_type", loss_type, ("kto", "apo_zero_unpaired"))
    same(logps=logps, ref_logps=ref_logps, mask=mask)
    ratio = row_sums(logps, mask) - still(row_sums(ref_logps, mask))
    same(rows=ratio, desirable=desirable, kl=kl)
    if loss_type == "kto" and kl is None:
        raise GraphError("kto needs kl, log-ratios of mismatched pairs", need="kl f32[B]")
    usable = kl if loss_type == "kto" else None
    base = Maximum()(still(usable).mean(), 0) if usable is not None else ratio.sum() * 0
    good = counted(desirable, ratio) != 0
    way = Where()(good, beta, -beta)
    weight = Where()(good, desirable_weight, undesirable_weight)
    each = weight * (1 - sigmoid(way * (ratio - still(base))))
    metrics = {"kl": still(base)}
    rows, sums = counted(good, ratio), still(row_sums(logps, mask))
    for name, of in (("chosen", rows), ("rejected", 1 - rows)):
        n = Maximum()(of.sum(), 1)
        metrics[f"rewards/{name}"] = beta * (still(ratio) * of).sum() / n
        metrics[f"logps/{name}"] = (sums * of).sum() / n
    metrics["rewards/margins"] = metrics["rewards/chosen"] - metrics["rewards/rejected"]
    return Loss(each.mean(), metrics)
