"""Options of a plan: what a session asks beside fetches and shapes; part of the plan's key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Literal

Kernels = Literal["background", "wait", "later", "off"]


@dataclass(frozen=True)
class PlanOptions:
    """How a session wants its plans.

    Args:
        skip: names of rewrites to leave out.
        kernels: ``"background"`` starts on numpy and swaps generated kernels in between two runs
            when they are compiled; ``"wait"`` compiles before the first run; ``"later"`` before
            the 16th, where steps are few; ``"off"`` is numpy.
        checkpoint: which activations the backward pass keeps: None all, ``"sqrt"``, every n-th
            layer, or name patterns; the others are computed again.
        verify: whether each rewrite is checked on random values when the plan is made.
    """

    skip: tuple[str, ...] = ()
    kernels: Kernels = "background"
    checkpoint: str | int | tuple[str, ...] | None = None
    verify: bool = False

    def inner(self) -> PlanOptions:
        """Return those of plans inside the plan, whose runs are no runs of it."""
        return replace(self, kernels="off") if self.kernels == "later" else self


DEFAULTS = PlanOptions()
_current: ContextVar[tuple[PlanOptions, Any]] = ContextVar("options", default=(DEFAULTS, None))


def current() -> tuple[PlanOptions, Any]:
    """Return options and device of the plan that is being made, for plans inside it."""
    return _current.get()


@contextmanager
def using(options: PlanOptions, device: Any) -> Iterator[None]:
    """Make a plan: lowerings see its options and its device."""
    token = _current.set((options, device))
    try:
        yield
    finally:
        _current.reset(token)
