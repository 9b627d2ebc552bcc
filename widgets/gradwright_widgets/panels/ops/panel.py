"""Every op with its documentation, a search over all of them, and each example run live."""

from __future__ import annotations

import contextlib
import doctest
import html
import io
import re
import sys
import traceback
from collections.abc import Iterator
from typing import Any

import ipywidgets as widgets
import numpy as np

import gradwright as gw
from gradwright import Graph
from gradwright.ops import Entries, Entry
from gradwright.ops.reference.kinds import shown_types
from gradwright.words.spelling import spellings

from ..graph.panel import GraphView

EVERYWHERE = "all namespaces"
MOST_NODES = 400
"""Examples with more nodes than this are run, but not drawn."""
STYLE = """
<style>
.gw-op { line-height: 1.45; padding-left: 10px; color: var(--jp-content-font-color1, inherit) }
.gw-op h3 { margin: 0 0 6px; font: bold 14px/1.4 var(--jp-code-font-family, monospace) }
.gw-op pre { padding: 6px 8px; white-space: pre-wrap; background: var(--jp-layout-color2, #f3f3f3);
  color: inherit; border-radius: 3px; font-size: 12px; line-height: 1.4 }
.gw-op th, .gw-op td { text-align: left; padding: 1px 12px 1px 0; vertical-align: top }
.gw-op p.gw-also { color: var(--jp-content-font-color2, #666) }
</style>
"""


class OpReference(widgets.VBox):  # type: ignore[misc]  # ipywidgets ships no types
    """The ops in a list that narrows while you type; the chosen one's page, its example run live.

    What you search for is looked up in names, ours, SameDiff's and ONNX's, and in documentation.

    >>> from gradwright_widgets import OpReference
    >>> reference = OpReference("softmax")
    >>> reference.entry.call
    'gw.nn.softmax'
    >>> reference.close()
    """

    def __init__(self, search: str = "", *, namespace: str = "") -> None:
        self._all = gw.ops.table()
        spaces = sorted({e.op.namespace for e in self._all})
        self._search = widgets.Text(
            search,
            placeholder="a name, in any spelling, or words of the documentation",
            description="Search",
            layout=widgets.Layout(flex="1 1 auto"),
        )
        self._space = widgets.Dropdown(
            options=[EVERYWHERE, *spaces],
            value=namespace or EVERYWHERE,
            layout=widgets.Layout(width="160px"),
        )
        self._count = widgets.HTML()
        self._list = widgets.Select(layout=widgets.Layout(width="260px", height="430px"))
        self._page = widgets.HTML()
        self._drawing = widgets.VBox(layout=widgets.Layout(width="100%"))
        for chooser in (self._search, self._space):
            chooser.observe(self._narrow, "value")
        self._list.observe(self._show, "value")
        body = widgets.VBox([self._page, self._drawing], layout=widgets.Layout(flex="1 1 0"))
        super().__init__(
            [
                widgets.HBox([self._search, self._space, self._count]),
                widgets.HBox([self._list, body]),
            ]
        )
        self._narrow()

    @property
    def entry(self) -> Entry | None:
        """The op that is shown; None if nothing is found."""
        found: Entry | None = self._list.value
        return found

    def close(self) -> None:
        """Close the widget with all its parts."""
        parts: list[Any] = [*self.children]
        for part in parts:  # grows while it is walked
            parts += getattr(part, "children", ())
        for part in parts:
            part.close()
        super().close()

    def _narrow(self, _: Any = None) -> None:
        space = self._space.value
        within = Entries([e for e in self._all if space in (EVERYWHERE, e.op.namespace)])
        wanted = self._search.value.strip()
        narrowed = within.search(wanted)
        name = wanted.lower().replace(" ", "_")
        ranked = sorted(narrowed, key=lambda e: _distance(e, name))
        if not ranked:  # not all words occur, or some are misspelt
            ranked = list(gw.ops.search(wanted, namespace="" if space == EVERYWHERE else space))
        self._count.value = f"{len(ranked)} of {len(self._all)}"
        self._list.options = [(e.call.removeprefix("gw."), e) for e in ranked]
        self._list.value = ranked[0] if ranked else None

    def _show(self, _: Any = None) -> None:
        entry = self.entry
        if entry is None:
            self._page.value, graph = "", None
        else:
            printed, graph = run_example(entry)
            self._page.value = STYLE + page(entry, printed)
        self._draw(graph)

    def _draw(self, graph: Graph | None) -> None:
        old = self._drawing.children
        drawn = graph if graph is not None and 0 < len(graph.nodes) <= MOST_NODES else None
        self._drawing.children = [] if drawn is None else [GraphView(drawn, height=300)]
        for view in old:
            view.close()


