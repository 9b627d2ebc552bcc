"""StepKeeper: keeps the graph of a step as settings and graph ask for it, and runs it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...data.batches import Feeds
from ...errors import IdError, TrainingError
from ...graph import Tensor
from ...op import redefinitions
from ...session import Prepared
from ...spec import TensorSpec, at_least_float32
from ...spec.rounding import rounded
from ..config import Setup, TrainingConfig
from ..optim import Optimizer
from ..optim.base import changes
from ..slots import Slots
from .accumulate import SUMS
from .adapted import penalties
from .average import AVERAGED
from .backward import StandIns
from .chosen import candidates, moving, trained
from .graph import Phase, StepGraph
from .groups import treatments
from .measure import Measures, now
from .numbers import Numbers, form
from .unroll import Unrolled
from .window import WINDOW

Array = np.ndarray[Any, Any]
Fed = tuple[Any, ...]
"""What is fed to a step beside data: learning rates, a tuple of other numbers, and so on."""


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


class StepKeeper:
    """The steps of one training, singly or several in one run.

    The graph of a step is built anew when an edit, freezing or the settings ask for it; the session
    runs it prepared. As a ``Stateful`` part it is what optimizers and windows keep.
    """

    def __init__(
        self,
        setup: Setup,
        losses: Sequence[Tensor],
        measures: Measures,
        chosen: Sequence[Tensor | str] | None,
        stand_ins: StandIns | None = None,
    ) -> None:
        self._setup, self._losses = setup, list(losses)
        self._slots: Slots | None = None
        self.watched: list[Tensor] = []
        """What may be trained, frozen or not."""
        self._graph = self._losses[0].graph
        self._measures, self._chosen, self._stand_ins = measures, chosen, stand_ins
        self._wrt: list[Tensor] = []
        self._step: tuple[StepGraph, Any, Any] | None = None
        """The graph of a step, what it depends on, and the settings that it has been told."""
        self._marks: tuple[Any, list[tuple[bool, str]]] = None, []
        """Which of ``watched`` are trained, and their names, and when that was looked up."""
        self._form: Any = None
        """What it depends on of the settings."""
        self.moment: tuple[Any, ...] = ()
        """What there was when the graph of a step was found ready; the same again, it is so again.
        """
        self.steady: Fed | None = None
        """What steps are fed with beside data from then on, where nothing follows a schedule."""
        self.numbers = Numbers()
        """What a step is fed with beside data and learning rates."""
        self._building = threading.RLock()
        self._fed: tuple[Fed, list[Array]] = (), []
        """The numbers that were fed last, and as arrays."""
        self._unrolled: dict[tuple[int, bool], tuple[Unrolled, Prepared]] = {}

    @property
    def variables(self) -> list[Tensor]:
        """The variables that steps may train, those that are frozen included."""
        return candidates(self._graph, self._chosen)

    @property
    def parameters(self) -> list[Tensor]:
        """The variables that the next step trains."""
        return moving(self._graph, self.variables)

    # -- the graph of a step ---------------------------------------------------------------------

    @property
    def losses(self) -> list[Tensor]:
        """The losses, as they stand in the graph now."""
        return [now(self._graph, t) for t in self._losses]

    def current(self, *, as_it_is: bool = False) -> StepGraph:
        """Return the graph of the next step; any thread may ask.

        With ``as_it_is`` return that of the last step, where there is one.
        """
        with self._building:
            if as_it_is and self._step is not None:
                return self._step[0]
            step = self.ready()  # another thread may have been faster
            if step is None:
                step = self._told() or self._built()
        return step

    def ready(self) -> StepGraph | None:
        """Return the graph of the last step, without a lock, if nothing has changed since."""
        held, graph, config = self._step, self._graph, self._setup.config
        counts = graph.revision, graph.marked, redefinitions(), changes()
        moment = id(held), id(config), id(self._setup.session), counts
        if moment == self.moment and held is not None and not graph.updates.declared:
            return held[0]
        self.moment, self.steady = (), None
        if held is None or (self._seen(), self._settings()) != held[1:]:
            return None
        held[0].config = config
        if not graph.updates.declared:  # else more is looked at
            self.steady = self.numbers.steady(config.optimizers)
            self.moment = moment  # of before the comparison: another thread may change one after
        return held[0]

    def _told(self) -> StepGraph | None:
        """Return the graph of the last step if only numbers have changed, which are taken over."""
        held, config = self._step, self._setup.config
        if held is None or self._seen() != held[1] or form(config, held[0].built_in) != self._form:
            return None
        for optimizer in config.optimizers:
            optimizer.check()
        step = held[0]
        step.config = config
        self.numbers.read(config)
        self._step = step, held[1], self._settings()
        return step

    def _built(self) -> StepGraph:
        """Return the graph of a step, built anew."""
        self._step = None
        self._unrolled.clear()
        step, config = self._build(), self._setup.config
        self._held_slots().settle()
        self.numbers.read(config)
        self._form = form(config, step.built_in)
        self._step = step, self._seen(), self._settings()
        return step

    def _seen(self) -> Any:
        """Return what the graph of a step depends on beside its settings."""
        graph = self._graph
        stamp = graph.revision, graph.marked
        if stamp != self._marks[0]:
            nodes = [t.node for t in self.watched]
            self._marks = stamp, [(node.trainable, node.name) for node in nodes]
        seen = [self._setup.session, graph.revision, redefinitions(), self._marks[1]]
        if graph.updates.declared:
            seen += graph.updates.marks()
        return seen

    def _settings(self) -> Any:
        """Return all settings as they are."""
        config = self._setup.config
        settings: list[Any] = [config.beside_optimizers]
        for optimizer in config.optimizers:
            own = vars(optimizer).copy()
            own["learning_rate"] = None  # asked for in every step
            settings += type(optimizer), own
        return settings

    def _build(self) -> StepGraph:
        graph, config = self._graph, self._setup.config
        graph.settle()
        for optimizer in config.optimizers:
            optimizer.check()
        self._losses = self.losses
        self.watched = candidates(graph, self._chosen)
        self._marks = None, []
        slots = self._held_slots()
        slots.begin(self._movers())
        more = penalties(graph)
        losses = [*self._losses, *more.values()]
        params, reached = trained(losses, self.watched, self._chosen)
        held = [t for t in self._wrt if t in reached]
        self._wrt = list(dict.fromkeys([*held, *params]))
        return StepGraph(
            losses,
            self._measures.fetches(),
            params,
            penalties=more,
            gradients_of=self._wrt,
            config=config,
            state=slots,
            stand_ins=self._stand_ins,
        )

    def _held_slots(self) -> Slots:
        """Return the state of the optimizers, made when first asked for."""
        if self._slots is None:
            self._slots = Slots(self._graph, self._setup.session.values)
        return self._slots

    # -- running ---------------------------------------------------------------------------------

    def run(
        self, phase: Phase, feeds: Feeds, numbers: Fed, number: int, watching: bool = False
    ) -> Any:
        """Run a phase and commit it if it is finite; return what it fetches."""
        run = phase.prepared(self._setup.session, watching)
        if numbers != (held := self._fed)[0]:
            known = dict(zip(*held, strict=True))  # of a schedule's, the others stay
            self._fed = numbers, [known[n] if n in known else np.array(n) for n in numbers]
        return run.on([*map(feeds.__getitem__, phase.needed), *self._fed[1]], number)

    def take(
        self,
        phase: Phase,
        feeds: Feeds,
        numbers: Fed,
        number: int,
        *,
        watching: bool = False,
    ) -> Outcome:
        """Run a phase and commit it if it is finite; with ``watching`` fetch the gradients, too."""
        finite, norm, *measured = self.run(phase, feeds, numbers, number, watching)
        if not watching:
            return Outcome(bool(finite), float(norm), measured, {})
        count = len(measured) - len(phase.grads)
        grads = dict(zip(phase.grads, measured[count:], strict=True))
        return Outcome(bool(finite), float(norm), measured[:count], grads)

    def take_many(
        self,
        step: StepGraph,
        batches: Sequence[Feeds],
        numbers: Sequence[Fed],
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
            run = self._setup.session.prepare(
                unrolled.fetches,
                unrolled.feeds,
                unrolled.updates,
                training=True,
                commit_if=unrolled.finite,
            )
            held = self._unrolled[key] = unrolled, run
        unrolled, run = held
        seed = self._setup.session.seed
        try:
            found = run(*unrolled.arrays(batches, numbers, seed, number), step=number)
        except IdError:  # a single step knows which batch it is of
            return None
        outcomes = [Outcome(bool(f), float(n), m, {}) for f, n, *m in found]
        return outcomes if skip or all(o.finite for o in outcomes) else None

    # -- state -----------------------------------------------------------------------------------

    def empty(self) -> None:
        """Forget the sums of a window that was begun."""
        if self._slots is not None:
            self._slots.empty(SUMS, WINDOW)

    def state_dict(self) -> dict[str, Array]:
        """Return the state that the next step finds; where it cannot be built, all there is."""
        if self._slots is None:
            return {}
        try:
            movers = self._movers()
        except TrainingError:
            movers = {}
        return self._slots.arrays(movers, _prefixes(self._setup.config))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over saved state of a step, all or none; the next one is built anew."""
        config = self._setup.config
        if config.accumulation or config.averages or config.fp8:
            self.current()  # it knows what else belongs to a step
        found = {v.name: optimizer for v, optimizer in self._movers().items()}
        self._held_slots().load(
            state, lambda name: found.get(name, config.optimizer), self._beside(config)
        )
        self._step = None

    def held(self) -> dict[str, Any] | None:
        """Return what ``put_back`` goes back to, with the values of that moment."""
        return None if self._slots is None else self._slots.held()

    def put_back(self, held: dict[str, Any] | None, values: Mapping[str, Array]) -> None:
        """Have the state that there was; the next step is built anew."""
        if self._slots is not None:
            self._slots.put_back(held or {"specs": {}, "counts": {}, "others": {}}, values)
        self._step = None

    def _movers(self) -> dict[Tensor, Optimizer]:
        """Return the optimizer of each variable that may be trained."""
        config = self._setup.config
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

    # -- averages of the weights -----------------------------------------------------------------

    def averages(self, name: str) -> dict[str, Array]:
        """Return the average of each variable that has one, in the variable's dtype.

        ``name`` is that of a configured average, or ``"optimizer"`` for those optimizers keep.
        Before the first update that counts there is none: the weights stand for themselves.
        """
        self.current()
        scope, values = self._held_slots().scope, self._setup.session.values
        held = self._averaged(name)
        if name != "optimizer" and not values.array(f"{scope}/averaging/{name}/counted"):
            held = {}
        found = {v: values[f"{scope}/{n}"] for v, n in held.items() if f"{scope}/{n}" in values}
        return {
            v.name: rounded(a, v.dtype) if a.shape == v.shape else a.view(v.dtype)[..., 0]
            for v, a in found.items()  # a complex variable's may be in pairs
        }

    def averaging(self, name: str) -> dict[str, Array]:
        """Return the state that an average is made of; ``restore_averaging`` goes back to it."""
        scope, values = self._held_slots().scope, self._setup.session.values
        counters = [f"averaging/{name}/{counter}" for counter in ("seen", "counted")]
        names = [*counters, *self._averaged(name).values()]
        return {n: values[f"{scope}/{n}"] for n in names if f"{scope}/{n}" in values}

    def restore_averaging(self, held: Mapping[str, Array]) -> None:
        """Go back to what ``averaging`` returned."""
        scope = self._held_slots().scope
        self._setup.session.values.restore({f"{scope}/{n}": array for n, array in held.items()})

    def _averaged(self, name: str) -> dict[Tensor, str]:
        """Return how the state calls the average of each variable that may have one."""
        if name == "optimizer":
            return {v: f"{v.name}/{o.average}" for v, o in self._movers().items() if o.average}
        return {v: f"averaged/{name}/{v.name}" for v in self._graph.variables}

    def counted(self, name: str) -> int:
        """Return how many updates have counted in an average."""
        slots, values = self._slots, self._setup.session.values
        counter = "" if slots is None else f"{slots.scope}/averaging/{name}/counted"
        return int(values.array(counter)) if counter in values else 0


def _prefixes(config: TrainingConfig) -> tuple[str, ...]:
    """Return what the names of state begin with that is no optimizer's."""
    found = [] if config.accumulation is None else [SUMS, WINDOW]
    found += [] if config.fp8 is None else ["fp8/"]
    return *found, *(f"{kind}/{name}/" for name in config.averages for kind in AVERAGED)
