"""What runs a model: a session, and the tensors that outputs are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from ..errors import TrainingError
from ..graph import Graph, Tensor
from ..session import Session


@runtime_checkable
class Model(Protocol):
    """What is trained: it runs in a session of its own, and in a precision of its own."""

    session: Session

    def in_its_precision(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return what computes tensors in the precision of training."""


def session_of(model: Any) -> Session:
    """Return what runs a model: a session, that of a trainer, or a new one of a graph."""
    found = Session(model) if isinstance(model, Graph) else getattr(model, "session", model)
    if not isinstance(found, Session):
        raise TrainingError(
            f"a {type(model).__name__} cannot be evaluated", need="a graph, session or trainer"
        )
    return found


def computed(model: Any, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return what a model runs for tensors: a trainer computes in its precision."""
    # To hold a graph against a protocol takes 0.6 ms: it has many members.
    if isinstance(model, Graph | Session) or not isinstance(model, Model):
        return tensors
    return model.in_its_precision(tensors)


def resolved(graph: Graph, outputs: Any) -> dict[str, Tensor]:
    """Return the tensors that outputs are, by the name each comes back by."""
    return {n: graph[t] if isinstance(t, str) else t for n, t in _named(outputs).items()}


def _named(outputs: Any) -> dict[str, Tensor | str]:
    """Return outputs by the name each comes back by."""
    if isinstance(outputs, Mapping):
        found = dict(outputs)
    else:
        several = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
        found = {t.name if isinstance(t, Tensor) else str(t): t for t in several}
    for t in found.values():
        if not isinstance(t, Tensor | str):
            raise TrainingError(
                f"an output is of type {type(t).__name__}",
                need="a tensor of the graph or its name, several in a list, or a dict of them",
                hint='gw.predict(model, {"probs": probs}, data)',
            )
    return found
