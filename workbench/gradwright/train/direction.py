"""Direction: whether a metric is better when it is less, as far as its name tells."""

from __future__ import annotations

import re

from ..errors import TrainingError

FALL = (
    "loss losses logloss error errors err mse mae rmse msle rmsle mape smape bce xent crossentropy "
    "entropy perplexity ppl nll kl divergence deviance distance brier ece calibration wer cer "
    "hinge cost regret fid lpips bpb bpc"
)
"""Parts of names of which less is better; one such part decides: ``brier_score`` falls."""
RISE = (
    "accuracy acc auc roc auroc auprc f1 fbeta precision recall sensitivity specificity r2 score "
    "bleu rouge meteor iou miou jaccard dice map ap mrr ndcg mcc kappa top topk psnr ssim "
    "correlation pearson spearman similarity reward likelihood"
)
"""Parts of names of which more is better."""
TURNED = frozenset(("neg", "negative", "inverse"))
"""Parts that turn others round, or do not: such a name tells nothing."""


def falls(monitor: str, mode: str | None, argument: str = 'mode="min" or mode="max"') -> bool:
    """Tell whether less is better: by ``mode``, else by the name, be it of training or validation.

    Raises TrainingError, which asks for ``argument``, where the name does not tell.

    >>> falls("val_mse", None), falls("top_5_accuracy", None), falls("style", "min")
    (True, False, True)
    """
    if not isinstance(monitor, str):
        raise TrainingError(f"monitor={monitor!r} is no name", need='one such as "val_loss"')
    if mode is not None:
        return mode == "min"
    parts = set(re.split(r"[^a-z0-9]+", monitor.lower()))
    parts |= {part.rstrip("0123456789") for part in parts}
    if parts.isdisjoint(TURNED):
        if not parts.isdisjoint(FALL.split()):
            return True
        if not parts.isdisjoint(RISE.split()):
            return False
    raise TrainingError(f"the name {monitor!r} does not tell whether less is better", need=argument)
