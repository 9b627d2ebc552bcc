"""Options of a plan: what a session asks beside fetches and shapes; part of the plan's key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kernels = Literal["background", "wait", "off"]


@dataclass(frozen=True)
class PlanOptions:
    """How a session wants its plans.

    Args:
        skip: names of rewrites to leave out.
        kernels: ``"background"`` starts on numpy and swaps generated kernels in between two runs
            when they are compiled; ``"wait"`` compiles before the first run; ``"off"`` is numpy.
        threads: how many threads a run may use; None takes what OpenBLAS uses.
        checkpoint: which activations the backward pass keeps: None all, ``"sqrt"``, every n-th
            layer, or name patterns; the others are computed again.
        verify: whether each rewrite is checked on random values when the plan is made.
    """

    skip: tuple[str, ...] = ()
    kernels: Kernels = "background"
    threads: int | None = None
    checkpoint: str | int | tuple[str, ...] | None = None
    verify: bool = False


DEFAULTS = PlanOptions()
