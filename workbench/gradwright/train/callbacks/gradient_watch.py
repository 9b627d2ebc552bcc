"""GradientWatch: a gradient check that goes on beside a training, for a share of its time."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...debug.arguments import EVERY, FLAG, FRACTION, FUNCTION, HOOK, SEED, SHARE
from ...debug.live.points import Alarm, Point, columns
from ...debug.live.program import Sight
from ...debug.live.seen import Seen
from ...debug.live.turns import Aftermath, Purse
from ...debug.live.watch import Watch
from ...errors import TrainingError
from ...graph import Variable, ancestors
from ...op import redefinitions
from ...words.jsonable import from_json_array, json_array
from ...words.tables import Table, Tabular
from ..history import Record
from ..training import Training
from .base import Recorder
from .stopping import Stopping

if TYPE_CHECKING:
    import plotly.graph_objects as go

PAUSE = 0.002
"""Seconds after which the training goes on, whatever is left to spend; a slice is finished."""
PART = 0.1
"""The same, as a part of the step before, for long steps."""
OFTEN, MOST_STEPS = 5e-4, 16
"""Seconds after which it looks at the clock again, or so many steps: small ones may take less time
than that does."""
PATIENCE = 10.0
"""Seconds in which a look that ``every`` asks for has to be found."""
NOTED = 64
"""Points that are noted in a run as one event."""
EVENT, ALARM = "gradients", "gradient_alarm"
"""Names of the events of a run."""


@dataclass(frozen=True)
class Cost:
    """What a watch has taken and done."""

    seconds: float
    """In looks, in telling of them, and in the steps after them, which are slower."""
    share: float
    """Of the time of the training without it."""
    largest: float
    """Seconds of the longest slice: how long it may keep a step waiting."""
    nodes: int
    """Looks at nodes."""
    elements: int
    """Looks at elements and directions of parameters."""
    rounds: int
    """How often all nodes have had their turn."""


class GradientWatch(Tabular, Stopping):
    """Checks gradients while a graph trains, and says when and where one is wrong.

    Between two steps it looks at one node or one element of a parameter after the other, all in
    turn, at the values of the training, some rows of its latest batch, and with the random numbers
    of the step held. A node's vjp stands beside differences of its own forward, a parameter's
    gradient beside those of the loss, in float64, as in :func:`gradwright.gradient_check`. What
    fails is looked at again, with other numbers, before there is an alarm: a warning, unless
    ``on_alarm`` or ``stop`` is given. An op that is defined anew, as by running its cell again, is
    looked at first, and ops of yours more often than others.

    The numbers of the training stay the same, bit for bit. It works in slices of a node or an
    element, and stops after 2 ms, or a tenth of a step; ``cost`` has the longest slice. How soon
    all nodes have had their turn depends on the budget: their looks take some hundred times as long
    as a small step, so it is a matter of seconds, not of steps; ``every`` bounds it by steps.

    Args:
        budget: which part of the time of the training it may take, on average.
        every: at least one look in so many steps, whatever it takes; None for none.
        rtol: relative difference that passes, as of a gradient check.
        stop: whether an alarm ends ``fit``; ``reason`` says so. Calling ``fit`` again goes on.
        on_alarm: called with each :class:`Alarm`, in the thread that trains, such as
            ``lambda alarm: trainer.pause()``.
        precision: look at the compiled plan, too: in each turn at one node, beside float64 on the
            inputs that it got. It gives no alarm; :func:`gradwright.debug.precision` tells more.
        seed: of the choice of nodes and elements, and of directions.

    Raises TrainingError for arguments out of range. It can be read from other threads.

    >>> import gradwright as gw, numpy as np
    >>> cube = gw.define_op("doc/cube", lambda x: x**3, vjp=lambda g, y, x: g * x**2)
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (None, 2))
    >>> loss = gw.mean(cube(x @ g.variable("w", (2, 1), init=0.5), name="third"), name="loss")
    >>> watch = gw.GradientWatch(every=1, stop=True)
    >>> trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.01), callbacks=[watch])
    >>> history = trainer.fit([{"x": np.ones((8, 2), "f4")}], epochs=9, progress=False)
    >>> watch.alarm.address, trainer.progress.outcome
    ('third', 'stopped')
    >>> watch.alarm.text.partition("its ")[2]
    'vjp for x is 0.33333 times what it should be'
    """

    def __init__(
        self,
        budget: float = 0.02,
        *,
        every: int | None = None,
        rtol: float = 1e-5,
        stop: bool = False,
        on_alarm: Callable[[Alarm], object] | None = None,
        precision: bool = False,
        seed: int = 0,
    ) -> None:
        SHARE.check(TrainingError, budget=budget)
        EVERY.check(TrainingError, every=every)
        FRACTION.check(TrainingError, rtol=rtol)
        FLAG.check(TrainingError, stop=stop, precision=precision)
        HOOK.check(TrainingError, on_alarm=on_alarm)
        SEED.check(TrainingError, seed=seed)
        self.budget, self.every, self.rtol, self.stop = budget, every, rtol, stop
        self.on_alarm, self.precision, self.seed = on_alarm, precision, seed
        self.state = "idle"
        """``"idle"`` outside of a fit, ``"watching"``, or ``"alarm"`` after one."""
        self.version = 0
        """A number that grows with everything it has seen."""
        self._listeners: tuple[Callable[[GradientWatch], object], ...] = ()
        self._since, self._counted, self._waits = 0.0, 0, 0
        """When the clock was looked at, at which step, and how many steps it is left alone."""
        self.forget()

    def forget(self) -> None:
        """Forget all that was seen."""
        self._watch = Watch(rtol=self.rtol, seed=self.seed, precision=self.precision)
        self._purse, self._aftermath, self._has_looked = Purse(self.budget), Aftermath(), False
        self._work: Iterator[Point | None] | None = None
        self._seen: Any = None  # state of graph and ops that the work began with
        self._largest = 0.0
        self._looked, self._told = 0, 0  # the step of the latest look; alarms that were told
        self._unnoted: list[Point] = []
        self._excused = False

    # -- what it has seen ------------------------------------------------------------------------

    @property
    def seen(self) -> Seen:
        """Points and alarms."""
        return self._watch.seen

    @property
    def points(self) -> tuple[Point, ...]:
        """What was seen, by step; of many, neighbours are merged and the worse one stays."""
        return self.seen.points

    @property
    def worst(self) -> Point | None:
        """The point that is the furthest above its noise."""
        return self.seen.worst

    @property
    def alarm(self) -> Alarm | None:
        """The first gradient that was wrong, confirmed; None as long as all is well."""
        return self.seen.alarm

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """All of them: one for each node, or for a parameter where every node is right."""
        return tuple(self.seen.alarms)

    @property
    def cost(self) -> Cost:
        """What it has taken, and done for it."""
        purse, counts = self._purse, self._watch.counts
        share = purse.spent / purse.others if purse.others else 0.0
        return Cost(
            purse.spent, share, self._largest, counts.nodes, counts.elements, self._watch.rounds
        )

    def table(self) -> Table:
        """Return a row for each node and parameter that was seen, the worst first."""
        return self.seen.table()

    def plot(self) -> go.Figure:
        """Return a figure: the error of each look over the steps, the noise, and the alarms."""
        return self.seen.plot()

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as what JSON can hold."""
        return {"state": self.state, **self.seen.to_dict(), "cost": asdict(self.cost)}

    def listen(self, fn: Callable[[GradientWatch], object]) -> Callable[[], None]:
        """Call ``fn(watch)`` in the thread that trains when there is news; return what ends it."""
        FUNCTION.check(TrainingError, fn=fn)
        self._listeners = (*self._listeners, fn)

        def end() -> None:
            self._listeners = tuple(f for f in self._listeners if f is not fn)

        return end

    def __repr__(self) -> str:
        cost = self.cost
        return (
            f"<GradientWatch {self.state}: {self.seen.summary()}; {cost.nodes} nodes, "
            f"{cost.elements} elements, {cost.rounds} rounds, {100 * cost.share:.1f} % of the time>"
        )

    # -- what the trainer calls ------------------------------------------------------------------

    def on_fit_start(self, trainer: Training) -> None:
        """Begin, or go on."""
        super().on_fit_start(trainer)
        self._since = time.perf_counter()
        self._looked = self._counted = trainer.steps_done
        self._waits = 0
        self.state = "alarm" if self.alarm else "watching"
        self._tell()

    def on_step_end(self, trainer: Training, record: Record) -> None:
        """Earn the share of what the step took, and spend it."""
        self._waits -= 1
        if self._waits > 0:
            return
        if self.state == "idle":  # it has joined in the midst of a fit, or there is none
            self.on_fit_start(trainer)
            self._looked = self._counted = record.step - 1
        now = time.perf_counter()
        took, steps = now - self._since, max(1, record.step - self._counted)
        later = self._aftermath.of(took, steps=steps, is_after=self._has_looked)
        self._purse.spend(later)
        self._purse.earn(took - later)
        each, self._has_looked = took / steps, False
        if self._is_due(trainer, record.step):
            self._has_looked = True
            self._go_on(trainer, record.step, now + max(PAUSE, PART * each))
            now = time.perf_counter()
        self._since, self._counted = now, record.step
        self._waits = min(int(OFTEN / max(each, 1e-9)), self.every or MOST_STEPS, MOST_STEPS)

    def on_epoch_end(self, trainer: Training, record: Record) -> None:
        """Have the run keep what was seen so far."""
        self._note(trainer)

    def on_pause(self, trainer: Training) -> None:
        """Have the run keep what was seen so far."""
        self._note(trainer)

    def on_resume(self, trainer: Training) -> None:
        """Count from now on: a pause earns nothing."""
        self._since = time.perf_counter()

    def on_fit_end(self, trainer: Training) -> None:
        """Rest; another fit goes on from here."""
        self._note(trainer)
        self.state = "idle"
        self._tell()

    def _is_due(self, trainer: Training, step: int) -> bool:
        purse = self._purse
        if purse.may_spend or (self.every is not None and self._is_overdue(step)):
            return True
        if self._seen == (trainer.graph.revision, redefinitions()) and not self._watch.is_urgent:
            return False
        return purse.has_put_by

    def _is_overdue(self, step: int) -> bool:
        return self.every is not None and step >= self._looked + self.every

    def _go_on(self, trainer: Training, step: int, until: float) -> None:
        """Do one slice after the other, as long as there is time."""
        before = time.perf_counter()
        seen = trainer.graph.revision, redefinitions()
        if self._work is None or self._seen != seen:
            self._work, self._seen = self._watch.work(self._sight), seen
        version = self.version
        try:
            with np.errstate(all="ignore"):
                while True:
                    found = next(self._work)
                    if found is not None:
                        self._take(found, step)
                    after = time.perf_counter()
                    self._spend(after - before)
                    before = after
                    if self._is_overdue(step) and after < until + PATIENCE:
                        continue
                    if after > until or not self._is_due(trainer, step):
                        break
        except Exception as error:
            self._work, self._looked = None, step
            self._spend(time.perf_counter() - before)
            self._excuse(error)
        except BaseException:
            self._work = None
            raise
        if len(self._unnoted) >= NOTED:
            self._note(trainer)
        self._alert(trainer)
        if self.version != version:
            self._tell()

    def _sight(self) -> Sight:
        """Return the moment after the latest step."""
        trainer = None if self._trainer is None else self._trainer()
        assert trainer is not None  # who calls a hook is there
        loss = trainer.loss
        nodes = ancestors([loss])
        members = {t for n in nodes for t in n.outputs}
        return Sight(
            step=trainer.steps_done,
            loss=loss,
            parameters=[p for p in trainer.parameters if p in members],
            values=trainer.values.snapshot(n.name for n in nodes if isinstance(n.op, Variable)),
            feeds={t: a for t, a in trainer.last_feeds.items() if t in members},
            seed=trainer.session.seed,
            key=trainer.batches_taken - 1,
        )

    @contextlib.contextmanager
    def _charged(self) -> Iterator[None]:
        """Spend what something takes that is no look."""
        began = time.perf_counter()
        yield
        self._purse.spend(time.perf_counter() - began)

    def _spend(self, seconds: float) -> None:
        self._largest = max(self._largest, seconds)
        (self._purse.pay if self._watch.is_urgent else self._purse.spend)(seconds)

    def _take(self, found: Point, step: int) -> None:
        self.version += 1
        self._looked = step
        self._unnoted.append(found)

    def _alert(self, trainer: Training) -> None:
        """Tell of alarms that nobody has been told of."""
        while self._told < len(self.seen.alarms):
            alarm = self.seen.alarms[self._told]
            self._told += 1
            self.state = "alarm"
            self._note(trainer)
            for recorder in _recorders(trainer):
                recorder.note(ALARM, **alarm.to_dict())
            if self.on_alarm is not None:
                self.on_alarm(alarm)
            if self.stop:
                self.end(trainer, f"step {alarm.step}: {alarm.text}")
            elif self.on_alarm is None:  # or nobody would hear of it
                warnings.warn(f"step {alarm.step}: {alarm.text}", stacklevel=2)

    def _excuse(self, error: Exception) -> None:
        """Say once that something cannot be computed; the training goes on."""
        if not self._excused:
            self._excused = True
            warnings.warn(f"the gradients cannot be watched: {error}", stacklevel=2)

    def _note(self, trainer: Training) -> None:
        """Have the run keep the latest points."""
        points, self._unnoted = self._unnoted, []
        if points:
            with self._charged():
                for recorder in _recorders(trainer):
                    recorder.note(EVENT, **columns(points))

    def _tell(self) -> None:
        self.version += 1
        with self._charged():
            for fn in self._listeners:
                fn(self)

    # -- state -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return what was seen."""
        return {"seen": json_array(self.seen.to_dict())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict`` returned."""
        seen = Seen.from_dict(from_json_array(state["seen"]))
        self.forget()
        self._watch.go_on_from(seen)
        self._told = len(seen.alarms)
        self._trainer = None


def _recorders(trainer: Training) -> list[Recorder]:
    return [c for c in trainer.callbacks if isinstance(c, Recorder) and c.is_recording]
