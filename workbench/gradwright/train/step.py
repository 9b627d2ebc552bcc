"""The graph of one training step: gradients, clipping, updates, and the decision to commit."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import TrainingError
from ..gradient import gradients
from ..graph import Graph, Node, Placeholder, Tensor, ancestors
from ..ops.optimizer import AllFinite, ClipByGlobalNorm, GlobalNorm
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
        self.params = list(params)
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


def reachable(loss: Tensor) -> set[Node]:
    """Return the nodes that the loss depends on."""
    return set(ancestors([loss]))
