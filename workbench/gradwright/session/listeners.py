"""Listeners: hooks into the engine; callbacks are the hooks of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from ..graph import Node, Tensor


@dataclass(frozen=True)
class RunEvent:
    """One call of ``Session.run``: what was asked and, when finished, what came out."""

    fetches: Sequence[Tensor]
    training: bool
    step: int
    results: Sequence[Any] | None = None
    committed: bool = False
    feeds: Mapping[Tensor, Any] = field(default_factory=dict)
    """What the run was started with; the key of random ops is among it. Empty when finished."""


@dataclass(frozen=True)
class NodeEvent:
    """One node that has run: its input and output arrays, read-only by agreement."""

    node: Node
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    index: int
    total: int


class Listener:
    """Base of engine hooks; override what you need.

    A listener with ``wants_nodes`` has the session run node by node, unfused, from the next run on.

    >>> import gradwright as gw
    >>> class Names(gw.Listener):
    ...     wants_nodes = True
    ...     def node_ran(self, event): print(event.node.name)
    >>> g = gw.Graph()
    >>> y = gw.exp(g.constant(1.0), name="y")
    >>> with gw.Session(g, listeners=[Names()]) as session:
    ...     _ = session.run(y)
    constant
    y
    """

    wants_nodes: ClassVar[bool] = False

    def run_started(self, event: RunEvent) -> None:
        """Called before anything is computed."""

    def node_ran(self, event: NodeEvent) -> None:
        """Called after each node, when ``wants_nodes``."""

    def run_finished(self, event: RunEvent) -> None:
        """Called after updates were committed, or after they were refused."""

    def values_changed(self, versions: Mapping[str, int]) -> None:
        """Called after a run committed new values of these variables."""
