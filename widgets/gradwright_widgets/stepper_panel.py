"""Execution node by node, forwards and backwards, beside the drawing."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import traitlets

from gradwright import Graph, Node, Stepper, Tensor, gradients
from gradwright.debug import Breakpoint, Expression, Origin, Stop
from gradwright.errors import GradwrightError, GraphError
from gradwright.graph import ancestors
from gradwright.spec import is_floating

from . import _step_facts as facts
from ._base import Message, handles
from ._bound import Feeds, GraphWidget
from ._still import html_table

Array = np.ndarray[Any, Any]

PROGRESS = 0.2
"""Seconds between two signs of life of a run in the background."""
_NEAR = 24  # rows sent after a jump, before anybody asks
_MOST_STOPS = 500  # names of nodes with a breakpoint that the drawing marks
_MOST_CHANGES = 200  # nodes compared before and after a rerun
_MOST_ROWS = 200  # of the static table
_PATIENCE = 10.0  # seconds that a cell waits for the end of a training step


class StepPanel(GraphWidget):
    """Traits and messages of the stepper; a widget that has them can show the stepper panel.

    Args:
        fetches: tensors or names to step to; default the loss and its gradients with respect to the
            trainable parameters, so that one walks forwards and backwards.
        training: whether ops such as dropout run as in training; default where there is a trainer.
    """

    current = traitlets.Unicode("", help="Path of the node that the stepper runs next.").tag(
        sync=True
    )
    stops = traitlets.List(traitlets.Unicode(), help="Names of nodes with a breakpoint.").tag(
        sync=True
    )
    stepping = traitlets.Dict(help="Where the stepper stands, and the values there.").tag(sync=True)
    reruns = traitlets.Dict(help="What the last rerun after an edit changed.").tag(sync=True)
    breakpoints = traitlets.List(
        traitlets.Dict(), help="Number, text, whether on, and hits of each breakpoint."
    ).tag(sync=True)
    watches = traitlets.List(
        traitlets.Dict(), help="Expression and value, or error, of each watch."
    ).tag(sync=True)

    def __init__(
        self,
        graph: Graph,
        trainer: Any = None,
        *,
        fetches: Any = None,
        training: bool | None = None,
        **options: Any,
    ) -> None:
        chosen = list(fetches) if isinstance(fetches, (list, tuple)) else [fetches]
        # By name: a cell that runs again replaces the tensors.
        self._fetches = None if fetches is None else [str(getattr(f, "name", f)) for f in chosen]
        self._training = training
        self._given: Feeds | None = None
        self._stepper: Stepper | None = None
        self._made: tuple[int, int] = (0, 0)
        self._source = ""
        self._levels: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._numbers = 0
        self._stood: Any = None
        self._look: Node | None = None
        self._found: tuple[Stop, str, Node | None] | None = None
        self._marked: Any = None
        self._edited: dict[Tensor, facts.Row] = {}
        self._running = False
        self._walk = self.background("stepper")
        super().__init__(graph, trainer, **options)
        self.stepping = self._idle()
        self.observe(lambda change: self._on_selected(), "selected")

    # -- the stepper -----------------------------------------------------------------------------

    @property
    def stepper(self) -> Stepper:
        """The stepper that is shown, made when it is first asked for.

        What is done to it shows at once. Raises GraphError if no loss or feeds are known.
        """
        if self._stepper is None:
            self.step_through(self._given)
        assert self._stepper is not None
        return self._stepper

    def step_through(
        self, feeds: Feeds | None = None, fetches: Any = None, *, training: bool | None = None
    ) -> Stepper:
        """Begin anew with other feeds or fetches, on the parameters as they are now.

        Breakpoints and watches stay. What is not given is as it was at first.
        """
        if fetches is not None:
            chosen = list(fetches) if isinstance(fetches, (list, tuple)) else [fetches]
            self._fetches = [self._graph[str(getattr(f, "name", f))].name for f in chosen]
        if training is not None:
            self._training = training
        self._given = feeds
        self._free()
        made: list[Stepper] = []
        failed: list[Exception] = []
        ready = threading.Event()

        def make() -> None:  # between two steps of a training: gradients are added to the graph
            try:
                made.append(self._make())
            except Exception as error:
                failed.append(error)
            ready.set()

        self.commands.submit(make)
        if not ready.wait(_PATIENCE):
            raise GraphError(
                f"training of {self._graph.name!r} does not reach the end of a step",
                hint="pause it first",
            )
        if failed:
            raise failed[0]
        return made[0]

    def step_last_batch(self) -> Stepper:
        """Step through what the trainer's last step was fed with."""
        if self._trainer is None or not self._trainer.last_feeds:
            raise GraphError("no batch has been trained on yet", hint="train one step first")
        return self.step_through(self._trainer.last_feeds)

    def value_of(self, name: str) -> Array | None:
        """Return a value that the stepper knows where it stands, or None."""
        try:
            return None if self._stepper is None else self._stepper.value(name)
        except GraphError:
            return None

    def _make(self) -> Stepper:
        trainer = self._trainer
        fetches = self._targets()
        feeds = self.example_feeds() if self._given is None else self._given
        training = trainer is not None if self._training is None else self._training
        done = 0 if trainer is None else trainer.steps_done
        made = Stepper(
            self._graph,
            fetches,
            feeds,
            training=training,
            values=None if trainer is None else trainer.values,
            seed=0 if trainer is None else trainer.seed,
            step=done,
        )
        if self._stepper is not None:
            made.adopt(self._stepper)
        shapes = (
            f"{getattr(key, 'name', key)} {'×'.join(map(str, np.shape(value))) or 'scalar'}"
            for key, value in feeds.items()
        )
        self._source = ", ".join(shapes) or "no feeds"
        self._source += f" · after step {done:,}" if trainer is not None else ""
        self._source += " · training mode" if training else " · evaluation mode"
        self._made = self._graph.revision, done
        self._stepper, self._look, self._stood = made, None, None
        self._edited, self.reruns = {}, {}
        known = weakref.WeakMethod(self._changed)
        made.listen(lambda: (method := known()) and method())
        self._changed()
        return made

    def _targets(self) -> list[Tensor]:
        if self._fetches is not None:
            return [self._graph[name] for name in self._fetches]
        loss = self.loss_tensor()
        reached = set(ancestors([loss]))
        wrt = [
            t
            for t in self._graph.variables
            if t.trainable and is_floating(t.dtype) and t.node in reached
        ]
        return [loss, *gradients(loss, wrt)] if is_floating(loss.dtype) else [loss]

    def _free(self) -> None:
        if self._running:
            raise GraphError("the stepper is running", hint="stop it first")

    # -- what a button does ----------------------------------------------------------------------

    def _walk_on(self, walk: Callable[[Stepper, Callable[[], bool]], object]) -> None:
        """Run in the background; ``walk`` gets the stepper and what tells it to stop."""
        self._free()
        stepper = self.stepper
        self._walk.join()  # its last run has said that it ended, and is about to
        self._running = True

        def task(stop: threading.Event) -> None:
            due = time.monotonic() + PROGRESS

            def poll() -> bool:
                nonlocal due
                if time.monotonic() > due:
                    due = time.monotonic() + PROGRESS
                    top = stepper.levels[0]
                    progress = {"position": top.position, "count": len(top.steps)}
                    self.stepping = {**self.stepping, "mode": "running", "progress": progress}
                return stop.is_set()

            try:
                walk(stepper, poll)
            finally:
                self._running = False
                self._changed()

        self._walk.start(task)

    def _find_in(self, stepper: Stepper, stop: Callable[[], bool]) -> Origin | None:
        origin = stepper.find_nonfinite(stop=stop)
        ended = stepper.last_stop
        if ended is not None and ended.reason == "end":
            text = "No NaN or Inf anywhere." if origin is None else str(origin)
            self._found = ended, text, None if origin is None else origin.node
        return origin

    @handles("stepper.move")
    def _on_move(self, content: dict[str, Any]) -> None:
        verb, name = content.get("verb"), content.get("name")
        if verb in ("run", "run_to", "into_gradient", "find"):
            target = self._named(name) if isinstance(name, str) and name else None
            self._walk_on(
                {
                    "run": lambda s, stop: s.run(stop=stop),
                    "run_to": lambda s, stop: s.run_to(_needed(target), stop=stop),
                    "into_gradient": lambda s, stop: s.into_gradient(target, stop=stop),
                    "find": self._find_in,
                }[verb]
            )
            return
        self._free()
        actions: dict[Any, Callable[[], object]] = {
            "step": lambda: self.stepper.step(),
            "back": lambda: self.stepper.back(),
            "into": lambda: self.stepper.into(),
            "out": lambda: self.stepper.out(),
            "reset": lambda: self.stepper.reset(),
            "rerun": self._rerun,
            "load": lambda: self.step_through(self._given),
            "last_batch": self.step_last_batch,
        }
        if verb in actions:
            self._attempt(actions[verb])

    @handles("stepper.stop")
    def _on_stop(self, _: Any) -> None:
        self._walk.stop()

    def _attempt(self, action: Callable[[], object]) -> None:
        """Do it; the error of an op that failed is shown where the op is."""
        try:
            action()
        except Exception as error:
            ended = None if self._stepper is None else self._stepper.last_stop
            if ended is None or ended.error is not error:
                raise

    @handles("stepper.look")
    def _on_look(self, content: dict[str, Any]) -> None:
        """Show a node of this level, or a tensor of it in the tensor view."""
        stepper = self.stepper
        tensor = content.get("tensor")
        if isinstance(tensor, str):
            show = getattr(self, "show_tensor", None)
            if show is not None:
                show(tensor)
            name = self._graph.get(tensor)
            if name is not None and not stepper.depth:
                self.selected = name.node.name
            return
        node = self._named(str(content.get("name")))
        if stepper.depth or self.selected == node.name:
            self._look_at(node)
        else:
            self.selected = node.name

    def _named(self, name: str) -> Node:
        """Return a node of this level by name; of the graph, if there is none here."""
        if self._stepper is not None:
            for node in self._stepper.frame.steps:
                if node.name == name:
                    return node
        return self._graph[name].node

    def _on_selected(self) -> None:
        stepper = self._stepper
        if stepper is None or self._running or not self.selected:
            return
        found = self._graph.get(self.selected)
        if found is not None and not stepper.depth:
            self._look_at(found.node)

    def _look_at(self, node: Node) -> None:
        self._look = node
        self._changed()

    # -- edits -----------------------------------------------------------------------------------

    def _edit(
        self, name: str, value: Any = None, *, index: Any = (), scale: float | None = None
    ) -> list[str]:
        self._free()
        stepper = self.stepper
        with stepper.hold():
            held = stepper.value(name)
            if scale is not None:
                new: Any = (np.asarray(held) * scale).astype(held.dtype)
            elif index != ():
                new = _put(held, index, value, name)
            else:
                new = value if np.ndim(value) or not held.ndim else np.full(held.shape, value)
            was = facts.row_of(-1, held)
            affected = stepper.edit(name, new)
            tensor = stepper.tensor(name)
            self._edited.setdefault(tensor, [stepper.frame.index.get(tensor.node, -1), *was[1:]])
        self._changed()
        return affected

    def _rerun(self) -> int:
        self._free()
        stepper = self.stepper
        with stepper.hold(), self.hold_sync():
            frame = stepper.frame
            nodes = [n for n in stepper.pending if n.public][:_MOST_CHANGES]
            before = {n: frame.value(n.public[0]) for n in nodes}
            results = {t: _scalar(stepper, t) for t in stepper.fetches}
            ran = stepper.rerun()
            changed = {frame.index[t.node]: row for t, row in self._edited.items() if row[0] >= 0}
            for node, old in before.items():
                if frame.value(node.public[0]).tobytes() != old.tobytes():
                    changed[frame.index[node]] = facts.row_of(frame.index[node], old)
            self._edited = {}
            text = f"{ran:,} {'node' if ran == 1 else 'nodes'} ran again"
            for tensor, old_value in results.items():
                now = _scalar(stepper, tensor)
                if old_value is not None and now is not None:
                    text += f" · {tensor.name} {old_value:.6g} → {now:.6g}"
            self.reruns = {
                "level": self._level(frame),
                "text": text,
                "before": [changed[k] for k in sorted(changed)],
            }
        return ran

    @handles("stepper.edit")
    def _on_edit(self, content: dict[str, Any]) -> None:
        name, how = str(content.get("name")), content.get("how")
        value = facts.parse_value(str(content.get("value", "")))
        if how == "scale":
            self._edit(name, scale=float(_needed_number(value)))
        elif how == "element":
            self._edit(name, value, index=facts.parse_index(str(content.get("index", ""))))
        else:
            self._edit(name, value)
        if content.get("rerun"):
            self._attempt(self._rerun)

    # -- breakpoints and watches -----------------------------------------------------------------

    @handles("stepper.break")
    def _on_break(self, content: dict[str, Any]) -> None:
        options: dict[str, Any] = {}
        place, text = content.get("place"), str(content.get("text", "")).strip()
        if place in ("name", "op", "scope", "regex") and text:
            options[place] = text
        elif place == "node":  # as it is written: brackets in a name are no pattern
            options["name"] = "".join(f"[{c}]" if c in "*?[" else c for c in text)
        condition, limit = content.get("condition"), str(content.get("limit", "")).strip()
        if condition in ("nan", "inf"):
            options[condition] = True
        elif condition == "above":
            options["above"] = float(_needed_number(facts.parse_value(limit)))
        elif condition == "when":
            options["when"] = limit
        self.stepper.break_at(**options)

    @handles("stepper.breakpoint")
    def _on_breakpoint(self, content: dict[str, Any]) -> None:
        numbers = content.get("numbers")
        for b in list(self.stepper.breakpoints):
            if isinstance(numbers, list) and b.number in numbers:
                if "on" in content:
                    b.enabled = bool(content["on"])
                else:
                    self.stepper.clear(b)
        self._changed()

    @handles("stepper.watch")
    def _on_watch(self, content: dict[str, Any]) -> None:
        text = str(content.get("text", "")).strip()
        if content.get("remove"):
            self.stepper.unwatch(text)
        else:
            self.stepper.watch(text)

    # -- what is shown ---------------------------------------------------------------------------

    @handles("stepper.sync")
    def _on_sync(self, _: Any) -> None:
        if self._stepper is not None and not self._running:
            self.send(*self._level_message())

    @handles("stepper.rows")
    def _on_rows(self, content: dict[str, Any]) -> None:
        stepper = self._stepper
        first, level = content.get("first"), content.get("level")
        if stepper is None or self._running or not isinstance(first, int):
            return
        with stepper.hold():
            frame = stepper.frame
            if self._level(frame) == level:
                rows = facts.rows_between(frame, first, first + 64)
                epoch = stepper.revision
                self.send({"kind": "stepper.rows", "level": level, "epoch": epoch, "rows": rows})

    def refresh(self) -> None:
        """Show graph and stepper as they are now."""
        super().refresh()
        self._changed()

    def _level(self, frame: Any) -> int:
        if frame not in self._levels:
            self._numbers += 1
            self._levels[frame] = self._numbers
        return self._levels[frame]

    def _level_message(self) -> Message:
        frame = self.stepper.frame
        return facts.level_message(self._level(frame), frame)

    def _changed(self) -> None:
        """Show the stepper; called in the thread that moved it."""
        stepper = self._stepper
        if stepper is None:
            self.stepping = self._idle()
        elif not self._running:
            with stepper.hold():
                self._show(stepper)

    def _show(self, stepper: Stepper) -> None:
        frame = stepper.frame
        level, position = self._level(frame), frame.position
        before, self._stood = self._stood, (level, position, stepper.revision)
        if before is None or before[0] != level:
            self.send(*self._level_message())
        if before is not None and before[:2] != (level, position):
            self._look = None
        near = abs(position - before[1]) <= 1 if before and before[0] == level else False
        rows = facts.rows_between(frame, position - (2 if near else _NEAR), position)
        state = {
            "mode": "ready",
            "level": level,
            "crumbs": [self._graph.name, *(f.label for f in stepper.levels[1:])],
            "position": position,
            "count": len(frame.steps),
            "epoch": stepper.revision,
            "rows": rows,
            "pending": len(stepper.pending),
            "focus": self._focus(stepper),
            "source": self._source,
            "stale": self._stale(),
            **self._ending(stepper),
        }
        with self.hold_sync():
            self.current = stepper.path
            self.stepping = state
            self._show_breakpoints(stepper)
            self.watches = [_watched(stepper, text) for text in stepper.watched]

    def _show_breakpoints(self, stepper: Stepper) -> None:
        self.breakpoints = [
            {"number": b.number, "text": str(b).partition(" ")[2], "on": b.enabled, "hits": b.hits}
            for b in stepper.breakpoints
        ]
        marked = [(b.number, b.enabled) for b in stepper.breakpoints], id(stepper)
        if marked == self._marked:
            return
        self._marked = marked
        placed = [b for b in stepper.breakpoints if b.enabled and _has_place(b)]
        names = [
            node.name
            for node in (stepper.levels[0].steps if placed else ())
            if any(b.fits_place(node, node.name) or _is_inside(b, node.name) for b in placed)
        ]
        self.stops = names[:_MOST_STOPS]

    def _focus(self, stepper: Stepper) -> dict[str, Any] | None:
        """Return the node that is looked at: one that was chosen, else the one that runs next."""
        frame = stepper.frame
        stop, found = stepper.last_stop, self._found
        node = self._look
        if node is None and stop is not None:
            node = found[2] if found is not None and found[0] is stop else stop.node
        if node is None or (node not in frame.index and (stepper.depth or node.kind == "array")):
            node = frame.current or (frame.steps[-1] if frame.steps else None)
        if node is None:
            return None
        path = f"{frame.label}/{node.name}" if frame.label else node.name
        return facts.focus_facts(frame, node, path)

    def _ending(self, stepper: Stepper) -> dict[str, Any]:
        """Return how the last move ended, in words."""
        stop = stepper.last_stop
        if self._found is not None and self._found[0] is stop:
            return {"say": self._found[1], "tone": "stop"}
        if stop is None or stop.reason in ("target", "end"):
            done = "Everything has run." if stepper.done else ""
            return {"say": done, "tone": ""}
        if stop.error is not None and stop.node is not None:
            where = f", {stop.node.where}" if stop.node.where else ""
            head = f"{stop.node.op.name} {stop.node.name!r} failed{where}"
            text = f"{head}\n{facts.error_text(stop.error)}"
            return {"say": text, "tone": "error", "failed": stepper.frame.index[stop.node]}
        return {"say": _stopped(stop), "tone": "stop"}

    def _stale(self) -> str:
        """Say what has changed since this run began."""
        revision, done = self._made
        if self._graph.revision != revision:
            return "The graph has changed since this run began."
        if self._trainer is not None and self._trainer.steps_done != done:
            return f"Training has gone on to step {self._trainer.steps_done:,}."
        return ""

    def _idle(self) -> dict[str, Any]:
        """Return the state before the first command: ready to begin, or what is missing."""
        name = type(self).__name__
        given = f"{name}(g, {'trainer, ' if self._trainer is not None else ''}"
        fed = ", ".join(f'"{t.name}": ...' for t in self._graph.placeholders)
        try:
            self._fetches or self.loss_tensor()
        except GraphError:
            code = f'{given}loss="loss", feeds={{{fed}}})'
            return {"mode": "empty", "say": "Name the loss to step to:", "code": code}
        try:
            if not callable(self._feeds) and self._given is None:
                self.example_feeds()
        except GraphError:
            specs = ", ".join(f"{t.name}: {t.spec}" for t in self._graph.placeholders)
            more = "Train one step first, or give" if self._trainer is not None else "Give"
            say = f"{more} an example to step through ({specs}):"
            return {"mode": "empty", "say": say, "code": f"{given}feeds={{{fed}}})"}
        return {"mode": "idle", "say": ""}

    # -- views that last -------------------------------------------------------------------------

    def new_view_messages(self) -> list[Message]:
        """Return the recording of a whole run, if the stepper has been used."""
        messages = super().new_view_messages()
        if self._stepper is not None:
            self._free()
            with self._stepper.hold():
                messages += facts.recording(self._stepper)
        return messages

    def to_table(self) -> str:
        """Return the nodes that have run and their values as an HTML table."""
        if self._stepper is None or self._running:
            return ""
        frame = self._stepper.levels[0]
        rows = []
        for index, node in enumerate(frame.steps[: min(frame.position, _MOST_ROWS)]):
            array = frame.value(node.outputs[0])
            rows.append([str(index + 1), node.name, node.op.name, facts.spec_text(array),
                         _range_text(facts.ranges(array))])  # fmt: skip
        left = frame.position - len(rows)
        if left > 0:
            rows.append(["", f"and {left:,} more", "", "", ""])
        return html_table(["step", "node", "op", "result", "values"], rows) if rows else ""


