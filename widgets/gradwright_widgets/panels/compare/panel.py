"""The graph beside ONNX Runtime: compared node by node in the background, the errors as colour."""

from __future__ import annotations

import importlib.util
import threading
import time
from typing import Any

import traitlets

import gradwright as gw
from gradwright import Graph
from gradwright.errors import GradwrightError, GraphError
from gradwright.formats.onnx.runtime.comparing.report import Comparison, NodeComparison

from ...host.desk import GraphDesk, feeds_text
from ...host.host import Host
from ...host.insides import is_called
from ...host.panel import Panel
from ...host.part import handles, member_of, shared, watches
from ...host.wire import Message, finite

PER_SECOND = 10
_OVERLAY = "of rounding"  # as the column is called that has these numbers
_NEEDS = {"onnxruntime": ("onnx", "onnxruntime"), "reference": ("onnx",)}
"""Whom the graph is beside -> the packages that it takes."""


class ComparePanel(Panel):
    """The graph beside ONNX Runtime, node by node.

    Args:
        desk: where graph and example are found.
        comparison: a finished comparison to show.
    """

    name = "compare"
    desk: GraphDesk

    onnx_state = shared(
        traitlets.Enum(
            ("", "running", "done", "stopped", "failed"), "", help="How far the comparison is."
        )
    )
    onnx_by = shared(
        traitlets.Enum(
            ("onnxruntime", "reference"), "onnxruntime", help="Beside whom the graph is run."
        )
    )
    onnx_overlay = shared(
        traitlets.Bool(
            False, help="Whether the drawing is coloured by how far nodes are off ONNX Runtime."
        )
    )
    onnx_hint = shared(
        traitlets.Unicode("", help="What a comparison still needs, if anything."), late=True
    )

    def __init__(self, desk: GraphDesk, *, comparison: Comparison | None = None) -> None:
        super().__init__(desk)
        self._found = comparison
        self._facts: dict[str, Any] = {"run": 0}
        self._pace = self.widget.paced(self._send, PER_SECOND)
        self._work = self.widget.background("the comparison with ONNX Runtime")

    def begin(self) -> None:
        """Say what a comparison needs, or show the one that is given."""
        self._say_what_is_missing()
        if self._found is not None:
            self.onnx_comparison = self._found

    # -- comparing -------------------------------------------------------------------------------

    def compare_onnx(
        self, by: str | None = None, turns: int = 16, wait: bool = False
    ) -> Comparison | None:
        """Compare the graph with ONNX Runtime in the background, on the example of this moment.

        Args:
            by: "onnxruntime" or "reference"; default ``onnx_by``.
            turns: of each loop that are looked into.
            wait: return the comparison when it is done, and raise what went wrong.

        Raises:
            GraphError: there is nothing to run on.
            GradwrightError: a comparison runs already.
        """
        graph, feeds = self.desk.graph, self._example()
        with self.widget.hold_sync():
            if self._work.busy:
                raise GradwrightError("a comparison is running already", hint="stop it first")
            self.onnx_by = by or self.onnx_by
        failed: list[Exception] = []
        began = time.monotonic()
        facts = {"run": self._facts["run"] + 1, "feeds": feeds_text(feeds), "done": 0, "total": 0}

        def progress(done: int, total: int, name: str) -> None:
            self._facts = {**facts, "done": done, "total": total, "name": name}
            self.when_shown(self._pace.request)

        def task(stop: threading.Event) -> None:
            try:
                found = gw.onnx.compare(graph, feeds, by=who, **options, should_stop=stop)
            except Exception as error:
                failed.append(error)
                self._facts = {**facts, "error": str(error)}
                self._end("failed")
                if not isinstance(error, GradwrightError):
                    raise
            else:
                self._found = found
                self._facts = {**facts, "seconds": time.monotonic() - began}
                self._end("stopped" if found.stopped else "done")

        who: Any = self.onnx_by
        options: Any = {"turns": turns, "progress": progress}
        self._found, self._facts = None, facts
        with self.widget.hold_sync():
            self.onnx_state, self.onnx_overlay = "running", False
        self._work.start(task)
        if not wait:
            return None
        self._work.join()
        if failed:
            raise failed[0]
        return self._found

    def stop_onnx(self) -> None:
        """End the comparison; what it has found so far stays."""
        self._work.stop()

    @property
    def onnx_comparison(self) -> Comparison | None:
        """The last comparison; set it to show another one."""
        return self._found

    @onnx_comparison.setter
    def onnx_comparison(self, found: Comparison | None) -> None:
        if self._work.busy:
            raise GradwrightError("a comparison is running", hint="stop it first")
        if found is not None and found.graph is not self.desk.graph:
            raise GraphError(
                f"this comparison is of another graph, {found.graph.name!r}",
                hint=f"{type(self.widget).__name__}(found.graph, comparison=found)",
            )
        self._found, self._facts = found, {"run": self._facts["run"] + 1}
        self._end("" if found is None else "stopped" if found.stopped else "done")

    def _end(self, state: str) -> None:
        self._pace.flush()
        self.when_shown(self._send)
        with self.widget.hold_sync():
            self.onnx_state, self.onnx_overlay = state, False
            self.onnx_overlay = bool(self._found)

    def _example(self) -> dict[Any, Any]:
        """Return the example, of what the graph's outputs hang on."""
        return dict(self.desk.example_feeds()) if self.desk.graph.placeholders else {}

    # -- what the page asks for ------------------------------------------------------------------

    @handles("start")
    def _on_start(self, _: Any) -> None:
        self.compare_onnx()

    @handles("stop")
    def _on_stop(self, _: Any) -> None:
        self.stop_onnx()

    @handles("sync")
    def _on_sync(self, _: Any) -> None:
        self._send()

    def _send(self) -> None:
        for message in self.new_view_messages():
            self.widget.send(*message)

    def new_view_messages(self, *, whole: bool = False) -> list[Message]:
        """Return all rows."""
        return [compare_message(self._facts, self._found)]

    # -- the drawing, the graph ------------------------------------------------------------------

    @watches("onnx_overlay")
    def _on_overlay(self) -> None:
        colours = None
        if self.onnx_overlay and self._found is not None:
            known = self._found.colours.items()
            colours = {name: x for name, x in known if is_called(self.desk.graph, name)}
        self.desk.tell("overlay", title=_OVERLAY, values=colours, scale="log")

    def refresh(self) -> None:
        """Say whether a comparison has what it needs by now."""
        self.when_shown(self._say_what_is_missing)

    def _say_what_is_missing(self) -> None:
        self.onnx_hint = self._missing()

    @watches("onnx_by")
    def _on_by(self) -> None:
        self.refresh()

    def _missing(self) -> str:
        absent = [name for name in _NEEDS[self.onnx_by] if not importlib.util.find_spec(name)]
        if absent:
            return f"pip install 'gradwright[{absent[-1]}]'"
        try:
            if not self.desk.makes_feeds:
                self._example()
        except GraphError as error:
            return str(error)
        return ""

    # -- views that last -------------------------------------------------------------------------

    def to_table(self) -> str:
        """Return the nodes of the last comparison as an HTML table."""
        return "" if self._found is None else self._found.table()._repr_html_()


