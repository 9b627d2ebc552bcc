"""Supervised fine-tuning on completions."""

from __future__ import annotations

from ...graph import Tensor
from ...ops.core.exponential import Exp
from .loss import Loss, chosen_from, counted, kept, same, shared_among, still, token_mean


def sft(
    logps: Tensor,
    mask: Tensor,
    *,
    loss_type: str = "nll",
    num_items: Tensor | float | None = None,
    entropy: Tensor | None = None,
    is_top: Tensor | None = None,
) -> Loss:
    """Return the loss of next tokens: −Σ log π(y_t)/n over the tokens that count.

    ``dft`` weighs each token by its probability, which gets no gradient: −Σ sg(π)·log π/n (Wu et
    al. 2025, arXiv:2508.05629). ``logps`` and ``mask`` are f32[B, T]; ``num_items`` is n where the
    tokens of several batches count together, else that of this one. Metrics: entropy and
    mean_token_accuracy, where they are given. Raises GraphError for an unknown ``loss_type``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> loss = gw.align.sft(g.constant([[-9.0, -1.0, -3.0]]), g.constant([[0, 1, 1]]))
    >>> [float(x) for x in g.output({}, loss.value).values()]
    [2.0]
    """
    chosen_from("loss_type", loss_type, ("nll", "dft"))
    same(logps=logps, mask=mask, entropy=entropy, is_top=is_top)
    each = -kept(logps, mask)
    if loss_type == "dft":
        each = each * still(Exp()(kept(logps, mask)))
    metrics = {}
    if entropy is not None:
        metrics["entropy"] = still(token_mean(entropy, mask))
    if is_top is not None:
        metrics["mean_token_accuracy"] = token_mean(counted(is_top, logps), mask)
    return Loss(shared_among(each.sum(), mask, num_items), metrics)
