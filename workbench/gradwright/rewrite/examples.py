"""Examples of rules: the tiny graph that each declares, with the inputs it names."""

from __future__ import annotations

from typing import Any

from ..graph import Graph, Tensor
from .table import Rule

INPUTS: dict[str, tuple[tuple[Any, ...], str]] = {
    "x": (("B", 4), "float32"),
    "y": (("B", 4), "float32"),
    "p": (("B", 4), "bool"),
    "q": (("B", 4), "bool"),
    "i": (("B", 4), "int64"),
    "j": (("B", 4), "int64"),
    "w": ((4,), "float32"),
    "v": ((4,), "float32"),
    "s": (("B", 3, 4), "float32"),
    "wide": ((4, 32), "float32"),
    "k": ((2, 2, 2, 2), "float32"),
}
"""What the parameters of examples stand for."""


def example(rule: Rule, dtype: str = "float32") -> Tensor:
    """Return the tensor of a graph on which the rule fires; floating inputs have a dtype.

    >>> from gradwright.rewrite import RULES
    >>> y = example(RULES["neg_neg"])
    >>> [node.op.name for node in y.graph.nodes], [t.name for t in y.graph.placeholders]
    (['placeholder', 'neg', 'neg'], ['x'])
    """
    graph = Graph(rule.name)
    with graph:
        given = {}
        for name in rule.inputs:
            shape, held = INPUTS[name]
            given[name] = graph.placeholder(name, shape, dtype if held == "float32" else held)
        made: Tensor = rule.example(**given)
    return made
