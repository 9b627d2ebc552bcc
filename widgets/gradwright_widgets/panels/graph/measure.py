"""Numbers that colour a drawing and that something has to run for: time, gradients, values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from gradwright import Node, Session, Tensor
from gradwright.debug import gradient_norms
from gradwright.errors import GradwrightError
from gradwright.plan.profile import Profile
from gradwright.session import Listener
from gradwright.session.listeners import NodeEvent

from ...drawing.nodes import differentiated
from ...drawing.values import plain
from ...host.desk import GraphDesk
from ...host.facts import ends

REPEATS = 5
"""Runs of which the fastest counts, step by step."""
EDGE = 0.01
"""How near to an end of its range an element is saturated, as a share of the range."""


@dataclass
class Measured:
    """A number per node, or a kind: what the legend calls it, and how a scope joins its own."""

    title: str
    unit: str = ""
    scale: Literal["linear", "log", "diverging"] = "log"
    join: Literal["sum", "max", "kind"] = "sum"
    values: dict[str, float] = field(default_factory=dict)
    kinds: list[str] = field(default_factory=list)
    """Where values are kinds, what each number means."""


def targets(desk: GraphDesk, *, gradients: bool) -> list[Tensor]:
    """Return what is run: the loss, or else what nothing reads, and gradients that are drawn."""
    try:
        found = [desk.loss_tensor()]
    except GradwrightError:
        found = ends(desk.graph)
    if gradients:
        derived = [n for n in desk.graph.derived if differentiated(n) is not None]
        found += [t for n in derived for t in n.public if not t.uses]
    return found


def time_taken(desk: GraphDesk, *, gradients: bool) -> Measured:
    """Return the microseconds of each node; nodes that run as one share its time evenly."""
    values: dict[str, float] = {}
    for step in _profile(desk, REPEATS, gradients=gradients):
        for node in step.row.origins:
            share = step.seconds * 1e6 / len(step.row.origins)
            values[node.name] = values.get(node.name, 0.0) + share
    return Measured("time", "µs", values=values)


def runs_as(desk: GraphDesk, *, gradients: bool) -> Measured:
    """Return what runs each node, and on which device: a kernel, a product, numpy."""
    device = "cpu" if desk.trainer is None else desk.trainer.session.device.name
    steps = _profile(desk, 1, gradients=gradients, device=device)
    found = {node.name: f"{device}: {s.row.what}" for s in steps for node in s.row.origins}
    kinds = sorted(set(found.values()))
    values = {node: float(kinds.index(kind)) for node, kind in found.items()}
    return Measured("runs as", scale="linear", join="kind", values=values, kinds=kinds)


def _profile(desk: GraphDesk, repeats: int, *, gradients: bool, device: str = "cpu") -> Profile:
    feeds, held = desk.example_feeds(), desk.values.snapshot()
    shapes = {key: np.shape(value) for key, value in feeds.items()}
    with Session(desk.graph, values=held, device=device) as session:
        plan = session.plan(targets(desk, gradients=gradients), shapes)
        return plan.profile(feeds, held, repeats=repeats)


def gradients_of(desk: GraphDesk, *, gradients: bool) -> Measured:
    """Return the norm of the loss's gradient at each node."""
    loss, feeds = desk.loss_tensor(), desk.example_feeds()
    norms = gradient_norms(desk.graph, loss, feeds, values=desk.values.snapshot())
    return Measured("gradient norm", join="max", values=norms)


def share_of(flags: Callable[[Node, Any], Any], title: str) -> Callable[..., Measured]:
    """Return what measures the share of elements that ``flags`` says; None leaves a node out."""

    def measure(desk: GraphDesk, *, gradients: bool) -> Measured:
        values: dict[str, float] = {}

        def see(node: Node, outputs: Iterable[Any]) -> None:
            shares = [_percent(flags(node, y)) for y in outputs]
            known = [share for share in shares if share is not None]
            if known:
                values[node.name] = max(known)

        class Shares(Listener):
            wants_nodes = True

            def node_ran(self, event: NodeEvent) -> None:
                see(event.node, event.outputs)

        found, feeds = targets(desk, gradients=gradients), desk.example_feeds()
        held = desk.values.snapshot()
        for key, fed in feeds.items():
            see(desk.graph[str(getattr(key, "name", key))].node, [np.asarray(fed)])
        for tensor in desk.graph.variables:
            see(tensor.node, [held.array(tensor.name)])
        with Session(desk.graph, values=held, listeners=[Shares()]) as session:
            session.run(found, feeds)
        return Measured(title, "%", "linear", "max", values)

    return measure


def _percent(flags: Any) -> float | None:
    return None if flags is None or not np.size(flags) else 100.0 * float(np.mean(flags))


def _real(array: Any) -> Any:
    """Return numbers whose shares can be counted; None for texts, lists and integers."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fcV" or not array.size:
        return None
    return plain(array)


def _not_finite(_: Node, y: Any) -> Any:
    return None if (x := _real(y)) is None else ~np.isfinite(x)


def _zero(_: Node, y: Any) -> Any:
    return None if (x := _real(y)) is None else x == 0


def _saturated(node: Node, y: Any) -> Any:
    if node.op.saturates is None or (x := _real(y)) is None:
        return None
    low, high = node.op.saturates
    edge = EDGE * (high - low)
    return (x <= low + edge) | (x >= high - edge)


MEASURES: dict[str, Callable[..., Measured]] = {
    "time": time_taken,
    "device": runs_as,
    "gradient": gradients_of,
    "nan": share_of(_not_finite, "NaN and Inf"),
    "zero": share_of(_zero, "zeros"),
    "saturated": share_of(_saturated, "saturated"),
}
"""What ``color_by`` can be that somebody has to measure."""


def numbers(measured: Measured, nodes: Iterable[Node]) -> list[float]:
    """Return the values of nodes in their order, NaN where there is none."""
    return [measured.values.get(node.name, np.nan) for node in nodes]
