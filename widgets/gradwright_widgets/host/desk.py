"""Where the panels of a widget meet: what they are about, and what one tells the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import traitlets

from gradwright import Graph, Tensor
from gradwright.errors import GraphError, TrainingError
from gradwright.graph import Values
from gradwright.train import Trainer

from ..drawing.grouping import scope_paths
from .cells import after_each_cell
from .edits import edits_of
from .facts import ends, frozen, shape_text
from .insides import is_inside, node_at
from .pace import CommandQueue
from .part import Part, checks, handles, shared, watches

if TYPE_CHECKING:
    from .host import Host

Feeds = Mapping[Any, Any]
MOST_OUTPUTS = 12
"""Outputs to choose from; those of larger graphs are named in code."""
Topic = Literal[
    "refreshed",  # the graph may have changed
    "selected",  # name: another node or scope is selected
    "stepped",  # the stepper stands elsewhere
    "edited",  # values that the stepper knows have changed
    "standing",  # answered with the node that the stepper runs next, "" where it has ended
    "value",  # name; answered with the value that the stepper knows
    "tensor",  # value, name: somebody wants to see a tensor
    "steps",  # somebody wants to see the stepper, which has begun anew
    "watched",  # names: what a watch of the gradients has found wrong
    "overlay",  # title, values, scale: what colours the drawing; values None takes it off
    "training",  # something about the training has changed
    "trained",  # a training that a panel has started is over
    "planned",  # answered with the number of steps that a first fit would take
    "aside",  # answered with the schedule that a rate set by hand has put aside
]
"""What panels tell each other, with which facts, and what they ask."""


class Desk(Part):
    """What the panels of a widget share, and the only way from one to another.

    Args:
        widget: the widget.
        trainer: who is followed, and whose steps commands must not disturb.
    """

    name = "desk"
    public: ClassVar[tuple[str, ...]] = ("trainer",)

    def __init__(self, widget: Host, trainer: Any = None) -> None:
        super().__init__(widget)
        self._trainer = trainer
        self._commands = CommandQueue(lambda: getattr(trainer, "status", "") == "paused")
        self._listeners: dict[str, list[Callable[..., Any]]] = {}

    def on(self, topic: Topic, listener: Callable[..., Any]) -> None:
        """Have a listener called with the facts whenever somebody tells or asks."""
        self._listeners.setdefault(topic, []).append(listener)

    def tell(self, topic: Topic, **facts: Any) -> None:
        """Tell it to all who listen, in the order of the panels."""
        for listener in self._listeners.get(topic, ()):
            listener(**facts)

    def ask(self, topic: Topic, **facts: Any) -> Any:
        """Return the first answer that is not None; None where nobody knows."""
        answers = (listener(**facts) for listener in self._listeners.get(topic, ()))
        return next((answer for answer in answers if answer is not None), None)

    def hears(self, topic: Topic) -> bool:
        """Tell whether anybody listens."""
        return topic in self._listeners

    @property
    def trainer(self) -> Any:
        """The trainer that is followed, or None."""
        return self._trainer

    @property
    def commands(self) -> CommandQueue:
        """What buttons have asked for, run between two steps."""
        return self._commands

    @property
    def title(self) -> str:
        """What the widget is about, "" for nothing in particular."""
        return ""

    @handles("hear")
    def _on_hear(self, _: Any) -> None:
        """Answer, which every request gets: the page asks whether a busy kernel hears it."""


class GraphDesk(Desk):
    """The desk of panels about one graph: what is selected, what is frozen, what runs on it.

    It follows the graph after every notebook cell; in a script call ``refresh()``.

    Args:
        widget: the widget.
        graph: what is shown.
        trainer: whose steps commands must not disturb.
        loss: the tensor that is stepped to and checked; default the trainer's.
        feeds: the example that is stepped through and checked, or a function that returns one;
            default what the trainer's last step was fed with.

    Raises:
        GraphError: something is selected that the graph does not have.
    """

    public = (
        *("graph", "trainer", "commands", "controlled", "loss_tensor", "example_feeds"),
        *("makes_feeds", "on_select", "refresh", "choose_output", "undo_edits"),
    )

    selected = shared(
        traitlets.Unicode(
            "", help="Name or address of the selected node, or of a scope with a slash behind it."
        )
    )
    frozen = shared(
        traitlets.List(
            traitlets.Unicode(), help="Names of the variables that training leaves alone."
        )
    )
    outputs = shared(
        traitlets.List(
            traitlets.Unicode(),
            help="Tensors to choose from where no loss is known, as of a model that only infers.",
        )
    )
    edits = shared(
        traitlets.List(
            traitlets.Dict(), help="Key and text of what was changed by hand and can be undone."
        )
    )

    def __init__(
        self,
        widget: Host,
        graph: Graph,
        trainer: Any = None,
        *,
        loss: Tensor | str | None = None,
        feeds: Feeds | Callable[[], Feeds] | None = None,
    ) -> None:
        if not isinstance(graph, Graph):
            raise TypeError(f"{type(widget).__name__} shows a gradwright.Graph, got {graph!r}")
        super().__init__(widget, trainer)
        self._graph = graph
        self._loss = None if loss is None else graph[str(getattr(loss, "name", loss))]
        self._feeds = feeds
        self.changes = edits_of(graph)
        """What was changed by hand, in whichever widget of the graph."""
        self.changes.listen(self._show_edits)

    def initial(self) -> dict[str, Any]:
        """Return what is frozen, the outputs to choose from, and what was changed by hand."""
        found = {"frozen": frozen(self._graph), "outputs": self._choices()}
        return {**found, "edits": self._edit_rows()}

    @property
    def graph(self) -> Graph:
        """The graph that is shown."""
        return self._graph

    @property
    def title(self) -> str:
        """The name of the graph."""
        return self._graph.name

    def controlled(self) -> Trainer:
        """Return the trainer that buttons act on; raises TrainingError if there is none."""
        if self._trainer is None:
            raise TrainingError("there is no trainer here", hint="TrainerPanel(trainer, data)")
        trainer: Trainer = self._trainer
        return trainer

    @property
    def values(self) -> Values:
        """The values that are shown: those that are trained, usually the graph's."""
        values: Values = self._graph.values if self._trainer is None else self._trainer.values
        return values

    def loss_tensor(self) -> Tensor:
        """Return the loss that is stepped to and checked; raises GraphError if none is known."""
        if self._loss is not None:  # its name stays if it is renamed, or if a cell runs again
            held = self._graph.get(self._loss.name)
            self._loss = self._graph[self._loss.name] if held is None else held
            return self._loss
        if self._trainer is None:
            raise GraphError(
                f"no loss of graph {self._graph.name!r} is known here",
                need="a loss, or one of its outputs",
                hint=f'{type(self.widget).__name__}(g, loss="loss", feeds={{"x": X[:8]}})',
            )
        loss: Tensor = self._trainer.loss
        return loss

    def choose_output(self, name: str) -> None:
        """Step to a tensor, and check its gradients if it is one number, where no loss is known.

        Raises GraphError if the graph has no such tensor.
        """
        self._loss = self._graph[name]
        self.refresh()

    @handles("output")
    def _on_output(self, content: dict[str, Any]) -> None:
        self.choose_output(str(content.get("name")))

    def undo_edits(self, key: str | None = None) -> None:
        """Take back what was changed by hand on a page: one change, or all.

        Raises GraphError where the value of a stepper cannot be set as it stands; it stays listed.
        """
        self.changes.undo(self, key)

    @handles("undo")
    def _on_undo(self, content: dict[str, Any]) -> None:
        key = content.get("key")
        self.undo_edits(None if key is None else str(key))

    def _edit_rows(self) -> list[dict[str, str]]:
        return [{"key": edit.key, "text": edit.text} for edit in self.changes.standing()]

    def _show_edits(self) -> None:
        if self.widget.comm is not None:
            self.edits = self._edit_rows()

    def _choices(self) -> list[str]:
        if self._loss is not None or self._trainer is not None:
            return []
        return [tensor.name for tensor in ends(self._graph)[-MOST_OUTPUTS:]]

    def trained(self, loss: Tensor) -> list[Tensor]:
        """Return what is trained to make a loss small: by the trainer, if it is the trainer's."""
        trainer = self._trainer
        if trainer is None or trainer.loss is not loss:
            return self._graph.trainable
        return list(trainer.parameters)

    def example_feeds(self) -> Feeds:
        """Return the example to step through and check; raises GraphError if none is known."""
        if self._feeds is not None:
            return self._feeds() if callable(self._feeds) else self._feeds
        last: Feeds = {} if self._trainer is None else self._trainer.last_feeds
        placeholders = {t.name for t in self._graph.placeholders}
        if not last and placeholders:
            made = type(self.widget).__name__
            raise GraphError(
                f"graph {self._graph.name!r} has nothing to run on here",
                facts=["placeholders: " + ", ".join(sorted(placeholders))],
                hint=f'{made}(g, ..., feeds={{"x": X[:8]}}), or train one step',
            )
        return last

    @property
    def makes_feeds(self) -> bool:
        """Whether the example is made by a function, which is called only when it is needed."""
        return callable(self._feeds)

    @checks("selected")
    def check_name(self, name: str) -> str:
        """Return the name of a node or scope; raises GraphError if nothing is called so.

        What is inside of a node is called by its address.
        """
        if ":" in name:
            if not (name.endswith("/") and is_inside(self._graph, name[:-1])):
                node_at(self._graph, name)
            return name
        node, scope = self._graph.get(name), name.removesuffix("/")
        known = node is not None and node.node.name == name
        if name and not known and scope not in scope_paths(self._graph):
            raise GraphError(
                f"nothing is called {name!r} in graph {self._graph.name!r}",
                hint="a node's name, or a scope's with a slash behind it",
            )
        return name

    @watches("selected")
    def _on_selected(self) -> None:
        self.tell("selected", name=self.selected)

    def on_select(self, callback: Callable[[str], None]) -> None:
        """Call ``callback(name)`` whenever another node or scope is selected."""
        self.widget.observe(lambda change: callback(change["new"]), "selected")

    def refresh(self) -> None:
        """Show the graph as it is now."""
        self.frozen, self.outputs = frozen(self._graph), self._choices()
        self._show_edits()
        self.tell("refreshed")


def follow_cells(widget: Host) -> None:
    """Refresh a widget of a graph after every notebook cell, until it is closed or forgotten."""

    def refresh(held: Host) -> None:
        if not held.desk.commands.busy:
            held.guarded(held.refresh, clear=False)

    after_each_cell(widget, refresh)


def feeds_text(feeds: Feeds) -> str:
    """Return feeds in a few words.

    >>> feeds_text({"x": [[0.0, 1.0]], "t": 1})
    'x 1 × 2, t scalar'
    """
    return ", ".join(
        f"{getattr(key, 'name', key)} {shape_text(np.shape(value))}" for key, value in feeds.items()
    )
