"""Preferences and fine-tuning in one loss, by odds."""

from __future__ import annotations

from ...graph import Tensor
from ...ops.core.exponential import Log
from ...ops.core.functions import Expm1
from .dpo import log_sigmoid
from .loss import Loss, counted, halves, of_pairs, row_means, same, still, token_mean


def orpo(
    logps: Tensor, mask: Tensor, sequence_mask: Tensor | None = None, *, beta: float = 0.1
) -> Loss:
    """Return the odds-ratio loss of pairs (Hong, Lee and Thorne 2024, arXiv:2403.07691).

    NLL(chosen) − β·mean log σ(o),  o = log odds(p̄_w) − log odds(p̄_l),  odds(p) = p/(1 − p),
    p̄ the geometric mean of a completion's probabilities

    ``logps`` and ``mask`` are f32[2·B, T], B chosen completions, then the rejected ones. NLL is the
    mean over the tokens of ``sequence_mask``, as prompts and completions together in the paper's
    code; without it, over completions. β is the paper's λ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, mask = g.constant([[-1.0], [-1.0]]), g.constant([[1], [1]])
    >>> loss = gw.align.orpo(x, mask)
    >>> [round(float(v), 4) for v in g.output({}, loss.value).values()]
    [1.0693]
    """
    same(logps=logps, mask=mask, sequence_mask=sequence_mask)
    said = halves(row_means(logps, mask))
    chosen, rejected = (x - Log()(-Expm1()(x)) for x in said)
    odds = chosen - rejected
    ratio = log_sigmoid(odds)
    whole, pairs = mask if sequence_mask is None else sequence_mask, (2, -1, mask.shape[1])
    nll = -token_mean(logps.reshape(pairs)[0], counted(whole, logps).reshape(pairs)[0])
    metrics = {
        **of_pairs((beta * said[0], beta * said[1]), said),
        "nll_loss": still(nll),
        "log_odds_ratio": still(ratio).mean(),
        "log_odds_chosen": still(odds).mean(),
    }
    return Loss(nll - beta * ratio.mean(), metrics)
