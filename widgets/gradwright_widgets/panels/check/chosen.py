"""Which tensors a check is about: given by themselves, by name, by scope, or by a selection."""

from __future__ import annotations

from collections.abc import Sequence

from gradwright import Graph, Tensor
from gradwright.errors import GraphError


def chosen_tensors(graph: Graph, wrt: Sequence[Tensor | str]) -> list[Tensor]:
    """Return tensors; scopes have a slash behind.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> with g.scope("hidden"):
    ...     w, b = g.variable("w", (2,)), g.variable("b", (2,))
    >>> [t.name for t in chosen_tensors(g, ["hidden/", b])]
    ['hidden/w', 'hidden/b', 'hidden/b']

    Raises:
        GraphError: a name is of no tensor, or of a scope without trainable parameters.
    """
    found: list[Tensor] = []
    for item in [wrt] if isinstance(wrt, (str, Tensor)) else wrt:
        if isinstance(item, str) and item.endswith("/"):
            inside = [t for t in graph.trainable if t.name.startswith(item)]
            if not inside:
                raise GraphError(f"no trainable parameter is in {item!r}")
            found += inside
        else:
            found.append(graph[item] if isinstance(item, str) else item)
    return found


def chosen_name(selected: str) -> str:
    """Return the name of what is selected; raises GraphError if nothing is.

    >>> chosen_name("hidden/")
    'hidden/'
    """
    if not selected:
        raise GraphError(
            "nothing is selected to check",
            hint="click a parameter or a scope, or check all trainable parameters",
        )
    return selected
