"""What a continuation of a training needs, as named arrays, and how it is taken over again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import TrainingError
from .begun import Begun
from .callbacks import Callback
from .history import History
from .precision import LossScaler

if TYPE_CHECKING:
    from .configured import Configured

COUNTERS = ("steps", "epochs", "batches", "skipped", "gathered", "taken")
NEEDED = ("optimizer", "counters", "seeds", "data")


def saved(trainer: Configured) -> dict[str, Any]:
    """Return the state of a training between two batches."""
    begun = trainer._begun
    counters = (
        *(trainer.steps_done, trainer.epochs_done, begun.batches),
        *(trainer.skipped, begun.gathered, trainer._batches),
    )
    slots = trainer._steps.arrays(trainer.config)
    scaler = {} if trainer.scaler is None else trainer.scaler.state_dict()
    return {
        "optimizer": np.frombuffer(_kinds(trainer).encode(), np.uint8),
        "counters": np.array(counters),
        "seeds": np.array((trainer.seed, trainer.session.seed)),
        "data": np.array(begun.signature, np.int64),
        **{f"totals/{k}": np.array(v) for k, v in begun.totals.items()},
        **{f"window/{k}": np.array(v) for k, v in begun.window.items()},
        **{f"scaler/{k}": np.array(v) for k, v in scaler.items()},
        **{f"history/{k}": v for k, v in trainer.history.arrays().items()},
        **{f"state/{k}": v for k, v in slots.items()},
        **{
            f"callbacks/{name}/{k}": v
            for name, callback in _named(trainer.callbacks)
            for k, v in callback.state_dict().items()
        },
    }


def restore(trainer: Configured, state: Mapping[str, Any]) -> None:
    """Take over what ``saved`` returned, all or nothing."""
    if trainer.status == "running":
        raise TrainingError("the trainer is running", hint="trainer.pause(wait=True)")
    missing = set(NEEDED) - state.keys()
    if missing:
        raise TrainingError(f"this is no state of a trainer: {missing.pop()!r} is missing")
    came = bytes(np.asarray(state["optimizer"])).decode()
    if came != _kinds(trainer):
        raise TrainingError(f"this is state of {came}", need=f"state of {_kinds(trainer)}")
    counters, seeds, signature = (
        [int(n) for n in state[key]] for key in ("counters", "seeds", "data")
    )
    if (len(counters), len(seeds)) != (len(COUNTERS), 2):
        raise TrainingError("this is no state of a trainer: it has other counters")
    steps, epochs, batches, skipped, gathered, taken = counters
    if gathered >= trainer.window[1]:
        raise TrainingError(
            f"this is state with {gathered} batches of a window",
            need=f"fewer than {trainer.window[1]}, which make an update here",
            hint="the same accumulation= as before",
        )
    history = History.from_arrays(_part(state, "history/"))
    totals = trainer._measures.load(_part(state, "totals/"))
    window = trainer._measures.load(_part(state, "window/"))
    scaler = _scaler(trainer, _part(state, "scaler/"))
    before: list[tuple[Callback, dict[str, Any]]] = []
    try:
        for name, callback in _named(trainer.callbacks):
            if part := _part(state, f"callbacks/{name}/"):
                before.append((callback, dict(callback.state_dict())))
                callback.load_state_dict(part)
        trainer._steps.load(_part(state, "state/"), trainer.session, trainer.config)
    except BaseException:
        for callback, own in before:
            callback.load_state_dict(own)
        raise
    trainer.scaler = scaler
    trainer._fit = None
    trainer.steps_done, trainer.epochs_done = steps, epochs
    trainer.skipped, trainer._batches = skipped, taken
    trainer._begun = Begun(signature, batches, totals, gathered, window)
    trainer.config = trainer.config.but(seed=seeds[0])
    trainer.session.seed = seeds[1]
    trainer.history = history
    trainer._control.seconds = history.seconds


def _named(callbacks: Iterable[Callback]) -> Iterator[tuple[str, Callback]]:
    """Yield callbacks by class, numbered within it: others may come, go, or stand elsewhere."""
    seen: Counter[str] = Counter()
    for callback in callbacks:
        kind = type(callback).__name__
        yield f"{kind}_{seen[kind]}", callback
        seen[kind] += 1


def _scaler(trainer: Configured, saved: Mapping[str, Any]) -> LossScaler | None:
    """Return the scale of the loss as it was saved."""
    config = trainer.config.scaler
    if bool(saved) != (config is not None):
        raise TrainingError(
            "this is state " + ("with" if saved else "without") + " a loss scale",
            need="the same precision= and loss_scale= as before",
        )
    if config is None:
        return None
    scaler = LossScaler(config)
    scaler.load_state_dict({k: np.asarray(v).item() for k, v in saved.items()})
    return scaler


def _kinds(trainer: Configured) -> str:
    """Return the names of the optimizers."""
    return " ".join(type(optimizer).__name__ for optimizer in trainer.config.optimizers)


def _part(state: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
