"""Checks of tutorial 5."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gradwright as gw

from . import exercise


@exercise
def largest(g: gw.Graph, name: str) -> str | None:
    """Ask for the variable with the most elements."""
    sizes = {v.name: g.values[v.name].size for v in g.variables}
    if name not in sizes:
        return f"{name!r} is no variable; they are {sorted(sizes)}."
    if sizes[name] < max(sizes.values()):
        return f"{name!r} has {sizes[name]} elements; another has {max(sizes.values())}."
    return None


@exercise
def zeros(
    answer: Callable[[gw.Graph, Mapping[str, Any]], Mapping[str, float]],
    g: gw.Graph,
    feeds: Mapping[str, Any],
) -> str | None:
    """Count the zeros behind each relu."""
    found = answer(g, feeds)
    relus = {n.name: n.outputs[0] for n in g.nodes if n.op.name == "relu"}
    if set(found) != set(relus):
        return f"One entry for each of {sorted(relus)} is wanted; there are {sorted(found)}."
    for name, tensor in relus.items():
        right = float((tensor.eval(feeds) == 0).mean())
        if abs(found[name] - right) > 1e-6:
            return f"{right:.1%} of what {name!r} gives are zeros; this says {found[name]:.1%}."
    return None