def _needed(target: Node | None) -> Node:
    if target is None:
        raise GraphError("nothing is selected to run to", hint="click a node first")
    return target


def _needed_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise GraphError(f"{value!r} is not a number", need="one number")
    return value


def _put(held: Array, index: Any, value: Any, name: str) -> Array:
    """Return a copy with some elements changed."""
    new = np.array(held)
    try:
        new[index] = np.asarray(value)
    except (IndexError, ValueError, TypeError, OverflowError) as error:
        raise GraphError(
            f"cannot change {name!r} there: {error}", need=f"an index into {facts.spec_text(held)}"
        ) from None
    return new


def _scalar(stepper: Stepper, tensor: Tensor) -> float | None:
    frame = stepper.levels[0]
    if not frame.is_known(tensor):
        return None
    array = facts.plain(frame.value(tensor))
    return float(array) if array.ndim == 0 else None


def _watched(stepper: Stepper, text: str) -> dict[str, Any]:
    try:
        value = stepper.evaluate(text)
    except GradwrightError as error:
        return {"text": text, "error": str(error)}
    if value is None:
        return {"text": text, "value": "", "waits": True}
    if isinstance(value, np.ndarray) and value.size > 6:
        low_high = _range_text(facts.ranges(value))
        return {"text": text, "value": f"{facts.spec_text(value)}  {low_high}"}
    if isinstance(value, np.ndarray):
        value = np.array2string(value, precision=4, separator=", ").replace("\n", "")
    return {"text": text, "value": f"{value:.6g}" if isinstance(value, float) else str(value)}