def _distance(entry: Entry, wanted: str) -> int:
    """Return how far a name is from what was typed: the same, beginning with it, or else."""
    names = [entry.name, entry.onnx, *entry.samediff, *(n.split(".")[1] for n in entry.samediff)]
    names += spellings(entry.name)
    plain = {n.lower().replace("_", "") for n in names}
    if not wanted or wanted.replace("_", "") in plain:
        return 0
    return 1 if entry.name.startswith(wanted) else 2 if wanted in entry.name else 3


def run_example(entry: Entry) -> tuple[str, Graph | None]:
    """Run the example of an op's documentation; return what it printed, and the graph it made.

    >>> import gradwright as gw
    >>> run_example(gw.ops.find("relu"))[0].startswith(">>> ")
    True
    """
    names: dict[str, Any] = {"gw": gw, "np": np}
    transcript: list[str] = []
    for example in doctest.DocTestParser().get_examples(entry.doc):
        lines = example.source.rstrip().split("\n")
        transcript += [f">>> {lines[0]}", *(f"... {line}" for line in lines[1:])]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), _shown_as_text():
            try:
                exec(compile(example.source, f"<example of {entry.name}>", "single"), names)
            except Exception:
                transcript.append(traceback.format_exc(limit=0).rstrip())
                break
        if text := printed.getvalue().rstrip():
            transcript.append(text)
    graphs = [v for v in names.values() if isinstance(v, Graph)]
    return "\n".join(transcript), graphs[-1] if graphs else None


@contextlib.contextmanager
def _shown_as_text() -> Iterator[None]:
    """Print what an expression gives, as plain Python does; a notebook would make it an output."""
    kept, sys.displayhook = sys.displayhook, _print
    try:
        yield
    finally:
        sys.displayhook = kept


def _print(value: Any) -> None:
    if value is not None:
        sys.stdout.write(f"{value!r}\n")


def page(entry: Entry, printed: str) -> str:
    """Return an op's page as HTML: call, text, attributes, other names, and its example as run."""
    told = entry.descriptor
    text = re.split(r"(?m)^>>> ", entry.doc, maxsplit=1)[0].rstrip()
    parts = [f"<h3>{html.escape(entry.signature)}</h3>"]
    for number, paragraph in enumerate(text.split("\n\n")):
        tag = "pre" if number == 1 else "p"  # the formula keeps its lines
        parts.append(f"<{tag}>{_marked(paragraph)}</{tag}>")
    if told["attributes"]:
        rows = "".join(
            f"<tr><td><code>{html.escape(a['name'])}</code></td>"
            f"<td>{html.escape(shown_types(a['types']))}</td><td>{_marked(_attribute(a))}</td></tr>"
            for a in told["attributes"]
        )
        parts.append(f"<table>{rows}</table>")
    kind = told["kind"] if told["kind"] != "general" else ""
    how = "built from other ops" if told["composite"] else "primitive"
    also = [": ".join(filter(None, (kind, how))), *([f"ONNX {entry.onnx}"] if entry.onnx else [])]
    also += [f"part of ONNX's {name}" for name in told["onnx_parts"]]
    also += [f"SameDiff {name}" for name in entry.samediff]
    parts.append(f'<p class="gw-also">{html.escape("; ".join(also))}</p>')
    if printed:
        parts.append(f"<pre>{html.escape(printed)}</pre>")
    return f'<div class="gw-op">{"".join(parts)}</div>'


def _attribute(told: dict[str, Any]) -> str:
    """Return what an attribute is, what there is to choose from, and within which bounds."""
    text = str(told["doc"])
    if "choices" in told:
        text += f" One of {', '.join(map(repr, told['choices']))}."
    bounds = {"at least": "least", "at most": "most"}
    stated = [f"{words} {told[key]:g}" for words, key in bounds.items() if key in told]
    return f"{text} {' and '.join(stated).capitalize()}." if stated else text


def _marked(text: str) -> str:
    """Return documentation as HTML; what stands between double backticks is code."""
    return re.sub(r"``(.+?)``", r"<code>\1</code>", html.escape(text))
