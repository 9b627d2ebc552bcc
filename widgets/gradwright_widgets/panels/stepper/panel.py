"""Execution node by node, forwards and backwards, beside the drawing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import traitlets

from gradwright import Graph, Node, Stepper
from gradwright.debug import Breakpoint, Expression, Origin, Stop
from gradwright.errors import GraphError

from ...drawing.values import ranges
from ...host.desk import Feeds, GraphDesk
from ...host.host import Host
from ...host.panel import Panel
from ...host.part import handles, shared
from ...host.typed import parse_number, parse_value
from ...host.wire import Message
from ...still.tables import html_table
from ..tensor.sheet import spec_text
from . import facts
from .by_hand import edit_by_hand, note_stop
from .recording import recording
from .walk import Walk, names

Array = np.ndarray[Any, Any]

_MOST_ROWS = 200  # of the static table


class StepPanel(Panel):
    """The stepper.

    Args:
        desk: where graph, loss and example are found.
        fetches: tensors or names to step to; default the loss and its gradients with respect to the
            trainable parameters, so that one walks forwards and backwards.
        training: whether ops such as dropout run as in training; default where there is a trainer.
    """

    name = "stepper"
    desk: GraphDesk

    current = shared(traitlets.Unicode("", help="Path of the node that the stepper runs next."))
    stops = shared(traitlets.List(traitlets.Unicode(), help="Names of nodes with a breakpoint."))
    stepping = shared(
        traitlets.Dict(help="Where the stepper stands, and the values there."), late=True
    )
    reruns = shared(traitlets.Dict(help="What the last rerun after an edit changed."))
    breakpoints = shared(
        traitlets.List(
            traitlets.Dict(), help="Number, text, whether on, and hits of each breakpoint."
        )
    )
    watches = shared(
        traitlets.List(traitlets.Dict(), help="Expression and value, or error, of each watch.")
    )

    def __init__(
        self, desk: GraphDesk, *, fetches: Any = None, training: bool | None = None
    ) -> None:
        super().__init__(desk)
        self.walk = Walk(self, fetches, training)
        desk.on("selected", lambda name: self.when_shown(self._follow_selection))
        desk.on("value", self.value_of)
        desk.on("standing", lambda: self.current)

    def begin(self) -> None:
        """Say what a walk needs to begin."""
        self.walk.show()

    @property
    def stepper(self) -> Stepper:
        """The stepper that is shown, made when it is first asked for.

        What is done to it shows at once. Raises GraphError if no loss or feeds are known.
        """
        return self.walk.ready()

    def step_through(
        self, feeds: Feeds | None = None, fetches: Any = None, *, training: bool | None = None
    ) -> Stepper:
        """Begin anew with other feeds or fetches, on the parameters as they are now.

        Breakpoints and watches stay; so do fetches and mode that are not given. Without feeds it is
        the example of this widget again.
        """
        walk = self.walk
        walk.check_free()
        if fetches is not None:
            walk.fetches = [self.desk.graph[name].name for name in names(fetches)]
        walk.training = walk.training if training is None else training
        walk.feeds = feeds
        return walk.begin()

    def step_last_batch(self) -> Stepper:
        """Step through what the trainer's last step was fed with."""
        if self.desk.trainer is None or not self.desk.trainer.last_feeds:
            raise GraphError("no batch has been trained on yet", hint="train one step first")
        return self.step_through(self.desk.trainer.last_feeds)

    def value_of(self, name: str) -> Array | None:
        """Return a value that the stepper knows where it stands, or None."""
        stepper = self.walk.stepper
        if stepper is None or self.walk.running:
            return None
        try:
            with stepper.hold():
                return stepper.value(name)
        except GraphError:
            return None

    def refresh(self) -> None:
        """Show graph and stepper as they are now."""
        self.when_shown(self.walk.show)

    # -- what the page asks for ------------------------------------------------------------------

    @handles("move")
    def _on_move(self, content: dict[str, Any]) -> None:
        walk, verb, name = self.walk, str(content.get("verb")), content.get("name")
        chosen = name if isinstance(name, str) else ""
        node = walk.node(chosen) if chosen and verb == "into_gradient" else None
        long: dict[str, Callable[[Stepper, Callable[[], bool]], object]] = {
            "run": lambda s, stop: s.run(stop=stop),
            "run_to": lambda s, stop: s.run_to(walk.address(_selected(chosen)), stop=stop),
            "into_gradient": lambda s, stop: s.into_gradient(node, stop=stop),
            "find": walk.find,
        }
        short: dict[str, Callable[[], object]] = {
            "step": lambda: self.stepper.step(),
            "back": lambda: self.stepper.back(),
            "into": lambda: self.stepper.into(),
            "out": lambda: self.stepper.out(),
            "reset": lambda: self.stepper.reset(),
            "rerun": walk.rerun,
            "load": walk.begin,
            "last_batch": self.step_last_batch,
        }
        walk.check_free()
        if verb in long:
            walk.start(long[verb])
        elif verb in short:
            walk.attempt(short[verb])

    @handles("stop")
    def _on_stop_walk(self, _: Any) -> None:
        self.walk.stop()

    @handles("look")
    def _on_look(self, content: dict[str, Any]) -> None:
        """Look at a node of this level, or at a tensor, which the tensor view then shows."""
        stepper, tensor = self.stepper, content.get("tensor")
        self.walk.check_free()
        if isinstance(tensor, str):
            if stepper.depth:  # the graph knows no such name
                self.desk.tell("tensor", value=stepper.value(tensor), name=tensor)
                return
            self.desk.tell("tensor", value=tensor, name="")
            node = stepper.tensor(tensor).node
        else:
            node = self.walk.node(str(content.get("name")))
        if stepper.depth or self.desk.selected == node.name:
            self.walk.look(node)
        else:
            self.desk.selected = node.name

    def _follow_selection(self) -> None:
        stepper, node = self.walk.stepper, self.desk.graph.get(self.desk.selected)
        if stepper is not None and node is not None and not stepper.depth:
            self.walk.look(node.node)

    @handles("edit")
    def _on_edit_value(self, content: dict[str, Any]) -> None:
        edit_by_hand(self, content)
        if content.get("rerun"):
            self.walk.attempt(self.walk.rerun)

    @handles("break")
    def _on_break(self, content: dict[str, Any]) -> None:
        options: dict[str, Any] = {}
        place, text = content.get("place"), str(content.get("text", "")).strip()
        condition, limit = content.get("condition"), str(content.get("limit", "")).strip()
        if place in ("name", "op", "scope", "regex"):
            if not text:
                raise GraphError(
                    f"which {place} shall it stop at?", hint='type a pattern, or choose "Any node"'
                )
            options[place] = text
        elif place == "node":  # as it is written: brackets in a name are no pattern
            options["name"] = "".join(f"[{c}]" if c in "*?[" else c for c in text)
        if condition in ("nan", "inf"):
            options[condition] = True
        elif condition == "above":
            options["above"] = parse_number(parse_value(limit))
        elif condition == "when":
            options["when"] = limit
        note_stop(self, self.stepper.break_at(**options))

    @handles("breakpoint")
    def _on_breakpoint(self, content: dict[str, Any]) -> None:
        numbers = content.get("numbers")
        for b in list(self.stepper.breakpoints):
            if isinstance(numbers, list) and b.number in numbers:
                if "on" in content:
                    b.enabled = bool(content["on"])
                else:
                    self.stepper.clear(b)
                    self.desk.changes.forget(f"stop {b.number}")
        self.walk.show()

    @handles("watch")
    def _on_watch(self, content: dict[str, Any]) -> None:
        text = str(content.get("text", "")).strip()
        if content.get("remove"):
            self.stepper.unwatch(text)
        else:
            self.stepper.watch(text)

    @handles("sync")
    def _on_step_sync(self, _: Any) -> None:
        if self.walk.stepper is not None and not self.walk.running:
            self.widget.send(*self.walk.display.level_message(self.walk.stepper.frame))

    @handles("rows")
    def _on_rows(self, content: dict[str, Any]) -> None:
        walk, first, level = self.walk, content.get("first"), content.get("level")
        if walk.stepper is None or walk.running or not isinstance(first, int):
            return
        with walk.stepper.hold():
            if walk.display.level(walk.stepper.frame) == level:
                rows = facts.rows_between(walk.stepper.frame, first, first + 64)
                epoch = walk.stepper.revision
                self.widget.send(
                    {"kind": "stepper.rows", "level": level, "epoch": epoch, "rows": rows}
                )

    # -- views that last -------------------------------------------------------------------------

    def new_view_messages(self, *, whole: bool = False) -> list[Message]:
        """Return the recording of a whole run, if the stepper has been used."""
        stepper = self.walk.stepper
        if stepper is None:
            return []
        self.walk.check_free()
        with stepper.hold():
            return recording(stepper)

    def to_table(self) -> str:
        """Return the nodes that have run and their values as an HTML table."""
        stepper = self.walk.stepper
        if stepper is None or self.walk.running:
            return ""
        frame = stepper.levels[0]
        rows = []
        for index, node in enumerate(frame.steps[: min(frame.position, _MOST_ROWS)]):
            array = frame.value(node.outputs[0])
            values = facts.span_text(ranges(array))
            rows.append([f"{index + 1}", node.name, node.op.name, spec_text(array), values])
        if frame.position > len(rows):
            rows.append(["", f"and {frame.position - len(rows):,} more", "", "", ""])
        return html_table(["step", "node", "op", "result", "values"], rows) if rows else ""


