"""Settings: what a training is made of, as text to be compared when it is resumed."""

from __future__ import annotations

import functools
import platform
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ...errors import TrainingError
from ...words.jsonable import CLASS, defaults_of, from_json, to_json
from ..config import TrainingConfig
from ..training import Training

MOST = 12
"""How many differences an error lists."""


def settings_of(trainer: Training) -> dict[str, Any]:
    """Return the settings of a trainer: its configuration, its variables, the session's seed.

    What is no JSON, such as a schedule that is a function, is told by its name.
    """
    variables = trainer.graph.variables
    return {
        "config": _plain(trainer.config),
        "variables": {t.name: str(t.spec) for t in variables},
        "frozen": [t.name for t in variables if not t.trainable],
        "session": {"seed": trainer.session.seed},
    }


def adopt(trainer: Training, settings: Mapping[str, Any]) -> None:
    """Give a trainer settings that had changed while it trained: its rate, what is frozen.

    Raises TrainingError for a configuration that JSON does not hold.
    """
    config = from_json(settings["config"], "config")
    if not isinstance(config, TrainingConfig):
        raise TrainingError("'config' is no TrainingConfig")
    trainer.config = config
    for t in trainer.graph.variables:
        if t.trainable == (t.name in settings["frozen"]):
            t.trainable = not t.trainable


@functools.cache
def libraries() -> dict[str, str]:
    """Return the versions that a checkpoint was written by, beside those of its tuning record."""
    return {"python": platform.python_version(), "gradwright": _version()}


def _version() -> str:
    try:
        return version("gradwright")
    except PackageNotFoundError:
        return ""


def _plain(value: Any) -> Any:
    """Return JSON of settings, with names in place of what has none."""
    if is_dataclass(value) and not isinstance(value, type):
        held = {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.init}
        return {CLASS: type(value).__name__} | held
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    try:
        return to_json(value)
    except TrainingError:
        return f"<{getattr(value, '__qualname__', type(value).__qualname__)}>"


def differences(saved: Mapping[str, Any], present: Mapping[str, Any]) -> dict[str, str]:
    """Return what differs, field by field, each as ``"saved -> present"``.

    An object is one difference where the other side has none, or one of another class. A field
    that its class has gained since one side was written counts there as its default.

    >>> differences({"config": {"clip": 1.0, "a": [1]}}, {"config": {"clip": 2.0, "a": [1]}})
    {'config.clip': '1.0 -> 2.0'}
    >>> differences({"ema": {"$class": "EMA", "decay": 0.9}}, {"ema": None})
    {'ema': 'EMA(decay=0.9) -> None'}
    """
    return dict(_differing(saved, present, ""))


def _differing(saved: Any, present: Any, at: str) -> Iterator[tuple[str, str]]:
    if saved == present:
        return
    sides = saved, present
    if all(isinstance(v, Mapping) for v in sides) and saved.get(CLASS) == present.get(CLASS):
        known = {name: _plain(value) for name, value in defaults_of(saved.get(CLASS)).items()}
        for name in dict.fromkeys([*saved, *present]):
            inner, default = f"{at}.{name}" if at else name, known.get(name, ...)
            yield from _differing(saved.get(name, default), present.get(name, default), inner)
    else:
        yield at, " -> ".join(map(_shown, sides))


def _shown(value: Any) -> str:
    text = "nothing" if value is ... else _written(value)
    return text if len(text) < 80 else f"{text[:77]}..."


def _written(value: Any) -> str:
    """Return an object as the call that makes it, and all else as it is."""
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    if not isinstance(value, Mapping) or CLASS not in value:
        return repr(value)
    given = ", ".join(f"{k}={_written(v)}" for k, v in value.items() if k != CLASS)
    return f"{value[CLASS]}({given})"


def refused(found: Mapping[str, str], allow: str | Collection[str]) -> dict[str, str]:
    """Return the differences that ``allow`` does not name: "all", a field, or what it is part of.

    >>> refused({"config.optimizer.beta1": "", "loss": ""}, ["config.optimizer"])
    {'loss': ''}
    """
    names = [allow] if isinstance(allow, str) else list(allow)
    if "all" in names:
        return {}
    return {
        name: text
        for name, text in found.items()
        if not any(name == n or name.startswith(n + ".") for n in names)
    }
