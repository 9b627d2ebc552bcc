"""Which variables a trainer trains: those chosen, those not frozen, and why none is left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...errors import TrainingError
from ...graph import Graph, Tensor, ancestors
from ...spec import is_floating
from .adapted import asleep
from .measure import now


def listed(chosen: Iterable[Tensor | str] | Tensor | str) -> list[Tensor | str]:
    """Return what is chosen as a list; one needs none."""
    return [chosen] if isinstance(chosen, Tensor | str) else list(chosen)


def candidates(graph: Graph, chosen: Sequence[Tensor | str] | None) -> list[Tensor]:
    """Return the floating variables that a trainer may train: those chosen, by default all.

    State that steps set, such as a running mean, is not trained by default.
    """
    if chosen is None:
        floating = (t for t in graph.variables if is_floating(t.dtype))
        return [t for t in floating if not graph.updates.holds_state(t)]
    found: dict[Tensor, None] = {}
    for c in chosen:
        fitting = [now(graph, c)] if isinstance(c, Tensor) else graph.find(c)
        variables = [t for t in fitting if t.kind == "variable" and is_floating(t.dtype)]
        if not variables:
            raise TrainingError(f"no floating variable fits {c!r}", hint="g.summary()")
        found.update(dict.fromkeys(variables))
    return list(found)


def moving(graph: Graph, variables: Iterable[Tensor]) -> list[Tensor]:
    """Return those that a step trains now: none of adapters that are switched off."""
    off = asleep(graph)
    return [t for t in variables if t.trainable and t not in off]


def trained(
    losses: Sequence[Tensor],
    variables: Sequence[Tensor],
    chosen: Sequence[Tensor | str] | None = None,
) -> tuple[list[Tensor], set[Tensor]]:
    """Return the variables to train now, and all of them that the losses depend on.

    Raises TrainingError if none is trainable, or one that is has no part in the loss.
    """
    nodes = set(ancestors(losses))
    reached = {t for t in variables if t.node in nodes}
    graph = losses[0].graph
    params = moving(graph, variables)
    if not params:
        raise _untrainable(graph, variables, chosen)
    lost = [t for t in params if t not in reached]
    if lost:
        raise TrainingError(
            f"the loss {' + '.join(repr(t.name) for t in losses)} does not depend on "
            + ", ".join(repr(t.name) for t in lost[:8]),
            facts=[f"{t!r} made at {t.node.where or 'no line'}" for t in lost[:3]],
            need="a loss that every trained parameter has a part in",
            hint=f"g.freeze({lost[0].name!r}), or Trainer(parameters=[...])",
        )
    return params, reached


def _untrainable(
    graph: Graph, variables: Sequence[Tensor], chosen: Sequence[Tensor | str] | None
) -> TrainingError:
    """Return the error of a training without a parameter, with what stands in the way."""
    off = asleep(graph)
    frozen = [t.name for t in variables if t.node.frozen]
    fixed = [t.name for t in variables if not t.node.frozen and not t.trainable]
    kinds = {
        "of an adapter that is switched off": [t.name for t in variables if t in off],
        "frozen": frozen,
        "made with trainable=False": fixed,
    }
    facts = [f"{kind}: {', '.join(map(repr, names[:5]))}" for kind, names in kinds.items() if names]
    hint = f"g[{fixed[0]!r}].trainable = True" if fixed else 'g.variable("w", shape)'
    which = f"graph {graph.name!r} has no trainable parameter"
    if chosen is not None:
        names = ", ".join(repr(c.name if isinstance(c, Tensor) else c) for c in chosen[:5])
        which = f"none of parameters=[{names}] of graph {graph.name!r} is trainable"
    return TrainingError(
        which,
        facts=facts or ["it has no floating variable"],
        hint="adapted.enable()" if off else f"g.unfreeze({frozen[0]!r})" if frozen else hint,
    )
