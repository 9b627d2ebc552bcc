"""Freezing what comes before a tensor, and replacing what comes after it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ...errors import GraphError
from ...graph import Placeholder, Tensor, Variable, ancestors


def freeze_up_to(features: Tensor, *, but: Collection[str] = ()) -> list[str]:
    """Freeze all variables that ``features`` depends on, and return their names.

    Args:
        features: the output of the part to keep.
        but: name patterns of variables to leave trainable, such as ``"*/norm/*"``.

    Raises GraphError for what is no tensor, such as a name, which does not know its graph.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (None, 4))
    >>> features = gw.tanh(x @ g.variable("body", (4, 8)))
    >>> logits = features @ g.variable("head", (8, 2))
    >>> gw.transfer.freeze_up_to(features)
    ['body']
    >>> [t.name for t in g.variables if t.trainable]
    ['head']
    """
    graph = tensor(features, "freeze_up_to was given").graph
    left = {t for pattern in but for t in graph.find(pattern)}
    found = [
        node.outputs[0]
        for node in ancestors([features])
        if isinstance(node.op, Variable) and node.trainable
    ]
    names = [t.name for t in found if t not in left]
    for name in names:
        graph.freeze(name)
    return names


def replace_head(old: Tensor, build: Callable[[], Tensor], *, scope: str = "new_head") -> Tensor:
    """Let all that used ``old`` use what ``build`` returns, and remove what only ``old`` needed.

    Loss and metrics built on the old output go on with the new one, which is built in ``scope``.
    If it does not fit them, ShapeError or DTypeError is raised and the graph is as it was. The
    variables of the old head go with it, but they are there while the new one is built: a head that
    takes the place of another new one needs a ``scope`` of its own.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, t = g.placeholder("x", (None, 4)), g.placeholder("t", (None,), "int64")
    >>> features = gw.tanh(x @ g.variable("body", (4, 8)))
    >>> logits = features @ g.variable("head", (8, 2))
    >>> loss = gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
    >>> def ten_classes():
    ...     return features @ g.variable("w", (8, 10), init=gw.init.he_normal(seed=0))
    >>> logits = gw.transfer.replace_head(logits, ten_classes)
    >>> logits.shape[1], [v.name for v in g.variables]
    (10, ['body', 'new_head/w'])
    """
    graph = tensor(old, "replace_head was given").graph
    needed = [node for node in ancestors([old]) if not isinstance(node.op, Placeholder)]
    with graph.edit() as edit:
        users = list(old.uses)
        if not users:
            raise GraphError(
                f"nothing uses {old.name!r}, so there is nothing to replace it in",
                hint="build a loss on the new head",
            )
        try:
            with graph.scope(scope):
                new = tensor(build(), "build() of replace_head returned")
        except GraphError as error:
            if "is taken" in error.problem:
                error.hint = f'replace_head(..., scope="another"), which is {scope!r} now'
            raise
        edit.replace_use(old, new, of=users)
        for node in reversed(needed):
            if not any(t.uses for t in node.outputs) and node is not new.node:
                edit.remove(node.outputs[0])
    return new


def tensor(given: Any, what: str) -> Tensor:
    """Return what was given; raises GraphError, which begins with ``what``, for no tensor."""
    if not isinstance(given, Tensor):
        named = isinstance(given, str)
        raise GraphError(
            f"{what} {f'the name {given!r}' if named else f'a {type(given).__name__}'}",
            need="a tensor" + ", as a name does not know its graph" * named,
            hint=f'g["{given}"]' if named else "",
        )
    return given
