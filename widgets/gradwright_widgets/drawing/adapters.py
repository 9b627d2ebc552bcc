"""Adapters of a graph, as the scopes that its drawing has of them."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Any

from gradwright import Graph

from .grouping import Groups, groups_of
from .nodes import drawn_nodes


def adapters_of(graph: Graph) -> dict[str, Any]:
    """Return the adapters of a graph by name, without loading what makes them.

    >>> import gradwright as gw
    >>> adapters_of(gw.Graph())
    {}
    """
    room = sys.modules.get("gradwright.adapters")
    return {} if room is None else dict(room.of(graph))


def adapter_scopes(graph: Graph) -> list[dict[str, Any]]:
    """Return of each adapter its name, its method, whether it is on, and what is drawn of it.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = g.placeholder("x", (None, 3)) @ g.variable("w", (3, 2))
    >>> adapted = gw.adapters.add(g, gw.adapters.LoRA(r=1), where="w")
    >>> adapter_scopes(g)
    [{'name': 'default', 'method': 'LoRA', 'on': True, 'scopes': ['w/default', 'default']}]
    """
    found = adapters_of(graph)
    scopes = {n: [*(f"{place.name}/{n}" for place in a.places), n] for n, a in found.items()}
    if found and (groups := groups_of(graph)) is not None:
        drawn = _groups_of_scopes(graph, groups, {s for own in scopes.values() for s in own})
        scopes = {n: [drawn[s] for s in own if s in drawn] for n, own in scopes.items()}
    return [
        {
            "name": name,
            "method": type(adapted.adapter).__name__,
            "on": adapted.is_enabled,
            "scopes": scopes[name],
        }
        for name, adapted in found.items()
    ]


def _groups_of_scopes(graph: Graph, groups: Groups, scopes: Collection[str]) -> dict[str, str]:
    """Return, of each scope, the path of the largest group that holds nothing else."""
    holds: dict[int, set[str]] = {}
    for node in drawn_nodes(graph):
        if node.kind == "array":
            scope = node.scope if node.scope in scopes else ""
            group = groups.of(node)
            while group >= 0:
                holds.setdefault(group, set()).add(scope)
                group = groups.parent[group]
    found: dict[str, str] = {}
    for group in sorted(holds):  # those around come before those inside
        if len(holds[group]) == 1 and (scope := min(holds[group])):
            found.setdefault(scope, groups.names[group])
    return found
