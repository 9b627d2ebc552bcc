"""What the trainer panel says of a training: where it is, and what it does beside plain steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwright import FP8, Precision, Trainer, TrainingConfig

FORMATS = {"hybrid": "E4M3 and E5M2", "e4m3": "E4M3"}
SCALES = {"delayed": "scales from the steps before", "current": "scales from each tensor's own"}


def training_facts(trainer: Trainer, refused: str, skips: LastSkip) -> dict[str, Any]:
    """Return the numbers of the present fit, or of the last one, as strict JSON.

    ``refused`` is why a fit that was asked for has not begun.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=2.0)
    >>> trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(0.25), ema=gw.EMA(0.5))
    >>> history = trainer.fit([{}], epochs=2, progress=False)
    >>> facts = training_facts(trainer, "", LastSkip())
    >>> facts["step"], facts["loss"], facts["averages"]
    (2, '1', {'ema': 2})
    """
    facts: dict[str, Any] = {
        "step": trainer.steps_done,
        "error": refused,
        **methods(trainer, skips),
    }
    done, last = trainer.progress, trainer.history.steps.last()
    if "loss" in last:
        facts["loss"] = f"{last['loss']:.4g}"  # as text: JSON has no NaN
    if done is not None:
        facts |= {
            "steps": done.steps,
            "total": done.total,
            "epoch": done.epoch,
            "epochs": done.epochs,
            "seconds": round(done.seconds, 1),
            "left": None if done.left is None else round(done.left, 1),
            "pace": round(done.steps / done.seconds, 1) if done.seconds else 0.0,
            "error": refused or done.error,
        }
    return facts


def methods(trainer: Trainer, skips: LastSkip) -> dict[str, Any]:
    """Return what a training does beside plain steps; nothing of what is off.

    ``window``: batches that wait and batches of an update; ``scale``: of the loss, and its mode;
    ``skipped``: how many steps, and which was the last; ``precision`` and ``clipping``: in words;
    ``averages``: updates in each average of the weights; ``evaluated``: which one is validated.
    """
    config = trainer.config
    found: dict[str, Any] = {}
    if config.accumulation is not None:
        found["window"] = list(trainer.window)
    if trainer.scaler is not None:
        found["scale"] = [trainer.scaler.scale, trainer.scaler.config.mode]
    if trainer.skipped:
        found["skipped"] = [trainer.skipped, skips.of(trainer)]
    if config.precision is not None or config.fp8 is not None:
        found["precision"] = precision_words(config.precision, config.fp8)
    if config.averages:
        found["averages"] = trainer.averages
        found["evaluated"] = config.validate_with or ""
    if words := clipping_words(config):
        found["clipping"] = words
    return found


class LastSkip:
    """Finds the last step that was skipped; of a history that grows, it reads what is new."""

    def __init__(self) -> None:
        self._history: Any = None
        self._read, self._step = 0, 0

    def of(self, trainer: Trainer) -> int | None:
        """Return the step whose loss or gradient was not finite; None where none is recorded."""
        steps = trainer.history.steps
        if trainer.history is not self._history:
            self._history, self._read, self._step = trainer.history, 0, 0
        if {"step", "loss", "grad_norm"} <= steps.keys():
            new = steps.snapshot("step", "loss", "grad_norm", start=self._read)
            self._read += len(new["step"])
            bad = new["step"][~np.isfinite(new["loss"]) | ~np.isfinite(new["grad_norm"])]
            self._step = int(bad[-1]) if len(bad) else self._step
        return self._step or None


def precision_words(precision: Precision | None, fp8: FP8 | None) -> list[str]:
    """Return in which numbers a training computes, short and as a sentence.

    >>> precision_words(Precision("bfloat16"), None)
    ['bfloat16', 'Products are computed in bfloat16; parameters stay in float32.']
    """
    short, long = [], []
    if precision is not None:
        kept = f" except {', '.join(precision.keep)}" if precision.keep else ""
        short.append(precision.dtype)
        long.append(f"Products are computed in {precision.dtype}{kept}; parameters stay in float32")
    if fp8 is not None:
        short.append("fp8")
        long.append(
            f"Inputs of matrix products are rounded to 8 bits, {FORMATS[fp8.format]}, with "
            f"{SCALES[fp8.recipe]}"
        )
    return [" + ".join(short), ". ".join(long) + "."]


def clipping_words(config: TrainingConfig) -> str:
    """Return how gradients are clipped, "" where they are not.

    >>> clipping_words(TrainingConfig(clip_norm=1.0, clip_value=0.5))
    'norm ≤ 1, elements ≤ 0.5'
    """
    limits = {"norm": config.clip_norm, "each norm": config.clip_tensor_norm}
    limits["elements"] = config.clip_value
    return ", ".join(f"{name} ≤ {limit:g}" for name, limit in limits.items() if limit is not None)