def _range_text(found: list[Any]) -> str:
    low, high, n_nan, n_inf = found
    parts = [] if low is None else [f"{low:g}" if low == high else f"{low:g} … {high:g}"]
    parts += [f"{n:,} {label}" for n, label in ((n_nan, "NaN"), (n_inf, "Inf")) if n]
    return ", ".join(parts) or "empty"


def _has_place(b: Breakpoint) -> bool:
    return (b.name or b.op or b.scope or b.regex) is not None


def _is_inside(b: Breakpoint, name: str) -> bool:
    return b.name is not None and b.name.startswith(name + "/")


def _stopped(stop: Stop) -> str:
    if stop.breakpoint is None:
        return "Stopped."
    side = "after" if stop.breakpoint.is_conditional else "before"
    name = "" if stop.node is None else repr(stop.node.name)
    return f"Breakpoint {stop.breakpoint}: stopped {side} {name}."


class StepperPanel(StepPanel):
    """A graph run node by node, forwards and backwards, with breakpoints, watches and edits.

    Buttons, methods of the panel and of its ``stepper`` do the same to the same object. It steps to
    the loss and its gradients, through the ``feeds`` or what the trainer's last step was fed with,
    on a copy of the values: neither steps nor edits change the graph.

    >>> import gradwright as gw
    >>> g = gw.Graph("line")
    >>> x, w = g.placeholder("x", (2,)), g.variable("w", (2,), init=3.0)
    >>> loss = (x * w).sum(name="loss")
    >>> panel = StepperPanel(g, loss="loss", feeds={"x": [1.0, 2.0]})
    >>> _ = panel.step()
    >>> panel.current, panel.stepper.value("mul").tolist()
    ('loss', [3.0, 6.0])
    >>> _ = panel.stepper.run()
    >>> panel.edit("mul", [1.0, 1.0]), panel.rerun(), panel.reruns["text"]
    (['loss'], 1, '1 node ran again · loss 9 → 2')
    """

    module = "stepper_panel"

    def step(self, n: int = 1) -> Node | None:
        """Run ``n`` nodes of this level; returns the node that runs next."""
        return self.stepper.step(n)

    def back(self, n: int = 1) -> Node | None:
        """Go back ``n`` nodes."""
        return self.stepper.back(n)

    def run(self) -> Stop:
        """Run to the next breakpoint, an error, or the end; the button does so in the background.

        Raises GraphError while that one runs.
        """
        self._free()
        return self.stepper.run(stop=None)

    def stop(self) -> None:
        """Stop a run that was started with the button, before the next op."""
        self._walk.stop()
        self._walk.join()

    def run_to(self, name: str = "") -> Stop:
        """Run until ``name``, or the selected node, is next; goes back if it has run already."""
        self._free()
        return self.stepper.run_to(self._named(name or self.selected or "nothing selected"))

    def into(self) -> Node | None:
        """Step into the current node, a composite or a cond."""
        return self.stepper.into()

    def out(self) -> Node | None:
        """Finish this composite and return to the level above."""
        return self.stepper.out()

    def into_gradient(self, name: str = "") -> Stop:
        """Run to the first gradient node, or to the first one that belongs to ``name``."""
        return self.stepper.into_gradient(name or None)

    def reset(self) -> None:
        """Go back to before the first node; edits stay."""
        self.stepper.reset()

    def find_nonfinite(self) -> Origin | None:
        """Run to the end, and show and return the first origin of a NaN or Inf."""
        origin = self._find_in(self.stepper, lambda: False)
        self._changed()
        return origin

    def break_at(self, name: str | None = None, **options: Any) -> Breakpoint:
        """Stop where all given places fit and a condition holds; see ``Stepper.break_at``."""
        return self.stepper.break_at(name, **options)

    def watch(self, expression: str) -> Expression:
        """Show the value of an expression such as ``norm(t["hidden/w"])``."""
        return self.stepper.watch(expression)

    def edit(
        self, name: str, value: Any = None, *, index: Any = (), scale: float | None = None
    ) -> list[str]:
        """Replace a value, its elements at ``index``, or scale it; a number fills all elements.

        Returns the names of the nodes that depend on it; ``rerun()`` runs them again.
        """
        return self._edit(name, value, index=index, scale=scale)

    def rerun(self) -> int:
        """Run again what depends on edits, show what changed, and return how many nodes ran."""
        return self._rerun()

    def load(
        self, feeds: Feeds | None = None, fetches: Any = None, *, training: bool | None = None
    ) -> Stepper:
        """Begin anew with other feeds or fetches, on the parameters as they are now."""
        return self.step_through(feeds, fetches, training=training)

    def new_view_messages(self) -> list[Message]:
        """Return the recording of a whole run, if it is known what to run."""
        if self.stepping.get("mode") == "idle":
            self.step_through(self._given)
        return super().new_view_messages()
