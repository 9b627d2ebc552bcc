"""The text table of a graph: what ``g.summary()`` returns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .updates import layers_of

if TYPE_CHECKING:
    from .graph import Graph


class Summary(str):
    """Text that a notebook shows as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def summarize(graph: Graph) -> Summary:
    """Return the graph's nodes, parameter counts and updates as aligned columns."""
    rows = [("name", "op", "output", "parameters", "inputs")]
    for node in graph.nodes:
        specs = ", ".join(str(t.spec) for t in node.public)
        count = ""
        if node.kind == "variable":
            n = math.prod(int(d) for d in node.outputs[0].shape)
            count = f"{n:,}" + ("" if node.trainable else " frozen")
        inputs = ", ".join("-" if t is None else t.name for t in node.inputs)
        rows.append((node.name, node.op.name, specs, count, inputs))
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    table = [
        "  ".join(
            c.rjust(w) if i == 3 else c.ljust(w)
            for i, (c, w) in enumerate(zip(r, widths, strict=True))
        ).rstrip()
        for r in rows
    ]
    table.insert(1, "─" * min(100, max(map(len, table))))
    total = sum(math.prod(int(d) for d in t.shape) for t in graph.variables)
    trained = sum(math.prod(int(d) for d in t.shape) for t in graph.trainable)
    tail = [
        "─" * min(100, max(map(len, table))),
        f"{graph.name}: {len(graph.nodes)} nodes, {len(graph.derived)} derived; "
        f"{trained:,} of {total:,} parameters are trainable",
    ]
    for variable, declared in graph.updates.declared.items():
        new, when = declared.value.name, ", after it" * (declared.when == "after")
        tail.append(f"each training step sets {variable.name} to {new}{when}")
    for variable in graph.variables:
        layers = ", ".join(node.name for node in layers_of(variable))
        if layers and variable not in graph.updates.declared:
            tail.append(f"training steps through {layers} set {variable.name}")
    return Summary("\n".join([*table, *tail]))
