"""The second half of a step: penalties, clipping, and the optimizers that move parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import TrainingError
from ...graph import Tensor
from ...op import find_op
from ...ops.core.choice import Clip
from ...ops.core.comparison import Sign
from ...ops.core.elementwise import Abs
from ...ops.core.identity import AddN
from ...ops.core.movement import cast_to
from ...ops.core.reduce import Sum
from ...ops.updates.base import FLOAT64, ClipByGlobalNorm, GlobalNorm
from ...spec import at_least_float32, kind
from ..config import TrainingConfig
from ..constraints import Constraint
from ..optim import Optimizer
from ..optim.base import BOUNDS, Seen
from ..slots import Slots
from .adapted import after_update
from .average import add_average
from .backward import Backward
from .groups import treatments
from .numbers import Fed, of_optimizer, watched
from .rows import Named, is_looked_up, named

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
        self._optimizers, self.built_in = zip(*map(watched, optimizers), strict=True)
        self._fed = fed = Fed(graph, state.scope, config)
        self.numbers: list[Tensor] = []
        """Placeholders: the learning rate of each optimizer, and the vector of other numbers."""
        self._set: set[Tensor] = set()
        """What the step sets, in any of its phases."""
        for i, optimizer in enumerate(optimizers):
            with graph.deriving(f"{state.scope}/optimizers/{i}" if i else state.scope):
                rate = graph.placeholder("learning_rate", (), "float64")
                scalars = {name: fed[of_optimizer(i, name)] for name in optimizer.scalars()}
                self._scalars.append(scalars | {"learning_rate": rate})
                self.numbers.append(rate)
        if fed.vector is not None:
            self.numbers.append(fed.vector)
        counting = [p for p, how in self._treated.items() if optimizers[how.optimizer].counts]
        self._clocks = state.clocks(counting) if counting else {}
        with graph.deriving(state.scope):
            self._counted = {clock: clock + 1 for clock in dict.fromkeys(self._clocks.values())}
            self.penalties = self._penalties()

    def parted(
        self, params: Sequence[Tensor], back: Backward
    ) -> tuple[dict[Tensor, Named], dict[Tensor, str]]:
        """Return the gradients of tables that stay rows, and why others are made whole."""
        rows: dict[Tensor, Named] = {}
        whole: dict[Tensor, str] = {}
        with self._state.graph.deriving(self._state.scope) as at:
            for p in params:
                grad = back.scaled[p]
                if not is_looked_up(grad):
                    continue
                at(f"{self._state.scope}/{p.name}", p.node)
                # A batch is added row by row; what a window makes of it may be all rows.
                is_gathered = self._config.accumulation is not None
                found = ("" if is_gathered else self.moves_all(p)) or named(p, grad)
                if isinstance(found, str):
                    whole[p] = found
                else:
                    rows[p] = found.having(back.unscaled(found.grad))
        return rows, whole

    def moves_all(self, p: Tensor) -> str:
        """Return why rows without a gradient move, too; empty where they stay as they are."""
        how = self._treated[p]
        if how.constraint is not None:
            return "a constraint is one of all rows"
        for name in (how.l1, how.l2, how.decay):
            if name is not None and self._fed.get(name) is not None:
                return f"{name} moves every row"
        why: str = self._optimizers[how.optimizer].moves_all()
        return why

    def of(
        self,
        grads: Gradients,
        others: Gradients,
        fed: Sequence[Tensor],
        prefix: str,
        rows: Mapping[Tensor, Named],
    ) -> tuple[Tensor, dict[Tensor, Tensor]]:
        """Return the joint norm of gradients before clipping, and the updates they lead to.

        Beside them are those of ``others``, such as running means, and what the graph sets after
        all these, as far as the placeholders ``fed`` allow. Nodes are named under ``prefix``. Of
        what has ``rows``, the gradient is that of those.
        """
        state, graph, number = self._state, self._state.graph, self._fed.get
        updates: dict[Tensor, Tensor] = dict(self._counted)
        with graph.deriving(prefix) as at:
            norm, grads = self._clipped(self._regularised(grads))
            for p, grad in grads.items():
                at(f"{prefix}/{p.name}", p.node)
                how = self._treated[p]
                optimizer = self._optimizers[how.optimizer]
                scalars = dict(self._scalars[how.optimizer])
                if factors := [f for name in how.multipliers if (f := number(name)) is not None]:
                    factor = factors[0] if len(factors) == 1 else factors[0] * factors[1]
                    scalars["learning_rate"] = scalars["learning_rate"] * factor
                if p in self._clocks:
                    scalars["step"] = self._counted[self._clocks[p]]
                inside = optimizer.average is not None  # it has other points to decay than p
                decay = None if how.decay is None else number(how.decay)
                if how.decay is not None and "weight_decay" in scalars:
                    none = graph.constant(0.0, dtype="float64")
                    scalars["weight_decay"] = decay if inside and decay is not None else none
                slots = state.slots(p, optimizer)
                if p in rows:
                    moved, *rest = rows[p].having(grad).updated(optimizer, slots, scalars)
                else:
                    moved, *rest = _moved(optimizer, p, grad, slots, scalars)
                if decay is not None and not inside:
                    moved = self._decayed(p, moved, decay, scalars["learning_rate"])
                if how.constraint is not None:
                    moved = _constrained(p, moved, how.constraint, optimizer)
                updates.update(zip((p, *slots), (moved, *rest), strict=True))
            updates |= after_update(graph, grads, updates)
        updates = graph.updates.after(updates | dict(others), fed, f"{prefix}/after")
        self._set.update(updates)
        self._average(updates)
        return norm, updates

    def _penalties(self) -> dict[str, Tensor]:
        """Return λ·Σ|w| and λ/2·Σw² over all parameters, where there is such a penalty."""
        found: dict[str, list[Tensor]] = {"l1_penalty": [], "l2_penalty": []}
        for p, how in self._treated.items():
            wide = cast_to(at_least_float32(p.dtype), p)
            wide = Abs()(wide) if kind(p.dtype) == "c" else wide
            if (l1 := self._fed.get(how.l1)) is not None:
                found["l1_penalty"].append(cast_to(FLOAT64, Sum()(Abs()(wide))) * l1)
            if (l2 := self._fed.get(how.l2)) is not None:
                found["l2_penalty"].append(cast_to(FLOAT64, Sum()(wide * wide)) * (l2 / 2))
        return {
            name: AddN()(*parts) if len(parts) > 1 else parts[0]
            for name, parts in found.items()
            if parts
        }

    def _regularised(self, grads: Gradients) -> dict[Tensor, Tensor]:
        found = dict(grads)
        for p, grad in grads.items():
            how = self._treated[p]
            l1, l2 = self._fed.get(how.l1), self._fed.get(how.l2)
            if l1 is not None or l2 is not None:
                work = at_least_float32(p.dtype)
                w, found[p] = cast_to(work, p), cast_to(work, grad)
                if l2 is not None:
                    found[p] = found[p] + w * cast_to(work, l2)
                if l1 is not None:
                    found[p] = found[p] + Sign()(w) * cast_to(work, l1)
        return found

    def _clipped(self, grads: Gradients) -> tuple[Tensor, dict[Tensor, Tensor]]:
        """Return the joint norm as it was, and gradients within all bounds."""
        found, norm = list(grads.values()), None
        each, own, joint = (self._fed.get(name) for name in BOUNDS)
        if joint is None or each is not None or own is not None:
            norm = GlobalNorm()(*found, name="grad_norm")
        if each is not None:
            bounds = {g.dtype: cast_to(g.dtype, each) for g in found}
            found = [Clip()(g, -bounds[g.dtype], bounds[g.dtype]) for g in found]
        if own is not None:
            found = [find_op("clip_by_norm")()(g, own) for g in found]
        if joint is not None:
            whole, *found = ClipByGlobalNorm()(joint, *found)
            norm = whole if norm is None else norm
        assert norm is not None
        return norm, dict(zip(grads, found, strict=True))

    def _decayed(self, p: Tensor, moved: Tensor, decay: Tensor, rate: Tensor) -> Tensor:
        """Return the moved parameter less what decay takes of the old one."""
        work = at_least_float32(p.dtype)
        old, new = cast_to(work, p), cast_to(work, moved)
        part = cast_to(work, rate * decay if self._config.decay_scaled_by_rate else decay)
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
            add_average(average, members, updates, state, self._fed.get(f"{name}.decay"))


def _moved(
    optimizer: Optimizer, p: Tensor, grad: Tensor, slots: Sequence[Tensor], scalars: Any
) -> Sequence[Tensor]:
    """Return the new parameter and its new slots, by way of pairs where those are taken."""
    if not Seen(p, optimizer).is_paired:
        return optimizer.update(p, grad, slots, scalars)
    pairs = find_op("view_as_real")()
    moved, *rest = optimizer.update(pairs(p), pairs(grad), slots, scalars)
    return find_op("view_as_complex")()(moved), *rest


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
