"""The second half of a step: penalties, clipping, and the optimizers that move parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...errors import TrainingError
from ...graph import Tensor
from ...op import find_op
from ...ops.core.choice import Clip
from ...ops.core.comparison import Sign
from ...ops.core.elementwise import Abs
from ...ops.core.identity import AddN
from ...ops.core.movement import cast_to
from ...ops.core.reduce import Sum
from ...ops.updates.base import ClipByGlobalNorm, GlobalNorm
from ...spec import at_least_float32
from ..config import TrainingConfig
from ..constraints import Constraint
from ..optim import Optimizer
from ..slots import Slots
from .average import add_average
from .groups import treatments

Gradients = Mapping[Tensor, Tensor]


class Moves:
    """What gradients make of parameters; several phases of a step share its numbers."""

    def __init__(
        self,
        params: Sequence[Tensor],
        config: TrainingConfig,
        state: Slots,
    ) -> None:
        self._config, self._state = config, state
        self._treated = treatments(state.graph, config, params)
        self._scalars: list[dict[str, Tensor]] = []
        graph, optimizers = state.graph, config.optimizers
        self._set: set[Tensor] = set()
        """What the step sets, in any of its phases."""
        self.rates: list[Tensor] = []
        """Placeholders of the learning rates, one for each optimizer."""
        for i, optimizer in enumerate(optimizers):
            with graph.deriving(f"{state.scope}/optimizers/{i}" if i else state.scope):
                rate = graph.placeholder("learning_rate", (), "float64")
                self._scalars.append(
                    {
                        name: graph.constant(value, name, "float64")
                        for name, value in optimizer.scalars().items()
                    }
                    | {"learning_rate": rate}
                )
                self.rates.append(rate)
        counting = [p for p, how in self._treated.items() if optimizers[how.optimizer].counts]
        self._clocks = state.clocks(counting) if counting else {}
        with graph.deriving(state.scope):
            self._counted = {clock: clock + 1 for clock in dict.fromkeys(self._clocks.values())}
            self.penalties = self._penalties()

    def of(
        self, grads: Gradients, others: Gradients, fed: Sequence[Tensor], prefix: str
    ) -> tuple[Tensor, dict[Tensor, Tensor]]:
        """Return the joint norm of gradients before clipping, and the updates they lead to.

        Beside them are those of ``others``, such as running means, and what the graph sets after
        all these, as far as the placeholders ``fed`` allow. Nodes are named under ``prefix``.
        """
        state, graph, optimizers = self._state, self._state.graph, self._config.optimizers
        updates: dict[Tensor, Tensor] = dict(self._counted)
        with graph.deriving(prefix) as at:
            norm, grads = self._clipped(self._regularised(grads))
            for p, grad in grads.items():
                at(f"{prefix}/{p.name}", p.node)
                how = self._treated[p]
                optimizer = optimizers[how.optimizer]
                scalars = dict(self._scalars[how.optimizer])
                if how.multiplier != 1.0:
                    scalars["learning_rate"] = scalars["learning_rate"] * how.multiplier
                if p in self._clocks:
                    scalars["step"] = self._counted[self._clocks[p]]
                inside = optimizer.average is not None  # it has other points to decay than p
                if how.decay is not None and "weight_decay" in scalars:
                    inner = how.decay if inside else 0.0
                    scalars["weight_decay"] = graph.constant(inner, dtype="float64")
                slots = state.slots(p, optimizer)
                moved, *rest = optimizer.update(p, grad, slots, scalars)
                if how.decay and not inside:
                    moved = self._decayed(p, moved, how.decay, scalars["learning_rate"])
                if how.constraint is not None:
                    moved = _constrained(p, moved, how.constraint, optimizer)
                updates.update(zip((p, *slots), (moved, *rest), strict=True))
        updates = graph.updates.after(updates | dict(others), fed, f"{prefix}/after")
        self._set.update(updates)
        self._average(updates)
        return norm, updates

    def _penalties(self) -> dict[str, Tensor]:
        """Return λ·Σ|w| and λ/2·Σw² over all parameters, where there is such a penalty."""
        found: dict[str, list[Tensor]] = {"l1_penalty": [], "l2_penalty": []}
        for p, how in self._treated.items():
            wide = cast_to(at_least_float32(p.dtype), p)
            if how.l1:
                found["l1_penalty"].append(cast_to("float64", Sum()(Abs()(wide))) * how.l1)
            if how.l2:
                found["l2_penalty"].append(cast_to("float64", Sum()(wide * wide)) * (how.l2 / 2))
        return {
            name: AddN()(*parts) if len(parts) > 1 else parts[0]
            for name, parts in found.items()
            if parts
        }

    def _regularised(self, grads: Gradients) -> dict[Tensor, Tensor]:
        found = dict(grads)
        for p, grad in grads.items():
            how = self._treated[p]
            if how.l1 or how.l2:
                work = at_least_float32(p.dtype)
                w, found[p] = cast_to(work, p), cast_to(work, grad)
                if how.l2:
                    found[p] = found[p] + w * how.l2
                if how.l1:
                    found[p] = found[p] + Sign()(w) * how.l1
        return found

    def _clipped(self, grads: Gradients) -> tuple[Tensor, dict[Tensor, Tensor]]:
        """Return the joint norm as it was, and gradients within all bounds."""
        config, found = self._config, list(grads.values())
        graph, norm = self._state.graph, None
        bounds = (config.clip_value, config.clip_tensor_norm)
        if config.clip_norm is None or bounds != (None, None):
            norm = GlobalNorm()(*found, name="grad_norm")
        if config.clip_value is not None:
            found = [Clip()(g, -config.clip_value, config.clip_value) for g in found]
        if config.clip_tensor_norm is not None:
            bound = graph.constant(config.clip_tensor_norm, "clip_tensor_norm", "float64")
            found = [find_op("clip_by_norm")()(g, bound) for g in found]
        if config.clip_norm is not None:
            limit = graph.constant(config.clip_norm, "clip_norm", "float64")
            joint, *found = ClipByGlobalNorm()(limit, *found)
            norm = joint if norm is None else norm
        assert norm is not None
        return norm, dict(zip(grads, found, strict=True))

    def _decayed(self, p: Tensor, moved: Tensor, decay: float, rate: Tensor) -> Tensor:
        """Return the moved parameter less what decay takes of the old one."""
        work = at_least_float32(p.dtype)
        old, new = cast_to(work, p), cast_to(work, moved)
        part = cast_to(work, rate * decay) if self._config.decay_scaled_by_rate else decay
        less: Tensor = cast_to(p.dtype, new - old * part)
        return less

    def _average(self, updates: dict[Tensor, Tensor]) -> None:
        """Add the averages of what is trained, and of what was."""
        state, graph = self._state, self._state.graph
        for name, average in self._config.averages.items():
            held = f"{state.scope}/averaged/{name}/"
            members = [
                v
                for v in graph.variables
                if v in self._treated
                or f"{held}{v.name}" in state.values
                or (average.buffers and v in self._set and v.spec.differentiable)
            ]
            add_average(average, members, updates, state)


def _constrained(p: Tensor, moved: Tensor, constraint: Constraint, optimizer: Optimizer) -> Tensor:
    """Return the moved parameter, brought back to what its constraint says."""
    if optimizer.average is not None:
        raise TrainingError(
            f"{p.name!r} has a constraint, and {type(optimizer).__name__} moves it between two "
            "points of its own",
            hint="another optimizer, such as gw.optim.AdamW",
        )
    kept = constraint(moved)
    if kept.spec != p.spec:
        raise TrainingError(f"{constraint!r} makes {kept.spec} of {p.name!r}", need=str(p.spec))
    return kept
