"""What a session may be told, checked before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, get_args

import numpy as np

from ..errors import GraphError
from ..program.ledger import Manager
from ..program.options import Kernels, PlanOptions
from ..rewrite import check_names
from .listeners import Listener

Checkpoint = str | int | Sequence[str] | None


def is_count(n: Any, least: int | None = None) -> bool:
    """Tell whether ``n`` is a whole number, at least ``least``; True and False are none."""
    whole = isinstance(n, int | np.integer) and not isinstance(n, bool)
    return whole and (least is None or int(n) >= least)


def checked_listeners(listeners: Iterable[Listener]) -> list[Listener]:
    """Return listeners as a list; raises GraphError for what is none."""
    found = list(listeners)
    for listener in found:
        if not isinstance(listener, Listener):
            raise GraphError(
                f"{listener!r} is no listener", need="instances of subclasses of gw.Listener"
            )
    return found


def checked_manager(memory: Any) -> Manager:
    """Return how memory is to be managed; raises GraphError for what is no way to."""
    if memory not in get_args(Manager):
        need = ", ".join(map(repr, get_args(Manager)))
        raise GraphError(f"memory={memory!r} is not known", need=need)
    found: Manager = memory
    return found


def plan_options(
    skip: Collection[str] | str,
    kernels: Any,
    checkpoint: Checkpoint,
    *,
    verify: bool,
) -> PlanOptions:
    """Return the options of a session's plans; raises GraphError for what is none."""
    skip = [skip] if isinstance(skip, str) else skip
    check_names(skip)
    if kernels not in get_args(Kernels):
        need = ", ".join(map(repr, get_args(Kernels)))
        raise GraphError(f"kernels={kernels!r} is not known", need=need)
    if isinstance(checkpoint, Sequence) and not isinstance(checkpoint, str):
        checkpoint = tuple(checkpoint)
    every_n = is_count(checkpoint, 1)
    patterns = isinstance(checkpoint, tuple) and all(isinstance(p, str) for p in checkpoint)
    if not (checkpoint in (None, "sqrt") or every_n or patterns):
        raise GraphError(
            f"checkpoint={checkpoint!r} is not known",
            need="None, 'sqrt', an int >= 1, or name patterns in a list",
        )
    return PlanOptions(tuple(sorted(skip)), kernels, checkpoint, verify)
