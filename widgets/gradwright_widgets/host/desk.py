"""Base of the widgets about one graph: what is selected, what is frozen, and following both."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import traitlets

from gradwright import Graph, Tensor
from gradwright.errors import GraphError, TrainingError
from gradwright.graph import Values
from gradwright.train import Record, Trainer

from .base import BaseWidget
from .cells import notebook_shell
from .facts import frozen, shape_text
from .pace import CommandQueue

Feeds = Mapping[Any, Any]


class GraphWidget(BaseWidget):
    """A widget of a graph, and of a trainer whose steps its commands must not disturb.

    It follows the graph after every notebook cell; in a script call ``refresh()``.

    Args:
        graph: what is shown.
        trainer: whose steps commands must not disturb.
        loss: the tensor that is stepped to and checked; default the trainer's.
        feeds: the example that is stepped through and checked, or a function that returns one;
            default what the trainer's last step was fed with.

    Raises:
        GraphError: something is selected that the graph does not have.
    """

    selected = traitlets.Unicode(
        "", help="Name of the selected node, of a scope with a slash behind it, or nothing."
    ).tag(sync=True)
    frozen = traitlets.List(
        traitlets.Unicode(), help="Names of the variables that training leaves alone."
    ).tag(sync=True)

    def __init__(
        self,
        graph: Graph,
        trainer: Any = None,
        *,
        loss: Tensor | str | None = None,
        feeds: Feeds | Callable[[], Feeds] | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(graph, Graph):
            raise TypeError(f"{type(self).__name__} shows a gradwright.Graph, got {graph!r}")
        self._graph, self._trainer = graph, trainer
        self._loss = None if loss is None else graph[str(getattr(loss, "name", loss))]
        self._feeds = feeds
        self.commands = CommandQueue(lambda: getattr(trainer, "status", "") == "paused")
        super().__init__(**{**self._initial(), **options})
        follow_cells(self)
        if trainer is not None:
            self.attend(trainer)

    def _initial(self) -> dict[str, Any]:
        """Return the traits that the graph decides; panels add theirs."""
        return {"frozen": frozen(self._graph)}

    @property
    def graph(self) -> Graph:
        """The graph that is shown."""
        return self._graph

    @property
    def trainer(self) -> Any:
        """The trainer that is followed, or None."""
        return self._trainer

    def controlled(self) -> Trainer:
        """Return the trainer that buttons act on; raises TrainingError if there is none."""
        if self._trainer is None:
            raise TrainingError("there is no trainer here", hint="TrainerPanel(trainer, data)")
        trainer: Trainer = self._trainer
        return trainer

    @property
    def _values(self) -> Values:
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
                hint=f'{type(self).__name__}(g, loss="loss", feeds={{"x": X[:8]}})',
            )
        loss: Tensor = self._trainer.loss
        return loss

    def example_feeds(self) -> Feeds:
        """Return the example to step through and check; raises GraphError if none is known."""
        if self._feeds is not None:
            return self._feeds() if callable(self._feeds) else self._feeds
        last: Feeds = {} if self._trainer is None else self._trainer.last_feeds
        placeholders = {t.name for t in self._graph.placeholders}
        if not last and placeholders:
            raise GraphError(
                f"graph {self._graph.name!r} has nothing to run on here",
                facts=["placeholders: " + ", ".join(sorted(placeholders))],
                hint=f'{type(self).__name__}(g, ..., feeds={{"x": X[:8]}}), or train one step',
            )
        return last

    @traitlets.validate("selected")
    def _check_selected(self, proposal: Any) -> str:
        name = str(proposal.value)
        node, scope = self._graph.get(name), name.removesuffix("/")
        known = node is not None and node.node.name == name
        if name and not known and scope not in scopes(self._graph):
            raise GraphError(
                f"nothing is called {name!r} in graph {self._graph.name!r}",
                hint="a node's name, or a scope's with a slash behind it",
            )
        return name

    def on_select(self, callback: Callable[[str], None]) -> None:
        """Call ``callback(name)`` whenever another node or scope is selected."""
        self.observe(lambda change: callback(change["new"]), "selected")

    def refresh(self) -> None:
        """Show the graph as it is now."""
        self.frozen = frozen(self._graph)

    def training_began(self) -> None:
        """Have commands wait for a step boundary."""
        super().training_began()
        self.commands.begin()

    def step_ended(self, record: Record) -> None:
        """Run what was asked for during the step."""
        super().step_ended(record)
        self.commands.drain()

    def training_paused(self) -> None:
        """Run what came between the last step and the pause."""
        super().training_paused()
        self.commands.drain()

    def training_resumed(self) -> None:
        """Let a command that runs end before the next step."""
        super().training_resumed()
        self.commands.settle()

    def training_ended(self) -> None:
        """Let commands run at once again."""
        super().training_ended()
        self.commands.end()

    def _title(self) -> str:
        return self._graph.name


def follow_cells(widget: GraphWidget) -> None:
    """Refresh a widget after every notebook cell, until it is closed or forgotten."""
    shell = notebook_shell()
    if shell is None:
        return
    known = weakref.ref(widget)

    def after_cell(*_: Any) -> None:
        held = known()
        if held is None or held.comm is None:
            shell.events.unregister("post_run_cell", after_cell)
        elif not held.commands.busy:
            held.guarded(held.refresh, clear=False)

    shell.events.register("post_run_cell", after_cell)


def feeds_text(feeds: Feeds) -> str:
    """Return feeds in a few words.

    >>> feeds_text({"x": [[0.0, 1.0]], "t": 1})
    'x 1 × 2, t scalar'
    """
    return ", ".join(
        f"{getattr(key, 'name', key)} {shape_text(np.shape(value))}" for key, value in feeds.items()
    )


def scopes(graph: Graph) -> set[str]:
    """Return the paths of all scopes, those of the derived layer included."""
    found: set[str] = set()
    for node in graph.all_nodes:
        path = node.scope
        while path and path not in found:
            found.add(path)
            path = path.rpartition("/")[0]
    return found
