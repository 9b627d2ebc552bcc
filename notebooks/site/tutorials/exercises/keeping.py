"""Checks of tutorial 9."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gradwright as gw

from . import exercise


@exercise
def padded(answer: Callable[[Sequence[Sequence[int]]], Mapping[str, Any]]) -> str | None:
    """Pad three sentences."""
    found = answer([[5, 6, 7], [8], [9, 1]])
    if set(found) != {"ids", "mask"}:
        return f"'ids' and 'mask' are wanted; there are {sorted(found)}."
    ids, mask = (np.asarray(found[name]) for name in ("ids", "mask"))
    if ids.shape != (3, 3):
        return f"Three sentences of up to three ids are (3, 3), not {ids.shape}."
    if ids.tolist() != [[5, 6, 7], [8, 0, 0], [9, 1, 0]]:
        return f"The ids are {ids.tolist()}."
    if mask.astype(int).tolist() != [[1, 1, 1], [1, 0, 0], [1, 1, 0]]:
        return "The mask is to be true where there is an id."
    return None


@exercise
def best(answer: Callable[[Any], str], store: Any) -> str | None:
    """Ask for the run with the lowest loss at its end."""
    found = answer(store)
    losses = {r.name: float(r.open().history.epochs["val_loss"][-1]) for r in gw.runs(store)}
    if found not in losses:
        return f"{found!r} is no run; they are {sorted(losses)}."
    right = min(losses, key=lambda name: losses[name])
    if found != right:
        return f"{found!r} ended with {losses[found]:.3f}; another with {losses[right]:.3f}."
    return None


@exercise
def keep(answer: Callable[[gw.Trainer, Path], Any], trainer: gw.Trainer) -> str | None:
    """Save a training, read it again, and compare what goes on."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kept.gw"
        answer(trainer, path)
        if not path.exists():
            return f"Nothing was written to {path.name}."
        again = gw.load(path).trainer()
        if again.steps_done != trainer.steps_done:
            return f"It begins at step {again.steps_done}, and was at {trainer.steps_done}."
    return None
