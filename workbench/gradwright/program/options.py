"""Options of a plan: what a session asks beside fetches and shapes; part of the plan's key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

from ..cpu.threads.tuning import Tuning

Kernels = Literal["background", "wait", "off"]


@dataclass(frozen=True)
class PlanOptions:
    """How a session wants its plans.

    Args:
        skip: names of rewrites to leave out.
        kernels: ``"background"`` starts on numpy and swaps generated kernels in between two runs
            when they are compiled; ``"wait"`` compiles before the first run; ``"off"`` is numpy.
        checkpoint: which activations the backward pass keeps: None all, ``"sqrt"``, every n-th
            layer, or name patterns; the others are computed again.
        verify: whether each rewrite is checked on random values when the plan is made.
        tuning: how many threads a run may use, and what for.
    """

    skip: tuple[str, ...] = ()
    kernels: Kernels = "background"
    checkpoint: str | int | tuple[str, ...] | None = None
    verify: bool = False
    tuning: Tuning = field(default_factory=Tuning, compare=False)


DEFAULTS = PlanOptions()
_current: ContextVar[PlanOptions] = ContextVar("options", default=DEFAULTS)


def current_options() -> PlanOptions:
    """Return the options of the plan that is being made, for plans inside it."""
    return _current.get()


@contextmanager
def using(options: PlanOptions) -> Iterator[None]:
    """Make a plan: lowerings see its options."""
    token = _current.set(options)
    try:
        yield
    finally:
        _current.reset(token)
