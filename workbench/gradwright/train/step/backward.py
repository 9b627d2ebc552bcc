"""The first half of a step: losses, what is measured, and the gradients of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...gradient import gradients
from ...graph import Graph, Tensor
from ...graph.edit import discard
from ...graph.walk import placeholders
from ...ops.core.elementwise import Add
from ...ops.core.identity import AddN
from ...ops.core.movement import cast_to
from ...ops.updates.base import FLOAT64
from ...spec import at_least_float32
from ..config import TrainingConfig
from ..precision.forward import Lowered, lowered
from ..slots import Slots

StandIns = Callable[[Sequence[Tensor], str], Mapping[Tensor, Tensor]]
"""From tensors and a scope of the derived layer to what a step computes in their place."""


class Backward:
    """Gradients of the sum of losses, brought to the scale and the sign that an update needs.

    It lives in the derived layer, under the scope of the optimizer's state. The gradients of one
    loss that is minimized as it is are those of ``gw.gradients``, which freezing leaves alone;
    those of anything built here go with it.
    """

    def __init__(
        self,
        losses: Sequence[Tensor],
        measured: Sequence[Tensor],
        wrt: Sequence[Tensor],
        config: TrainingConfig,
        state: Slots,
        stand_ins: StandIns | None = None,
    ) -> None:
        graph, scope = state.graph, state.scope
        clear(graph, state)
        running = graph.updates.before(losses, placeholders(measured))
        if stand_ins is not None and not running:
            known = stand_ins([*measured, *losses], scope)
            losses, measured = [known[t] for t in losses], [known[t] for t in measured]
        self.needed = placeholders(measured)
        self.scale: Tensor | None = None
        """Placeholder of the loss scale."""
        low = list(losses)
        self.measured = list(measured)
        self.lowered: Lowered | None = None
        """What computes in fewer bits, where something does."""
        if config.precision is not None or config.fp8 is not None:
            every = [*measured, *losses, *running.values()]
            self.lowered = copy = lowered(every, config.precision, config.fp8, state)
            low = [copy.of(t) for t in losses]
            self.measured = [copy.of(t) for t in measured]
            running = {v: copy.of(t) for v, t in running.items()}
        with graph.deriving(scope):
            self.loss = _sum(losses)
            self.value = self.loss if self.lowered is None else _sum(low)
            """The loss as the step computes it."""
            target = self.value if config.minimize else -self.value
            if config.scaler is not None:
                self.scale = graph.placeholder("loss_scale", (), "float64")
                target = target * cast_to(target.dtype, self.scale)
        found = gradients(target, wrt)
        self.scaled = dict(zip(wrt, found, strict=True))
        """Gradients of parameters as they come, times the scale of the loss."""
        scales = {} if self.lowered is None else self.lowered.updates  # those of gradients, too
        self.updates: dict[Tensor, Tensor] = {**running, **scales}
        """What a batch sets beside parameters: running means, and the scales of 8 bits."""
        self._back: Tensor | None = None
        if self.scale is not None:
            with graph.deriving(scope):
                self._back = 1.0 / self.scale
        with graph.deriving(scope):
            self.grads = {p: self.unscaled(g) for p, g in self.scaled.items()}

    def unscaled(self, grad: Tensor) -> Tensor:
        """Return a gradient without the scale, in float32 at least: 16 bits would lose it again."""
        if self._back is None:
            return grad
        work = at_least_float32(grad.dtype)
        found: Tensor = cast_to(work, grad) * cast_to(work, cast_to(FLOAT64, self._back))
        return found


def clear(graph: Graph, state: Slots) -> None:
    """Remove what was built for the step before, and the gradients of what goes with it."""
    state.clear_graph()
    prefix = f"grad/{state.scope}/"
    if stale := [n for n in graph.derived if n.name.startswith(prefix)]:
        gone = set(stale)
        graph.gradients = {
            key: found
            for key, found in graph.gradients.items()
            if not any(t.node in gone for t in found)
        }
        discard(stale)


def _sum(losses: Sequence[Tensor]) -> Tensor:
    if len(losses) == 1:
        return losses[0]
    total: Tensor = Add()(*losses) if len(losses) == 2 else AddN()(*losses)
    return total
