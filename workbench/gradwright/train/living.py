"""Which trainers live: a notebook's panel finds those, too, that a function keeps to itself."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

_living: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_count = itertools.count()


def enter(trainer: Any) -> None:
    """Note a trainer, which goes when nobody else holds it."""
    _living[next(_count)] = trainer


def living() -> list[Any]:
    """Return the trainers that live, in the order in which they were made; for any thread.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> trainer = gw.Trainer(g, g.variable("w", ()) * 1.0)
    >>> living()[-1] is trainer
    True
    """
    return [trainer for held in _living.valuerefs() if (trainer := held()) is not None]
