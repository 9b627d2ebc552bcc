"""Idle: sessions that a graph keeps for what is asked of itself, so that asking again is cheap."""

from __future__ import annotations

from ..graph import Graph
from ..plan import Plan
from ..program.options import Kernels
from .session import Session

SMALL = 1 << 20
"""Bytes of arena and results up to which a plan keeps its memory; what takes more is let go."""
PLANS = 32
"""How many plans are kept."""


def taken(graph: Graph, kernels: Kernels) -> Session:
    """Return the session of a graph for a way of running, or a new one where it is in use.

    It draws what a new one does.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> session = taken(g, "later")
    >>> give_back(session)
    >>> taken(g, "later") is session, taken(g, "later") is session
    (True, False)
    """
    held: Session | None = graph.idle.pop(kernels, None)
    if held is None:
        return Session(graph, kernels=kernels, max_plans=PLANS)
    held.step = 0
    return held


def give_back(session: Session) -> None:
    """Keep a session for the next who asks."""
    session.graph.idle[session.options.kernels] = session


def is_small(plan: Plan | None) -> bool:
    """Tell whether what a plan keeps between runs is not worth to be let go."""
    if plan is None:
        return True
    program = plan.program
    results = [program.specs[program.numbers[t]] for t in program.outputs]
    if len(plan.parts) > 1 or not all(spec.is_concrete for spec in results):
        return False
    kept = sum(spec.nbytes for spec in results)
    return plan.head.executor.laid.layout.nbytes + kept <= SMALL