class RuntimeComparison(Host):
    """Holds every node of a graph beside ONNX Runtime, and says which is the first that differs.

    It runs in the background on an example. With a ``comparison`` the panel shows one that
    ``gw.onnx.compare`` has made: ``RuntimeComparison(found.graph, comparison=found)``.

    >>> import gradwright as gw
    >>> g = gw.Graph("net")
    >>> y = gw.nn.relu(g.placeholder("x", ("B",)) * 2.0, name="y")
    >>> panel = RuntimeComparison(g, feeds={"x": [1.0, -1.0]})
    >>> panel.compare(wait=True)
    <'net' beside ONNX Runtime: 2 nodes agree>
    """

    module = "runtime_comparison"
    panels = (ComparePanel,)
    compare = member_of(ComparePanel, "compare_onnx")
    stop = member_of(ComparePanel, "stop_onnx")
    comparison = member_of(ComparePanel, "onnx_comparison")
    height = traitlets.Int(520, min=320, max=4000, help="Height in pixels.").tag(sync=True)

    def __init__(
        self, graph: Graph, *, comparison: Comparison | None = None, **options: Any
    ) -> None:
        super().__init__(graph, comparison=comparison, **options)


def compare_message(facts: dict[str, Any], found: Comparison | None) -> Message:
    """Return how far a comparison is, and its rows when it has ended."""
    first = None if found is None else found.first
    return {
        "kind": "compare.rows",
        "run": 0, "feeds": "", "done": 0, "total": 0, "name": "", "error": "", "seconds": 0.0,
        **facts,
        "by": "" if found is None else found.by,
        "finding": "" if found is None else repr(found)[1:-1],
        "first": None if first is None else _row(first),
        "rows": [] if found is None else list(map(_row, found)),
    }, []  # fmt: skip


def _row(row: NodeComparison) -> dict[str, Any]:
    return {
        "name": row.name, "op": row.op, "onnx": row.onnx, "spec": row.spec,
        "error": finite(row.error), "own": finite(row.own), "ratio": finite(row.ratio),
        "verdict": row.verdict, "reason": row.reason, "second": row.second, "where": row.where,
        "lit": row.drawn[0] if row.drawn else "",
    }  # fmt: skip
