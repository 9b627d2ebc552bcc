"""Run by the site's kernel before a notebook: a page keeps what its widgets and plots show.

A widget becomes the page that its ``to_html`` writes, in a frame, over the still picture that
readers without JavaScript get. A plot becomes its own JSON, which ``site.js`` hands to plotly.
"""

import html
from typing import Any

import plotly.io
from IPython.display import publish_display_data
from plotly.io.base_renderers import MimetypeRenderer

from gradwright_widgets import GraphView, OpReference
from gradwright_widgets.host.base import BaseWidget
from gradwright_widgets.panels.ops.panel import STYLE, page, run_example


def framed(widget: BaseWidget) -> str:
    """Return a widget as a page in a frame, and its still picture for readers without scripts."""
    still = widget.static()._repr_mimebundle_().get("text/html", "")
    title = f"{type(widget).__name__}, as it can be explored without a kernel"
    return (
        f'<noscript>{still}</noscript><iframe class="site-view" loading="lazy" title="{title}" '
        f'style="height: {widget.height + 70}px" srcdoc="{html.escape(widget.to_html())}">'
        "</iframe>"
    )


def show_widget(widget: BaseWidget) -> None:
    """Show a widget."""
    publish_display_data({"text/html": framed(widget), "text/plain": type(widget).__name__})


def show_op(reference: OpReference) -> None:
    """Show the page of the op that a reference shows, and the graph of its example."""
    printed, graph = run_example(reference.entry)
    told = STYLE + page(reference.entry, printed)
    drawn = framed(GraphView(graph, height=300)) if graph is not None else ""
    publish_display_data({"text/html": told + drawn, "text/plain": "OpReference"})


class PlotRenderer(MimetypeRenderer):
    """Writes a figure as JSON into an element that ``site.js`` draws."""

    def to_mimebundle(self, figure: dict[str, Any]) -> dict[str, str]:
        """Return the element of a figure."""
        told = html.escape(plotly.io.to_json(figure, validate=False))
        return {"text/html": f'<div class="site-plot" data-figure="{told}"></div>'}


BaseWidget._ipython_display_ = show_widget
OpReference._ipython_display_ = show_op
plotly.io.renderers["site"] = PlotRenderer()
plotly.io.renderers.default = "site"
