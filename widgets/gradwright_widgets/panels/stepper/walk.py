"""The stepper behind a panel: made when it is first needed, walked, edited, told to the page."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwright import Node, Stepper, Tensor, gradients
from gradwright.debug import Origin
from gradwright.errors import GraphError
from gradwright.graph import coerce
from gradwright.spec import TensorSpec, is_floating

from ...drawing.values import plain
from ...host.desk import Feeds, feeds_text
from ...host.pace import MESSAGES_PER_SECOND
from ..graph.twins import trained
from ..tensor.sheet import spec_text
from . import facts
from .display import StepDisplay

if TYPE_CHECKING:
    from .panel import StepPanel

Array = np.ndarray[Any, Any]
Poll = Callable[[], bool]

PROGRESS = 0.2
"""Seconds between two signs of life of a run in the background."""
BURST = 60
"""Moves that are shown one by one before a loop that makes more is shown 20 times a second."""
_MOST_CHANGES = 200  # nodes compared before and after a rerun
_PATIENCE = 10.0  # seconds that a cell waits for the end of a training step


class Walk:
    """What a panel does with its stepper; it shows in the panel's traits whatever was done."""

    def __init__(self, panel: StepPanel, fetches: Any, training: bool | None) -> None:
        self.panel, self.training = panel, training
        self.fetches = None if fetches is None else names(fetches)
        self.feeds: Feeds | None = None
        """What was given to begin with; None means the panel's example."""
        self.stepper: Stepper | None = None
        self.display = StepDisplay(panel)
        self.running = False
        self._pace = panel.widget.paced(self.show)
        self._credit, self._last_move = float(BURST), time.monotonic()
        self._work = panel.widget.background("stepper")
        self._begun = 0, 0  # revision of the graph and steps of the trainer
        self._source = ""
        self._edited: dict[Tensor, facts.Row] = {}

    # -- beginning -------------------------------------------------------------------------------

    def ready(self) -> Stepper:
        """Return the stepper, made now if this is the first time it is needed."""
        return self.stepper if self.stepper is not None else self.begin()

    def begin(self) -> Stepper:
        """Make the stepper anew, between two steps if training runs: gradients are new nodes."""
        self.check_free()
        made: list[Stepper] = []
        failed: list[Exception] = []
        ended = threading.Event()

        def make() -> None:
            try:
                made.append(self._make())
            except Exception as error:
                failed.append(error)
            ended.set()

        self.panel.desk.commands.submit(make)
        if not ended.wait(_PATIENCE):
            raise GraphError("training does not reach the end of a step", hint="pause it first")
        if failed:
            raise failed[0]
        return made[0]

    def _make(self) -> Stepper:
        panel, trainer = self.panel, self.panel.desk.trainer
        training = trainer is not None if self.training is None else self.training
        feeds = panel.desk.example_feeds() if self.feeds is None else self.feeds
        done = 0 if trainer is None else trainer.steps_done
        made = Stepper(
            panel.desk.graph,
            self._targets(),
            feeds,
            training=training,
            values=None if trainer is None else trainer.values,
            seed=0 if trainer is None else trainer.seed,
            step=done,
        )
        if self.stepper is not None:
            made.adopt(self.stepper)
            panel.desk.changes.forget_of(self.stepper)
        self._source = feeds_text(feeds) or "no feeds"
        self._source += f" · after step {done:,}" if trainer is not None else ""
        self._source += " · training mode" if training else " · evaluation mode"
        self._begun = panel.desk.graph.revision, done
        self.stepper, self.display.chosen, self._edited = made, None, {}
        moved = weakref.WeakMethod(self._moved)
        made.listen(lambda: (tell := moved()) and tell())
        panel.reruns = {}
        self.show()
        return made

    def _targets(self) -> list[Tensor]:
        graph = self.panel.desk.graph
        if self.fetches is not None:
            return [graph[name] for name in self.fetches]
        desk = self.panel.desk
        loss = desk.loss_tensor()
        if not is_floating(loss.dtype) or loss.shape:  # an output that is no loss
            return [loss]
        return [loss, *gradients(loss, trained(desk, loss))]

    def check_free(self) -> None:
        """Raise GraphError while a run in the background goes on."""
        if self.running:
            raise GraphError("the stepper is running", hint="stop it first")

    # -- walking ---------------------------------------------------------------------------------

    def start(self, walk: Callable[[Stepper, Poll], object]) -> None:
        """Run in the background; ``walk`` gets the stepper and what tells it to stop."""
        self.check_free()
        stepper = self.ready()
        self._work.join()  # the last run has said that it ended, and is about to
        self.running = True

        def task(stop: threading.Event) -> None:
            due = time.monotonic() + PROGRESS

            def poll() -> bool:
                nonlocal due
                if time.monotonic() > due:
                    due = time.monotonic() + PROGRESS
                    top = stepper.levels[0]
                    progress = {"position": top.position, "count": len(top.steps)}
                    state = {**self.panel.stepping, "mode": "running", "progress": progress}
                    self.panel.stepping = state
                return stop.is_set()

            try:
                self.attempt(lambda: walk(stepper, poll))
            finally:
                self.running = False
                self.show()

        self._work.start(task)

    def stop(self) -> None:
        """Ask the run in the background to stop before the next op."""
        self._work.stop()

    def join(self) -> None:
        """Wait until the run in the background has ended."""
        self._work.join()

    def attempt(self, action: Callable[[], object]) -> None:
        """Do it; the error of an op that failed is shown where the op is."""
        try:
            action()
        except Exception as error:
            ended = None if self.stepper is None else self.stepper.last_stop
            if ended is None or ended.error is not error:
                raise

    def find(self, stepper: Stepper, stop: Poll) -> Origin | None:
        """Run to the end, and show and return where the first NaN or Inf comes from."""
        origin = stepper.find_nonfinite(stop=stop)
        ended = stepper.last_stop
        if ended is not None and ended.reason == "end":
            text = "No NaN or Inf anywhere." if origin is None else str(origin)
            around = None if origin is None else self.node(str(origin.address).partition(":")[0])
            self.display.found = ended, text, around
        self.show()
        return origin

    def node(self, name: str) -> Node:
        """Return a node of this level by name; of the graph, if there is none here."""
        for node in self.stepper.frame.steps if self.stepper is not None else ():
            if node.name == name:
                return node
        return self.panel.desk.graph[name].node

    def address(self, name: str) -> str:
        """Return the address that a name of this level has, else the name."""
        frame = self.ready().frame
        node = frame.named(name)
        return name if node is None else frame.path(node)

    def look(self, node: Node) -> None:
        """Show the values at a node until the stepper moves."""
        self.display.chosen = node
        self.show()

    # -- editing ---------------------------------------------------------------------------------

    def edit(self, name: str, value: Any, index: Any, scale: float | None) -> list[str]:
        """Replace a value, elements of it, or scale it; remembers what it was."""
        self.check_free()
        stepper = self.ready()
        with stepper.hold(), self.panel.widget.hold_sync():
            held = stepper.value(name)
            if scale is not None:
                value = _scaled(held, scale, name)
            else:
                value = _read(value, name)
                if index != ():
                    value = _put(held, index, value, name)
                elif value.ndim == 0 and held.ndim:
                    value = np.full(held.shape, value)
            was = facts.row_of(-1, held)
            affected = stepper.edit(name, value)
            tensor = stepper.tensor(name)
            was[0] = stepper.frame.index.get(tensor.node, -1)
            self._edited.setdefault(tensor, was)
        return affected

    def rerun(self) -> int:
        """Run again what depends on edits; says how many nodes ran and what they held before."""
        self.check_free()
        stepper, panel = self.ready(), self.panel
        with stepper.hold(), panel.widget.hold_sync():
            frame = stepper.frame
            nodes = [n for n in stepper.pending if n.public][:_MOST_CHANGES]
            before = {n: frame.value(n.public[0]) for n in nodes}
            results = {t: _scalar(stepper, t) for t in stepper.fetches}
            ran = stepper.rerun()
            rows = [row for row in self._edited.values() if row[0] >= 0]
            rows += [
                facts.row_of(frame.index[node], old)
                for node, old in before.items()
                if frame.value(node.public[0]).tobytes() != old.tobytes()
            ]
            text = f"{ran:,} {'node' if ran == 1 else 'nodes'} ran again"
            for tensor, was in results.items():
                now = _scalar(stepper, tensor)
                if was is not None and now is not None:
                    text += f" · {tensor.name} {was:.6g} → {now:.6g}"
            self._edited = {}
            panel.reruns = {
                "level": self.display.level(frame),
                "position": frame.position,
                "text": text,
                "before": rows,
            }
        return ran

    # -- telling ---------------------------------------------------------------------------------

    def _moved(self) -> None:
        """Show a move at once, unless code makes hundreds of them in a row."""
        now = time.monotonic()
        earned = (now - self._last_move) * MESSAGES_PER_SECOND
        self._credit, self._last_move = min(BURST, self._credit + earned), now
        if self._credit >= 1:
            self._credit -= 1
            self.show()
        else:
            self._pace.request()

    def show(self) -> None:
        """Bring the traits up to date; called in the thread that moved the stepper."""
        stepper = self.stepper
        if stepper is None:
            self.panel.stepping = self.idle()
        elif not self.running:
            with ExitStack() as stack:
                try:
                    stack.enter_context(stepper.hold())
                except GraphError:  # another thread moves it, and will show where it went
                    return
                self.display.show(stepper, self._source, self._stale())

    def _stale(self) -> str:
        """Say what has changed since this run began."""
        revision, done = self._begun
        trainer = self.panel.desk.trainer
        if self.panel.desk.graph.revision != revision:
            return "The graph has changed since this run began."
        if trainer is not None and trainer.steps_done != done:
            return f"Training has gone on to step {trainer.steps_done:,}."
        return ""

    def idle(self) -> dict[str, Any]:
        """Return the state before the first command: ready to begin, or what is missing."""
        panel = self.panel
        known = "g, trainer" if panel.desk.trainer is not None else "g"
        fed = ", ".join(f'"{t.name}": ...' for t in panel.desk.graph.placeholders)
        feeds = f", feeds={{{fed}}}" * bool(fed)
        try:
            loss = "" if self.fetches else panel.desk.loss_tensor().name
        except GraphError:
            code = f'{type(panel.widget).__name__}({known}, loss="loss"{feeds})'
            return {"mode": "empty", "say": "Name what to step to:", "code": code}
        if panel.desk.trainer is None and loss:
            known += f", loss={loss!r}"
        try:
            if self.feeds is None and not panel.desk.makes_feeds:
                panel.desk.example_feeds()
        except GraphError:
            specs = ", ".join(f"{t.name}: {t.spec}" for t in panel.desk.graph.placeholders)
            wish = "Train one step first, or give" if panel.desk.trainer is not None else "Give"
            say = f"{wish} an example to step through ({specs}):"
            return {
                "mode": "empty",
                "say": say,
                "code": f"{type(panel.widget).__name__}({known}{feeds})",
            }
        return {"mode": "idle", "say": ""}