def _selected(name: str) -> str:
    if not name:
        raise GraphError("nothing is selected to run to", hint="click a node first")
    return name


class StepperPanel(Host):
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
    panels = (StepPanel,)

    def __init__(
        self,
        graph: Graph,
        trainer: Any = None,
        *,
        fetches: Any = None,
        training: bool | None = None,
        **options: Any,
    ) -> None:
        super().__init__(graph, trainer, fetches=fetches, training=training, **options)

    def step(self, n: int = 1) -> Node | None:
        """Run ``n`` nodes of this level; returns the node that runs next."""
        return self._panel.stepper.step(n)

    def back(self, n: int = 1) -> Node | None:
        """Go back ``n`` nodes."""
        return self._panel.stepper.back(n)

    def run(self) -> Stop:
        """Run to the next breakpoint, an error, or the end; the button does so in the background.

        Raises GraphError while that one runs.
        """
        self._panel.walk.check_free()
        return self._panel.stepper.run()

    def stop(self) -> None:
        """Stop a run that was started with the button, before the next op."""
        self._panel.walk.stop()
        self._panel.walk.join()

    def run_to(self, name: str = "") -> Stop:
        """Run until a name or address, or the selected node, is next; goes back if it has run."""
        self._panel.walk.check_free()
        return self._panel.stepper.run_to(_selected(name or self._panel.desk.selected))

    def into(self) -> Node | None:
        """Step into the current node: a composite, a call, a branch, a turn of a loop."""
        return self._panel.stepper.into()

    def out(self) -> Node | None:
        """Finish what is around, with all its turns, and return to the level above."""
        return self._panel.stepper.out()

    def into_gradient(self, name: str = "") -> Stop:
        """Run to the first gradient node, or to the first one that belongs to ``name``."""
        return self._panel.stepper.into_gradient(name or None)

    def reset(self) -> None:
        """Go back to before the first node; edits stay."""
        self._panel.stepper.reset()

    def find_nonfinite(self) -> Origin | None:
        """Run to the end, and show and return the first origin of a NaN or Inf."""
        self._panel.walk.check_free()
        return self._panel.walk.find(self._panel.stepper, lambda: False)

    def break_at(self, name: str | None = None, **options: Any) -> Breakpoint:
        """Stop where all given places fit and a condition holds; see ``Stepper.break_at``."""
        return self._panel.stepper.break_at(name, **options)

    def clear(self, breakpoint: Breakpoint | int | None = None) -> None:
        """Remove one breakpoint, or all."""
        self._panel.stepper.clear(breakpoint)

    def watch(self, expression: str) -> Expression:
        """Show the value of an expression such as ``norm(t["hidden/w"])``."""
        return self._panel.stepper.watch(expression)

    def unwatch(self, expression: str) -> None:
        """Remove a watch."""
        self._panel.stepper.unwatch(expression)

    def edit(
        self, name: str, value: Any = None, *, index: Any = (), scale: float | None = None
    ) -> list[str]:
        """Replace a value, its elements at ``index``, or scale it; a number fills all elements.

        Returns the names of the nodes that depend on it; ``rerun()`` runs them again.
        """
        return self._panel.walk.edit(name, value, index, scale)

    def rerun(self) -> int:
        """Run again what depends on edits, show what changed, and return how many nodes ran."""
        return self._panel.walk.rerun()

    def load(
        self, feeds: Feeds | None = None, fetches: Any = None, *, training: bool | None = None
    ) -> Stepper:
        """Begin anew with other feeds or fetches, on the parameters as they are now."""
        return self._panel.step_through(feeds, fetches, training=training)

    def new_view_messages(self, *, whole: bool = False) -> list[Message]:
        """Return the recording of a whole run, if it is known what to run."""
        if self._panel.stepping.get("mode") == "idle":
            self._panel.walk.begin()
        return super().new_view_messages(whole=whole)

    @property
    def _panel(self) -> StepPanel:
        return self.part(StepPanel)
