"""The graph of one training step: gradients, clipping, updates, and the decision to commit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ...errors import TrainingError
from ...graph import Tensor, ancestors
from ...graph.walk import placeholders
from ...ops.core.like import ZerosLike
from ...ops.updates.base import AllFinite, GlobalNorm
from ...session import Prepared, Session
from ...words.tables import Table
from ..config import TrainingConfig
from ..precision.forward import Lowered
from ..slots import Slots
from .accumulate import Sums, counted
from .backward import Backward, StandIns
from .moves import Moves
from .rows import Named
from .window import keeps_rows


@dataclass(eq=False)
class Phase:
    """What one run of a step is fed with, fetches and updates."""

    needed: list[Tensor]
    """Placeholders of the data."""
    numbers: list[Tensor]
    """What is fed after them: learning rates, other numbers, loss scale, weight of the batch."""
    fetches: list[Tensor]
    """Whether it is finite, the norm of the gradients, what is measured, and ``extras``."""
    updates: dict[Tensor, Tensor]
    finite: Tensor
    grads: Mapping[Tensor, Tensor]
    """What callbacks see of the gradients: before clipping."""
    extras: tuple[str, ...] = ()
    """Names of the last numbers that are fetched."""
    _runs: dict[bool, Prepared] = field(default_factory=dict)

    def prepared(self, session: Session, watching: bool) -> Prepared:
        """Return the run, checked once; with ``watching`` it fetches the gradients, too."""
        run = self._runs.get(watching)
        if run is None:
            run = self._runs[watching] = session.prepare(
                [*self.fetches, *(self.grads.values() if watching else ())],
                [*self.needed, *self.numbers],
                self.updates,
                training=True,
                commit_if=self.finite,
            )
        return run


class StepGraph:
    """What a trainer runs in each step, for one set of trained parameters.

    It lives in the derived layer, under the scope of the optimizer's state; building it for another
    set replaces it. Without accumulation there is one phase, ``update``. With it, ``gather`` adds a
    batch to the sums and commits only these and running means; ``update`` adds the last batch of a
    window, and ``flush`` none, where an epoch has no more.
    """

    def __init__(
        self,
        losses: Sequence[Tensor],
        measured: Sequence[Tensor],
        params: Sequence[Tensor],
        *,
        gradients_of: Sequence[Tensor],
        config: TrainingConfig,
        state: Slots,
        penalties: Mapping[str, Tensor],
        stand_ins: StandIns | None = None,
    ) -> None:
        self.params, self.scope = list(params), state.scope
        self._state = state
        self.config = config
        """The settings as they stood when the step was asked for last."""
        self._back = back = Backward(losses, measured, gradients_of, config, state, stand_ins)
        self.loss, self.value = back.loss, back.value
        for p in params:
            if p in back.updates:
                raise TrainingError(
                    f"{p.name!r} is trained, and set by an update too",
                    need="one of the two",
                    hint=f"g.freeze({p.name!r})",
                )
        self._moves = moves = Moves(params, config, state)
        self.needed = back.needed
        self.numbers = [*moves.numbers, *([] if back.scale is None else [back.scale])]
        self.grads = {p: back.grads[p] for p in params}
        self.named, self.whole = moves.parted(params, back)
        """Tables whose gradient is rows, and those where it is whole, each with why."""
        self.kept: dict[Tensor, Named] = {}
        """Tables whose gradient is rows through a window, too."""
        self.gather: Phase | None = None
        self.flush: Phase | None = None
        extras = {**moves.penalties, **penalties}
        if config.accumulation is None:
            grads = self._in_rows()
            norm, updates = moves.of(grads, back.updates, self.needed, state.scope, self.named)
            self.update = self._phase(norm, updates, extras)
        else:
            self._accumulate(config, extras)

    def table(self) -> Table:
        """Return what the gradient of each parameter is, and why that of a table is whole.

        That of a table whose rows are looked up, and no more, is these rows and what is added to
        each, if its optimizer leaves the others alone: SGD and AdaGrad without momentum and decay,
        and SparseAdam. Time and memory follow the rows then; bits are those of the whole gradient,
        but for its norm, which is added up in another order.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> ids, table = g.placeholder("ids", ("K",), "int64"), g.variable("table", (9, 2))
        >>> loss = gw.mean(gw.nn.embedding(ids, table) ** 2.0)
        >>> gw.Trainer(g, loss, optimizer="sgd").gradient_table
        parameter  gradient                     reason
        table      f32[9, 2] in min(9, K) rows  look-ups alone
        >>> gw.Trainer(g, loss, optimizer="adam").gradient_table.rows
        [['table', 'f32[9, 2]', 'Adam moves every row']]
        """
        rows = []
        for p, grad in self.grads.items():
            found = self.named.get(p)
            if found is None:
                why = self.whole.get(p, "")
            elif self.gather is None:
                why = "look-ups alone"
            elif p in self.kept:
                why = "look-ups alone, rows through a window"
            else:
                why = "added to a window's sum, which moves every row"
            rows.append([p.name, str((found or grad).spec), why])
        return Table(["parameter", "gradient", "reason"], rows)

    @cached_property
    def held_rows(self) -> dict[str, int]:
        """How many rows a batch adds to the window of each parameter; 0 where it is a whole sum."""
        each = {p: int(found.rows.shape[0]) for p, found in self.kept.items()}
        return {p.name: each.get(p, 0) for p in self.params}

    @property
    def built_in(self) -> Sequence[Collection[str]]:
        """Names of numbers of each optimizer that it has built in, as they were."""
        return self._moves.built_in

    @property
    def lowered(self) -> Lowered | None:
        """What computes in fewer bits, where something does."""
        return self._back.lowered

    @cached_property
    def is_repeatable(self) -> bool:
        """Whether several steps in one plan compute the bits that they compute singly.

        What is set and never read, such as the mean of a batch, is computed in the last of them
        alone; the kernels of the others would be cut elsewhere. Rows are written where a table lies
        by the last of them alone: the others would copy it.
        """
        if self.named:
            return False
        read = set(ancestors([*self.fetches, *self.updates.values()]))
        return read.issuperset(v.node for v in self.updates)

    @property
    def rate(self) -> Tensor:
        """Placeholder of the optimizer's learning rate."""
        return self.numbers[0]

    @property
    def finite(self) -> Tensor:
        """Whether an update is committed."""
        return self.update.finite

    @property
    def fetches(self) -> list[Tensor]:
        """What an update fetches."""
        return self.update.fetches

    @property
    def updates(self) -> dict[Tensor, Tensor]:
        """What an update sets."""
        return self.update.updates

    def _phase(
        self, norm: Tensor, updates: dict[Tensor, Tensor], extras: Mapping[str, Tensor]
    ) -> Phase:
        with self._state.graph.deriving(self.scope):
            counts = [t for name, t in extras.items() if name == "tokens"]
            finite: Tensor = AllFinite()(self._back.value, norm, *counts)
        fetches = [finite, norm, *self._back.measured, *extras.values()]
        return Phase(self.needed, self.numbers, fetches, updates, finite, self.grads, tuple(extras))

    def _in_rows(self) -> dict[Tensor, Tensor]:
        """Return the gradients of a batch, those of tables in rows where they stay so."""
        return {p: self.named[p].grad if p in self.named else g for p, g in self.grads.items()}

    def _accumulate(self, config: TrainingConfig, penalties: Mapping[str, Tensor]) -> None:
        """Build the three phases of a window."""
        state, back, moves, rule = self._state, self._back, self._moves, config.accumulation
        assert rule is not None
        graph, extras = state.graph, dict(penalties)
        self.kept = {
            p: found
            for p, found in self.named.items()
            if keeps_rows(found, rule.steps) and not moves.moves_all(p)
        }
        sums = Sums(state, self.params, self.kept, rule.steps)
        with graph.deriving(f"{self.scope}/window"):
            if rule.tokens is None:
                weight = graph.placeholder("weight", (), "float64")
                self.numbers = [*self.numbers, weight]
            else:
                tokens = graph[rule.tokens]
                weight = extras["tokens"] = counted(tokens)
                self.needed = list(dict.fromkeys([*self.needed, *placeholders([tokens])]))
            empty = {t: ZerosLike()(t) for t in sums.variables}
            added, total = sums.with_batch(self.grads, weight, self.named)
            norm: Tensor = GlobalNorm()(*self._in_rows().values())
            whole = sums.means(added, total)
            pending = sums.means(sums.of, sums.weight)
            rows = sums.in_rows(total, weight, self.named)
            waiting = sums.in_rows(sums.weight, weight, {})
            appended = sums.with_rows(weight, self.named)
            whole |= {p: found.whole() for p, found in rows.items()}
            pending |= {p: found.whole() for p, found in waiting.items()}
        gathered = {sums.weight: total, **{sums.of[p]: t for p, t in added.items()}, **appended}
        only = {name: t for name, t in extras.items() if name == "tokens"}
        self.gather = self._phase(norm, {**back.updates, **gathered}, only)
        self.grads = {p: whole[p] for p in self.params}
        grads = {p: rows[p].grad if p in rows else whole[p] for p in self.params}
        norm, updates = moves.of(grads, back.updates, self.needed, self.scope, rows)
        self.update = self._phase(norm, {**updates, **empty}, extras)
        grads = {p: waiting[p].grad if p in waiting else pending[p] for p in self.params}
        norm, updates = moves.of(grads, {}, (), f"{self.scope}/flush", waiting)
        with graph.deriving(f"{self.scope}/flush"):
            finite: Tensor = AllFinite()(norm)
        fetches, changes = [finite, norm, *penalties.values()], {**updates, **empty}
        names = tuple(penalties)
        self.flush = Phase([], moves.numbers, fetches, changes, finite, pending, names)
