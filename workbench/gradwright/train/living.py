"""Which trainers live: a notebook's panel finds those, too, that a function keeps to itself."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

_living: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_count = itertools.count(1)


def enter(trainer: Any) -> None:
    """Note a trainer, which goes when nobody else holds it."""
    _living[next(_count)] = trainer


def living() -> dict[int, Any]:
    """Return the trainers that live, by which they were of all that were made; for any thread.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> trainer = gw.Trainer(g, g.variable("w", ()) * 1.0)
    >>> list(living().values())[-1] is trainer
    True
    """
    refs = _living.valuerefs()
    return {held.key: trainer for held in refs if (trainer := held()) is not None}
