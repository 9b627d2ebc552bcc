"""Control flow: sub-graphs that run by condition or again and again."""

from __future__ import annotations

from typing import Any

from .... import control
from ....errors import ArchiveError
from ..folding import fold
from ..node import OnnxNode, one, reads


@reads("If", since=1)
def if_(node: OnnxNode, condition: Any) -> Any:
    scope = node.scope
    if scope is None:
        raise ArchiveError("an If has branches")
    then, other = node["then_branch"], node["else_branch"]
    known = fold(condition)
    if known is not None:
        return scope.subgraph(then if one(known) else other, [])
    pred = condition.reshape(()) if condition.rank else condition
    return control.cond(pred, lambda: scope.subgraph(then, []), lambda: scope.subgraph(other, []))
