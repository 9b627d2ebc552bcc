"""Buttons that start, pause, step and stop a training, and what it is doing."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import traitlets

from gradwright.errors import TrainingError
from gradwright.train import Callback, Record, Trainer
from gradwright.train.training import Training

from ...host.base import CLOSING
from ...host.desk import GraphDesk
from ...host.host import Host
from ...host.panel import Panel
from ...host.part import handles, shared, watches
from ..plot.panel import PlotPanel
from .checkpoints import CheckpointPanel
from .facts import LastSkip, training_facts
from .rate import RatePanel, rate_of, schedule_name, steps_of
from .recording import StartedRun, is_recorded

STATES = ("idle", "running", "paused", "stopped", "finished", "failed")
REPORTS_PER_SECOND = 5
TICK = 0.5
"""Seconds between two looks at a window that gathers batches, of which no callback is told."""


class TrainPanel(Panel):
    """The controls.

    Args:
        desk: where its trainer is found.
        data: what ``start`` trains on, as for ``Trainer.fit``; without it the panel still follows
            and pauses a training that code has started.
        validation: data to evaluate after each epoch.
    """

    name = "training"
    desk: GraphDesk

    state = shared(traitlets.Enum(STATES, STATES[0], help="What the training is doing."))
    training = shared(traitlets.Dict(help="Numbers of the present fit, or of the last one."))
    epochs = shared(traitlets.Int(10, min=1, max=1_000_000, help="Epochs that start trains."))
    batch_size = shared(traitlets.Int(32, min=1, help="Examples per step, for arrays."))
    record = shared(
        traitlets.Bool(True, help="Whether what start trains is recorded in a run folder.")
    )

    _own_thread = 0
    """The thread of a training that was started here."""

    def __init__(self, desk: GraphDesk, *, data: Any = None, validation: Any = None) -> None:
        super().__init__(desk)
        self._data, self._validation = data, validation
        self._telling = threading.RLock()
        self._train_pace = self.widget.paced(self._tell, REPORTS_PER_SECOND)
        self._here = self._single = False
        self._refused, self._skips = "", LastSkip()
        self._run: StartedRun | None = None
        self._work = self.widget.background("training")
        self._ticking = self.widget.background("following a window")
        desk.on("training", self._show)
        desk.on("planned", self._planned)

    @watches("epochs", "batch_size", "record")
    def begin(self) -> None:
        """Show the training as it is now."""
        self._tell()

    # -- control ---------------------------------------------------------------------------------

    @property
    def training_data(self) -> tuple[Any, Any]:
        """What ``start`` trains on, and what it is validated on; None where there is none."""
        return self._data, self._validation

    def start(self, epochs: int | None = None) -> None:
        """Train in the background, from where a stopped training was; a paused one goes on.

        Unless ``record`` is off or the trainer has a ``gw.Run``, it is recorded as by one: in a new
        folder of ``$GRADWRIGHT_RUNS`` or the user's data, in which later starts go on.

        Raises TrainingError without a trainer or data, and while a training runs.
        """
        if epochs is not None:
            self.epochs = epochs
        if self.desk.controlled().status == "paused":
            self.resume()
        else:
            self._begin_fit(None)

    def pause(self) -> None:
        """Ask the training to pause after the present step."""
        self.desk.controlled().pause()

    def resume(self) -> None:
        """Let a paused training go on."""
        self.desk.controlled().resume()

    def step_once(self) -> None:
        """Take one step, of the paused training or from where the last one ended."""
        trainer = self.desk.controlled()
        if trainer.status == "paused":
            trainer.resume(steps=1)
        else:
            self._begin_fit(1)

    def stop(self) -> None:
        """Ask the training to end after the present step; ``start`` goes on from there."""
        self.desk.controlled().stop()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until a training that was started here has ended."""
        self._work.join(timeout)

    def evaluate_with(self, weights: str | None) -> None:
        """Have the next validations see an average, ``"ema"`` or ``"swa"``; None: the weights.

        Raises TrainingError for an average that the trainer does not keep.
        """
        trainer = self.desk.controlled()
        chosen = trainer.config.but(validate_with=weights or None).validate_with

        def command() -> None:
            trainer.config = trainer.config.but(validate_with=chosen)
            self._tell()

        self.desk.commands.submit(command)

    def _begin_fit(self, steps: int | None) -> None:
        trainer = self.desk.controlled()
        if self._data is None:
            raise TrainingError(
                "there is no data to train on here",
                hint='TrainerPanel(trainer, {"x": X, "t": y}), or trainer.fit(...) in a cell',
            )
        if self._work.busy and trainer.progress and trainer.progress.outcome != "running":
            self._work.join(CLOSING)  # it has ended, and is on its way out
        if trainer.status != "idle":
            raise TrainingError(f"the trainer is {trainer.status} already", hint="pause or stop it")

        def train(stop: threading.Event) -> None:
            self._own_thread = threading.get_ident()
            before, closing = trainer.progress, _Closing(stop)
            hooks = [closing] if recorder is None else [closing, recorder]
            for hook in hooks:
                trainer.add_callback(hook)
            try:
                trainer.fit(
                    self._data,
                    epochs=self.epochs,
                    batch_size=self.batch_size if isinstance(self._data, Mapping) else None,
                    validation=self._validation,
                    steps=steps,
                    progress=False,
                )
            except Exception as error:
                if trainer.progress is before:  # it did not come to a first step
                    self._refused = f"{type(error).__name__}: {error}"
                raise
            finally:
                for hook in hooks:
                    trainer.remove_callback(hook)
                self._own_thread = 0
                self._tell()
                self.desk.tell("trained")

        self._refused, self._single = "", steps is not None
        recorder = self._recorder(trainer, begins=steps is None)
        self._work.start(train)

    def _recorder(self, trainer: Trainer, *, begins: bool) -> StartedRun | None:
        """Return what records the next fit: a run that was begun here goes on, also by steps."""
        if not self.record or is_recorded(trainer):
            return None
        if begins and (self._run is None or not trainer.steps_done):
            self._run = StartedRun(self.widget.fail)
        return self._run

    def close(self) -> None:
        """End a training that was started here."""
        if self._own_thread:
            self.desk.controlled().stop()  # a paused one, too

    # -- messages --------------------------------------------------------------------------------

    @handles("start")
    def _on_start(self, _: Any) -> None:
        self.start()

    @handles("pause")
    def _on_pause(self, _: Any) -> None:
        self.pause()

    @handles("resume")
    def _on_resume(self, _: Any) -> None:
        self.resume()

    @handles("step")
    def _on_step(self, _: Any) -> None:
        self.step_once()

    @handles("stop")
    def _on_stop(self, _: Any) -> None:
        self.stop()

    @handles("evaluate")
    def _on_evaluate(self, content: dict[str, Any]) -> None:
        self.evaluate_with(content.get("weights"))

    # -- following the trainer -------------------------------------------------------------------

    def refresh(self) -> None:
        """Show the training as it is now."""
        self._tell()

    def training_began(self) -> None:
        """Note who began it."""
        self._here = threading.get_ident() == self._own_thread
        self._single &= self._here
        self._refused = self.widget.message = ""
        self._tell()
        if self.desk.controlled().window[1] > 1:
            self._ticking.join(CLOSING)
            self._ticking.start(self._tick)

    def _tick(self, stop: threading.Event) -> None:
        """Show how many batches a window has, until the training ends."""
        while not stop.wait(TICK):
            self._tell()

    def step_ended(self, record: Record) -> None:
        """Have the numbers shown, five times a second."""
        self._train_pace.request()

    def training_ended(self) -> None:
        """Show how it ended."""
        self._ticking.stop()
        self._tell()
        done = self.desk.controlled().progress
        if done is not None and done.outcome == "failed":
            self.widget.message = done.error.partition(": ")[2]

    def training_paused(self) -> None:
        """Show that it is paused."""
        self._tell()

    def training_resumed(self) -> None:
        """Show that it goes on."""
        self._tell()

    def _tell(self) -> None:
        self.desk.tell("training")

    def _show(self) -> None:
        with self._telling:  # what one thread has read must not be shown after what is newer
            self.training = self._facts()
            self.state = self._state_now()

    def _planned(self) -> int:
        window = self.desk.controlled().window[1]
        return steps_of(self._data, self.epochs, self.batch_size, window)

    def _facts(self) -> dict[str, Any]:
        trainer = self.desk.trainer
        if trainer is None:
            return {"trainer": False, "data": False}
        return {
            "trainer": True,
            "data": self._data is not None,
            "here": self._here,
            "run": "" if self._run is None else str(self._run.folder),
            "rate": rate_of(trainer),
            "schedule": schedule_name(trainer.optimizer.learning_rate),
            "aside": schedule_name(self.desk.ask("aside")),
            **training_facts(trainer, self._refused, self._skips),
        }

    def _state_now(self) -> str:
        trainer = self.desk.trainer
        done = None if trainer is None else trainer.progress
        if self._refused:
            return "failed"
        if trainer is None or done is None:
            return "idle"
        if trainer.status == "paused":
            return "paused"
        if self._own_thread and trainer.status == "running":
            return "running"  # also while callbacks hear of its end: no cell could train yet
        if done.outcome == "terminated" or (self._single and done.outcome == "finished"):
            return "stopped"
        return str(done.outcome)


