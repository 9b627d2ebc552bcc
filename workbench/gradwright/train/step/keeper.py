"""Steps: keeps the graph of a training step as settings and graph ask for it, and runs it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...data.batches import Feeds
from ...errors import IdError, TrainingError
from ...graph import Tensor, Values
from ...session import Prepared, Session
from ...spec import TensorSpec, at_least_float32
from ...spec.rounding import rounded
from ..config import TrainingConfig
from ..optim import Optimizer
from ..slots import OptimizerState
from .accumulate import SUMS, WEIGHT
from .average import AVERAGED
from .chosen import candidates, trained
from .graph import Phase, StepGraph
from .groups import treatments
from .measure import Measures, now
from .unroll import Unrolled

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Outcome:
    """What one step gave."""

    finite: bool
    """Whether loss and gradients are; without that it was not committed."""
    norm: float
    """Norm of all gradients together, before clipping."""
    measured: Sequence[Any]
    """What is measured, and then the extras of the phase."""
    grads: Mapping[Tensor, Any]


class Steps:
    """The steps of one trainer, singly or several in one run.

    The graph of a step is built anew when an edit, freezing or the settings ask for it; the session
    runs it prepared.
    """

    def __init__(
        self,
        losses: Sequence[Tensor],
        measures: Measures,
        chosen: Sequence[Tensor | str] | None,
    ) -> None:
        self.losses = list(losses)
        self.state: OptimizerState | None = None
        self.watched: list[Tensor] = []
        """What may be trained, frozen or not."""
        self._graph = self.losses[0].graph
        self._measures, self._chosen = measures, chosen
        self._wrt: list[Tensor] = []
        self._session: Session
        self._step: tuple[StepGraph, Any] | None = None
        """The graph of a step, and what it depends on."""
        self._building = threading.RLock()
        self._fed: tuple[tuple[float, ...], list[Array]] = (), []
        """The numbers that were fed last, and as arrays."""
        self._unrolled: dict[tuple[int, bool], tuple[Unrolled, Prepared]] = {}

    @property
    def parameters(self) -> list[Tensor]:
        """The variables that the next step trains."""
        return [t for t in candidates(self._graph, self._chosen) if t.trainable]

    # -- the graph of a step ---------------------------------------------------------------------

    def current(
        self, session: Session, config: TrainingConfig, *, as_it_is: bool = False
    ) -> StepGraph:
        """Return the graph of the next step, to be run by ``session``; any thread may ask.

        With ``as_it_is`` return that of the last step, where there is one.
        """
        with self._building:
            if as_it_is and self._step is not None:
                return self._step[0]
            step = self.ready(session, config)  # another thread may have been faster
            if step is None:
                self._step = None
                self._unrolled.clear()
                self._session = session
                step = self._build(session, config)
                self._held_state(session.values).settle()
                self._step = step, self._seen(session, config)
        return step

    def ready(self, session: Session, config: TrainingConfig) -> StepGraph | None:
        """Return the graph of the last step, without a lock, if it is that of the next one, too."""
        held = self._step
        if held is None or self._seen(session, config) != held[1]:
            return None
        held[0].config = config
        return held[0]

    def _seen(self, session: Session, config: TrainingConfig) -> Any:
        """Return what the graph of a step depends on; costs about 1 us for ten parameters."""
        graph = self._graph
        seen = [session, graph.revision, config.beside_optimizers]
        seen += [t.node.trainable for t in self.watched]
        if graph.updates:
            seen += map(id, graph.updates.values())
        for optimizer in config.optimizers:
            settings = vars(optimizer).copy()
            settings["learning_rate"] = None  # fed, so it may change in every step
            seen += type(optimizer), settings
        return seen

    def _build(self, session: Session, config: TrainingConfig) -> StepGraph:
        graph = self._graph
        graph.settle()
        for optimizer in config.optimizers:
            optimizer.check()
        self.losses = [now(graph, t) for t in self.losses]
        self.watched = candidates(graph, self._chosen)
        state = self._held_state(session.values)
        state.begin(self._movers(config))
        params, reached = trained(self.losses, self.watched)
        held = [t for t in self._wrt if t in reached]
        self._wrt = list(dict.fromkeys([*held, *params]))
        return StepGraph(
            self.losses,
            self._measures.fetches(),
            params,
            gradients_of=self._wrt,
            config=config,
            state=state,
        )

    def _held_state(self, values: Values) -> OptimizerState:
        """Return the state of the optimizer, made when first asked for."""
        if self.state is None:
            self.state = OptimizerState(self._graph, values)
        return self.state

    # -- running ---------------------------------------------------------------------------------

    def take(
        self,
        phase: Phase,
        feeds: Feeds,
        numbers: tuple[float, ...],
        number: int,
        *,
        watching: bool = False,
    ) -> Outcome:
        """Run a phase and commit it if it is finite; with ``watching`` fetch the gradients, too."""
        run = phase.prepared(self._session, watching)
        if numbers != self._fed[0]:
            self._fed = numbers, [np.array(n) for n in numbers]
        arrays = map(feeds.__getitem__, phase.needed)
        finite, norm, *measured = run(*arrays, *self._fed[1], step=number)
        if not watching:
            return Outcome(bool(finite), float(norm), measured, {})
        count = len(measured) - len(phase.grads)
        grads = dict(zip(phase.grads, measured[count:], strict=True))
        return Outcome(bool(finite), float(norm), measured[:count], grads)

    def take_many(
        self,
        step: StepGraph,
        batches: Sequence[Feeds],
        rates: Sequence[tuple[float, ...]],
        number: int,
        *,
        skip: bool,
    ) -> list[Outcome] | None:
        """Run steps ``number``, ``number + 1`` ... in one plan and commit what they lead to.

        Those that are not finite are skipped; without ``skip``, nothing is committed if one is, and
        the answer is None, as it is where an id among the data is none.
        """
        key = len(batches), skip
        held = self._unrolled.get(key)
        if held is None:
            unrolled = Unrolled(step, len(batches), select=skip)
            run = self._session.prepare(
                unrolled.fetches,
                unrolled.feeds,
                unrolled.updates,
                training=True,
                commit_if=unrolled.finite,
            )
            held = self._unrolled[key] = unrolled, run
        unrolled, run = held
        seed = self._session.seed
        try:
            found = run(*unrolled.arrays(batches, rates, seed, number), step=number)
        except IdError:  # a single step knows which batch it is of
            return None
        outcomes = [Outcome(bool(f), float(n), m, {}) for f, n, *m in found]
        return outcomes if skip or all(o.finite for o in outcomes) else None

    # -- state -----------------------------------------------------------------------------------

    def empty(self) -> None:
        """Forget the sums of a window that was begun."""
        if self.state is not None:
            self.state.empty(SUMS, WEIGHT)

    def arrays(self, config: TrainingConfig) -> dict[str, Array]:
        """Return the state that the next step finds; where it cannot be built, all there is."""
        if self.state is None:
            return {}
        try:
            movers = self._movers(config)
        except TrainingError:
            movers = {}
        return self.state.arrays(movers, _prefixes(config))

    def averages(self, session: Session, config: TrainingConfig, name: str) -> dict[str, Array]:
        """Return the average of each variable that has one, in the variable's dtype.

        ``name`` is that of a configured average, or ``"optimizer"`` for those optimizers keep.
        Before the first update that counts there is none: the weights stand for themselves.
        """
        self.current(session, config)
        scope = self._held_state(session.values).scope
        held = self._averaged(config, name)
        if name != "optimizer" and not session.values.array(f"{scope}/averaging/{name}/counted"):
            held = {}
        return {
            v.name: rounded(session.values[full], v.dtype)
            for v, own in held.items()
            if (full := f"{scope}/{own}") in session.values
        }

    def averaging(self, values: Values, config: TrainingConfig, name: str) -> dict[str, Array]:
        """Return the state that an average is made of; ``restore_averaging`` goes back to it."""
        scope = self._held_state(values).scope
        counters = [f"averaging/{name}/{counter}" for counter in ("seen", "counted")]
        names = [*counters, *self._averaged(config, name).values()]
        return {n: values[f"{scope}/{n}"] for n in names if f"{scope}/{n}" in values}

    def restore_averaging(self, values: Values, held: Mapping[str, Array]) -> None:
        """Go back to what ``averaging`` returned."""
        scope = self._held_state(values).scope
        values.restore({f"{scope}/{name}": array for name, array in held.items()})

    def _averaged(self, config: TrainingConfig, name: str) -> dict[Tensor, str]:
        """Return how the state calls the average of each variable that may have one."""
        if name == "optimizer":
            moved = self._movers(config)
            return {v: f"{v.name}/{o.average}" for v, o in moved.items() if o.average}
        return {v: f"averaged/{name}/{v.name}" for v in self._graph.variables}

    def averaged(self, values: Values, name: str) -> int:
        """Return how many updates have counted in an average."""
        state = self.state
        counted = "" if state is None else f"{state.scope}/averaging/{name}/counted"
        return int(values.array(counted)) if counted in values else 0

    def load(self, arrays: Mapping[str, Any], session: Session, config: TrainingConfig) -> None:
        """Take over saved state of a step, all or none; the next one is built anew."""
        if config.accumulation or config.averages or config.fp8:
            self.current(session, config)  # it knows what else belongs to a step
        found = {v.name: optimizer for v, optimizer in self._movers(config).items()}
        self._held_state(session.values).load(
            arrays, lambda name: found.get(name, config.optimizer), self._beside(config)
        )
        self._step = None

    def _movers(self, config: TrainingConfig) -> dict[Tensor, Optimizer]:
        """Return the optimizer of each variable that may be trained."""
        every = candidates(self._graph, self._chosen)
        treated = treatments(self._graph, config, every)
        return {v: config.optimizers[how.optimizer] for v, how in treated.items()}

    def _beside(self, config: TrainingConfig) -> dict[str, TensorSpec]:
        """Return what variables have that were trained and no longer are."""
        prefixes = [SUMS] if config.accumulation is not None else []
        prefixes += [f"averaged/{name}/" for name in config.averages]
        floating = [v for v in self._graph.variables if v.spec.differentiable]
        return {
            f"{prefix}{v.name}": TensorSpec(v.shape, at_least_float32(v.dtype))
            for prefix in prefixes
            for v in floating
        }


def _prefixes(config: TrainingConfig) -> tuple[str, ...]:
    """Return what the names of state begin with that is no optimizer's."""
    found = [] if config.accumulation is None else [SUMS, WEIGHT]
    found += [] if config.fp8 is None else ["fp8/"]
    return *found, *(f"{kind}/{name}/" for name in config.averages for kind in AVERAGED)
