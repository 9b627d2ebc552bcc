"""What a widget outlives: two views, scrolling away, a cell run again, a restarted kernel."""

from __future__ import annotations

import pytest

from tests.browser.lab import NOTE, expect, wait_for

pytestmark = pytest.mark.browser

SETUP = f"""
{NOTE}
import threading
import gradwright as gw
from gradwright_widgets import Workbench

g = gw.Graph("digits")
x = g.placeholder("x", (None, 16))
with g.scope("hidden"):
    h = gw.nn.relu(x @ g.variable("w", (16, 32)) + g.variable("b", (32,)))
"""

SHOW = """
before = threading.active_count()
bench = Workbench(g, expanded=[])
bench
"""

AGAIN = "bench"

LONG = 200
"""Cells between: JupyterLab hides an output only when it is far away."""

COUNT = """
import gc
from ipywidgets import Widget
gc.collect()
open_widgets = [w for w in Widget.widgets.values() if isinstance(w, Workbench)]
note("open", n=len(open_widgets), ours=bench.comm is not None)
"""

CLOSE = """
bench.close()
names = {t.name for t in threading.enumerate() if "gradwright" in t.name}
note("closed", threads=sorted(names - {"gradwright side panel"}))  # it looks while the page listens
"""


def test_views_that_come_and_go(page, lab):
    with page.setting("@jupyterlab/notebook-extension:tracker", windowingMode="full"):
        come_and_go(page, lab)


def come_and_go(page, lab):
    lab.write_notebook("survival.ipynb", [SETUP, SHOW, AGAIN, *["1"] * LONG, COUNT, CLOSE])
    page.open_notebook("survival.ipynb")
    view = page.page
    for cell in range(3):
        page.run_cell(cell)
    graphs = view.locator(".gw-graph[data-ready]")
    expect(graphs).to_have_count(2)

    def boxes(which: int) -> str:
        return str(graphs.nth(which).get_attribute("data-boxes"))

    # Both views show the same state.
    closed = boxes(0)
    graphs.nth(0).locator("button[aria-label='Open all scopes']").click()
    wait_for(lambda: boxes(0) != closed and boxes(0) == boxes(1), "both views to open")

    # Scrolled out of a long notebook and back, they are drawn again.
    def scroll(cell: int) -> None:
        view.evaluate(
            """(k) => {
              const notebook = window.jupyterapp.shell.currentWidget.content;
              notebook.activeCellIndex = k;
              notebook.scrollToItem(k, 'start');
            }""",
            cell,
        )

    def in_sight(cell: int, wanted: bool) -> bool:
        scroll(cell)  # again and again: a page that is being built scrolls back
        return bool(graphs.first.is_visible()) == wanted

    wait_for(lambda: in_sight(LONG - 10, False), "the output to leave the page")
    wait_for(lambda: in_sight(1, True), "the output to be back")

    def painted() -> bool:
        return bool(
            graphs.first.locator(".gw-stage canvas").evaluate_all(
                "([c]) => c?.width > 0 && c.height > 0 &&"
                " c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v !== 0)"
            )
        )

    wait_for(lambda: in_sight(1, True) and painted(), "the drawing to be painted again")

    # A cell that runs again replaces its widget: the old one is closed in the kernel.
    page.run_cell(1)
    page.run_cell(2)
    page.run_cell(LONG + 3)
    assert lab.event("open") == {"kind": "open", "n": 1, "ours": True}

    # A kernel that is gone leaves the picture, and says so.
    wait_for(lambda: in_sight(1, True), "the output to be back")
    view.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
    )
    notice = view.locator(".gw-notice:visible").first
    expect(notice).to_contain_text("Run the cell again")
    expect(graphs.first).to_be_visible()

    for cell in range(2):
        page.run_cell(cell)
    graphs.first.wait_for()
    page.run_cell(LONG + 4)
    assert lab.event("closed")["threads"] == []
    assert page.errors == []
    assert page.outside == []
