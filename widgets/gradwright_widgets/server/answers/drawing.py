"""The graph of a file as a page without kernel draws it: the state of a GraphView."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any

import numpy as np

from gradwright import Graph
from gradwright.errors import GradwrightError

from ...drawing.buffers import int32
from ...drawing.facts import node_facts
from ...drawing.spec import graph_spec
from ...host.facts import frozen
from ...panels.graph.insides import inside_spec
from ..refused import RefusedError
from .asked import Asked
from .outlines import outlined
from .states import GRAPH

INSIDE = 4000
"""Nodes inside of nodes that come with a drawing; of larger insides a page asks."""


def drawing(asked: Asked) -> dict[str, Any]:
    """Return state and messages of a GraphView."""
    outline = outlined(asked)
    graph = outline.graph
    spec = graph_spec(graph)
    own = {"graph_spec": spec, "insides": _insides(graph, spec), "frozen": frozen(graph)}
    return {
        "nodes": len(graph.nodes),
        "name": graph.name,
        "notes": list(outline.notes),
        "state": {**GRAPH, **own},
        "messages": [_facts(graph)],
    }


def _facts(graph: Graph) -> dict[str, Any]:
    """Return what is known of nodes without running them, as the message of an inspector."""
    facts = node_facts(graph)
    facts |= {"places": [], "place": int32([-1] * facts["nodes"])}  # no line of a cell made them
    buffers = [facts.pop(name) for name in ("place", "flops", "bytes")]
    return {"content": {"kind": "inspector.facts", **facts}, "buffers": buffers}


def _insides(graph: Graph, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return what nodes enclose, those of the graph first, as long as there is room."""
    found: dict[str, Any] = {}
    waiting = collections.deque(_opening(spec))
    room = INSIDE
    while waiting and room > 0:
        address = waiting.popleft()
        try:
            inside = inside_spec(graph, address)
        except GradwrightError:  # an op that is not known encloses nothing that can be told
            continue
        room -= len(inside["names"])
        if room < 0:
            break
        found[address] = inside
        waiting += _opening(inside)
    return found


def _opening(columns: Mapping[str, Any]) -> list[str]:
    """Return the nodes that enclose others."""
    opens = [call for call, opened in enumerate(columns["opens"]) if opened]
    calls = np.frombuffer(columns["call"], "<i4")
    return [columns["names"][i] for i in np.flatnonzero(np.isin(calls, opens))]


def inside(asked: Asked) -> dict[str, Any]:
    """Return what a node encloses, by its address."""
    address = asked.text("node").removesuffix("::")
    if not address:
        raise RefusedError(400, "the argument 'node' is missing")
    graph = outlined(asked).graph
    try:
        return {"insides": {address: inside_spec(graph, address)}}
    except GradwrightError as error:
        raise RefusedError(404, error.problem, hint=error.hint) from None
    except (KeyError, ValueError, IndexError):
        raise RefusedError(404, f"no node is called {address[:80]!r}") from None