class _Closing(Callback):
    """Ends the fit of this thread once ``stop`` is set, be it just before the fit begins."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop, self._thread = stop, threading.get_ident()

    def on_fit_start(self, trainer: Training) -> None:
        """Stop a fit that came too late."""
        if self._stop.is_set() and self._thread == threading.get_ident():
            trainer.stop()

    def on_step_end(self, trainer: Training, record: Record) -> None:
        """Stop between two steps."""
        self.on_fit_start(trainer)


class TrainerPanel(Host):
    """Start, pause, single step, stop, learning rate and progress of a trainer, over its curves.

    Training that is started here runs in the background, so the notebook stays free and every
    button is heard at once. Everything can be done from code as well, with the same effect.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=2.0)
    >>> trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(0.25))
    >>> panel = TrainerPanel(trainer, [{}, {}], epochs=3)
    >>> panel.step_once(); panel.wait(); panel.state, trainer.steps_done
    ('stopped', 1)
    >>> panel.start(); panel.wait(); panel.state, trainer.epochs_done
    ('finished', 3)
    """

    module = "trainer_panel"
    panels = (RatePanel, CheckpointPanel, TrainPanel, PlotPanel)
    height = traitlets.Int(520, min=240, max=4000, help="Height in pixels.").tag(sync=True)

    def __init__(self, trainer: Trainer, data: Any = None, validation: Any = None, **options: Any):
        if not isinstance(trainer, Trainer):
            raise TypeError(f"TrainerPanel controls a gradwright.Trainer, got {trainer!r}")
        super().__init__(trainer.graph, trainer, data=data, validation=validation, **options)