def names(fetches: Any) -> list[str]:
    """Return names of fetches: a cell that runs again replaces the tensors."""
    chosen = fetches if isinstance(fetches, (list, tuple)) else [fetches]
    return [str(getattr(f, "name", f)) for f in chosen]


def _read(value: Any, name: str) -> Array:
    try:
        return np.asarray(value)
    except ValueError as error:  # rows of different lengths
        raise GraphError(f"{name!r} cannot become that: {error}") from None


def _scaled(held: Array, scale: float, name: str) -> Array:
    with np.errstate(all="ignore"):
        exact = np.asarray(held) * scale
        new = exact.astype(held.dtype)
    if held.dtype.kind in "iu" and not np.array_equal(new, np.trunc(exact)):
        raise GraphError(f"{scale:g} times {name!r} does not fit into {spec_text(held)}")
    return new


def _put(held: Array, index: Any, value: Array, name: str) -> Array:
    """Return a copy with some elements changed."""
    new = np.array(held)
    piece = coerce(value, TensorSpec(value.shape, held.dtype), f"the value of {name!r}")
    try:
        new[index] = piece
    except (IndexError, ValueError, TypeError, OverflowError) as error:
        raise GraphError(
            f"cannot change {name!r} there: {error}", need=f"an index into {spec_text(held)}"
        ) from None
    return new


def _scalar(stepper: Stepper, tensor: Tensor) -> float | None:
    frame = stepper.levels[0]
    if not frame.is_known(tensor):
        return None
    array = plain(frame.value(tensor))
    return float(array) if array.ndim == 0 else None
