"""The comparison with ONNX Runtime in JupyterLab: start, see, find in the drawing, reload."""

from __future__ import annotations

import pytest

from tests.browser.lab import EVIL, NOTE, VIEW, expect

pytest.importorskip("onnxruntime", reason="no onnxruntime: pip install -e '.[onnxruntime]'")
pytestmark = pytest.mark.browser

SETUP = f"""
{NOTE}
import numpy as np
import gradwright as gw
from gradwright.op import find_op
from gradwright_widgets import Workbench

g = gw.Graph("beside")
x = g.placeholder("x", ("B", 4))
h = gw.tanh(x @ g.variable({EVIL!r}, (4, 3), init=gw.init.he_normal(seed=0)), name="h")
last, _ = gw.scan(lambda c, row: (gw.sin(c + row), None), g.variable("c", (3,)), h, name="loop")
gw.exp(last, name="y")
cls = find_op("sin")
right = cls.forward
"""

SHOW = """
bench = Workbench(g, feeds={"x": np.ones((2, 4), "f")}, tab="onnx", height=520, expanded=["loop::"])
bench.observe(lambda change: note("state", value=change["new"]), "onnx_state")
bench.observe(lambda change: note("selected", name=change["new"]), "selected")
bench.observe(lambda change: note("color", value=change["new"]), "color_by")
bench
"""

WRONG = "cls.forward = lambda self, x: (right(self, x) * 1.01).astype(x.dtype)"


def test_a_comparison_runs_and_leads_to_the_node(page, lab, screens):
    lab.write_notebook("beside.ipynb", [SETUP, SHOW, WRONG])
    page.open_notebook("beside.ipynb")
    view = page.page
    for cell in range(2):
        page.run_cell(cell)
    panel = view.locator(".gw-compare")
    panel.wait_for()
    panel.scroll_into_view_if_needed()
    expect(panel).to_contain_text("beside ONNX Runtime on the example", use_inner_text=True)

    # The button starts it; a right graph agrees, and the drawing is coloured.
    panel.get_by_role("button", name="Compare", exact=True).click()
    lab.event("state", value="done")
    lab.event("color", value="overlay")
    finding = panel.locator(".gw-compare-finding")
    expect(finding).to_contain_text("nodes agree")
    rows = panel.locator("tbody tr")
    expect(rows.first).to_be_visible()
    assert view.evaluate("window.executed") is None  # names are text

    # A wrong op is named; a click leads to it inside of the loop.
    page.run_cell(2)
    panel.get_by_role("button", name="Compare again").click()
    expect(finding).to_contain_text("the first that differs is sin 'loop:0:sin'")
    expect(finding).to_contain_text("onnx.reference agrees with ONNX Runtime")
    finding.get_by_role("button", name="show").click()
    lab.event("selected", name="loop::sin")
    expect(panel.locator("tbody tr.gw-selected").first).to_contain_text("loop:0:sin")
    page.set_theme("JupyterLab Light")
    view.locator(VIEW).screenshot(path=screens / "compare_light.png")
    page.set_theme("JupyterLab Dark")
    view.locator(VIEW).screenshot(path=screens / "compare_dark.png")

    # Only what differs, sorted by how much; the colours go and come.
    panel.get_by_label("Only what differs").check()
    expect(rows).to_have_count(1)
    panel.get_by_label("Only what differs").uncheck()
    panel.get_by_role("button", name="Of rounding").click()
    expect(rows.first).to_contain_text("loop")
    panel.get_by_label("In the drawing").uncheck()
    lab.event("color", value="category")

    # A reload brings back what was found.
    page.reload_notebook("beside.ipynb")
    panel.wait_for()
    expect(finding).to_contain_text("the first that differs is sin")
