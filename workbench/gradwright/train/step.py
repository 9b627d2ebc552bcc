"""The graph of one training step: gradients, clipping, updates, and the decision to commit."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import TrainingError
from ..gradient import gradients
from ..graph import Graph, Placeholder, Tensor, ancestors
from ..ops.optimizer import AllFinite, ClipByGlobalNorm, GlobalNorm
from ..spec import is_floating
from .measure import now
from .optim import Optimizer
from .state import OptimizerState


class StepGraph:
    """What a trainer fetches and updates in each step, for one set of trained parameters.

    It lives in the derived layer, under the scope of the optimizer's state. Building it for another
    set replaces it; the gradients, taken of ``gradients_of``, are the same nodes for all sets.
    """

    def __init__(
        self,
        loss: Tensor,
        measured: Sequence[Tensor],
        params: Sequence[Tensor],
        *,
        gradients_of: Sequence[Tensor],
        optimizer: Optimizer,
        state: OptimizerState,
        clip_norm: float | None,
    ) -> None:
        graph = loss.graph
        self.loss, self.params, self.scope = loss, list(params), state.scope
        state.clear_graph()
        found = dict(zip(gradients_of, gradients(loss, gradients_of), strict=True))
        self.grads = {p: found[p] for p in params}
        self.needed = placeholders(measured)
        with graph.deriving(state.scope) as at:
            self.rate = graph.placeholder("learning_rate", (), "float64")
            grads = list(self.grads.values())
            if clip_norm is None:
                self.norm: Tensor = GlobalNorm()(*grads, name="grad_norm")
            else:
                limit = graph.constant(clip_norm, "clip_norm", "float64")
                self.norm, *grads = ClipByGlobalNorm()(limit, *grads)
            self.finite: Tensor = AllFinite()(loss, self.norm, name="finite")
            self.fetches = [self.finite, self.norm, *measured]
            scalars = {
                name: graph.constant(value, name, "float64")
                for name, value in optimizer.scalars().items()
            }
            scalars["learning_rate"] = self.rate
            clocks = state.clocks(params) if optimizer.counts else {}
            counted = {clock: clock + 1 for clock in clocks.values()}
            self.updates: dict[Tensor, Tensor] = dict(counted)
            for p, grad in zip(params, grads, strict=True):
                at(f"{state.scope}/{p.name}", p.node)
                slots = state.slots(p, optimizer)
                if clocks:
                    scalars["step"] = counted[clocks[p]]
                moved = optimizer.update(p, grad, slots, scalars)
                self.updates.update(zip((p, *slots), moved, strict=True))
        self._add_running(graph)

    def _add_running(self, graph: Graph) -> None:
        """Add the graph's own updates, such as running means, as far as this loss feeds them."""
        fed = {t.node for t in self.needed}
        for variable, value in graph.updates.items():
            if variable in self.updates:
                raise TrainingError(
                    f"{variable.name!r} is trained, and set by an update too",
                    need="one of the two",
                    hint=f"g.freeze({variable.name!r})",
                )
            if all(t.node in fed for t in placeholders([value])):
                self.updates[variable] = value


def placeholders(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return what has to be fed to compute tensors."""
    return [n.outputs[0] for n in ancestors(tensors) if isinstance(n.op, Placeholder)]


def candidates(graph: Graph, chosen: Sequence[Tensor | str] | None) -> list[Tensor]:
    """Return the floating variables that a trainer may train: those chosen, by default all.

    What an update of the graph sets, such as a running mean, is not trained by default.
    """
    if chosen is None:
        floating = (t for t in graph.variables if is_floating(t.dtype))
        return [t for t in floating if t not in graph.updates]
    found: dict[Tensor, None] = {}
    for c in chosen:
        fitting = [now(graph, c)] if isinstance(c, Tensor) else graph.find(c)
        variables = [t for t in fitting if t.kind == "variable" and is_floating(t.dtype)]
        if not variables:
            raise TrainingError(f"no floating variable fits {c!r}", hint="g.summary()")
        found.update(dict.fromkeys(variables))
    return list(found)


def trained(loss: Tensor, variables: Sequence[Tensor]) -> tuple[list[Tensor], set[Tensor]]:
    """Return the variables to train now, and all of them that the loss depends on.

    Raises TrainingError if none is trainable, or one that is has no part in the loss.
    """
    nodes = set(ancestors([loss]))
    reached = {t for t in variables if t.node in nodes}
    params = [t for t in variables if t.trainable]
    if not params:
        frozen = ", ".join(repr(t.name) for t in variables[:5])
        raise TrainingError(
            f"graph {loss.graph.name!r} has no trainable parameter",
            facts=[f"frozen: {frozen}"] if frozen else ["it has no floating variable"],
            hint='g.unfreeze("hidden/*")' if frozen else 'g.variable("w", shape)',
        )
    lost = [t for t in params if t not in reached]
    if lost:
        raise TrainingError(
            f"the loss {loss.name!r} does not depend on "
            + ", ".join(repr(t.name) for t in lost[:8]),
            facts=[f"{t!r} made at {t.node.where or 'no line'}" for t in lost[:3]],
            need="a loss that every trained parameter has a part in",
            hint=f"g.freeze({lost[0].name!r}), or Trainer(parameters=[...])",
        )
    return params, reached
