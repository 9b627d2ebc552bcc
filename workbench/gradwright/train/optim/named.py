"""Optimizers by name, as settings that people write hold them."""

from __future__ import annotations

from typing import Any

from ...errors import TrainingError
from ...words.spelling import meant
from .adaptive import (
    LAMB,
    AdaBelief,
    Adam,
    Adam8bit,
    AdaMax,
    AdamW,
    AMSGrad,
    Nadam,
    RAdam,
    SparseAdam,
)
from .averaged import ScheduleFreeAdamW
from .base import Optimizer
from .descent import SGD, Lion, Nesterov, NoOp
from .matrices import Adafactor, Muon
from .scaled import AdaDelta, AdaGrad, RMSProp

NAMED: dict[str, type[Optimizer]] = {
    cls.__name__.lower(): cls
    for cls in (
        *(SGD, Nesterov, AdaGrad, AdaDelta, RMSProp, Adam, AdamW, AMSGrad, AdaMax, Nadam, RAdam),
        *(SparseAdam, AdaBelief, LAMB, Lion, Adafactor, Adam8bit, Muon, ScheduleFreeAdamW, NoOp),
    )
}
"""Name without capitals -> the class of this name."""


def get(name: str | Optimizer, *given: Any, **settings: Any) -> Optimizer:
    """Return an optimizer by name, in capitals or not, with ``_`` and ``-`` or without.

    What follows is what its class takes; the name alone gives its defaults. An optimizer comes back
    as it is. Raises TrainingError for a name that none has.

    >>> import gradwright as gw
    >>> gw.optim.get("adam", 1e-2, beta1=0.8) == gw.optim.Adam(1e-2, beta1=0.8)
    True
    >>> gw.optim.get("schedule_free_adamw").learning_rate
    0.0025
    """
    if isinstance(name, Optimizer) and not given and not settings:
        return name
    key = name.lower().replace("_", "").replace("-", "") if isinstance(name, str) else ""
    if key not in NAMED:
        close = meant(key, list(NAMED)) if key else ""
        raise TrainingError(
            f"{name!r} is no optimizer",
            need="an instance, or one of " + ", ".join(cls.__name__ for cls in NAMED.values()),
            hint=f"{NAMED[close].__name__!r}" if close else "gw.optim.Adam(1e-3)",
        )
    return NAMED[key](*given, **settings)
