"""Gradients beside their nodes in JupyterLab: switched on, walked to and fro, opened."""

from __future__ import annotations

import pytest

from tests.browser.lab import NOTE, place, wait_for

pytestmark = pytest.mark.browser

CELL = f"""
{NOTE}
import gradwright as gw
from gradwright_widgets import GraphView

g = gw.Graph("net")
h = g.placeholder("x", ("B", 8))
for k in range(2):
    with g.scope(f"layer{{k}}"):
        h = gw.nn.relu(h @ g.variable("w", (8, 8)))
gw.sum(h, name="loss")
view = GraphView(g, loss="loss", expanded=["layer0"])
for trait in ("gradients", "selected", "expanded"):
    view.observe(lambda c: note(c["name"], value=c["new"]), trait)
view
"""


def test_gradients_are_switched_on_and_walked_through(page, lab):
    lab.write_notebook("pairing.ipynb", [CELL])
    page.open_notebook("pairing.ipynb")
    view = page.page
    page.run_cell(0)
    stage = view.locator(".gw-stage")
    view.locator(".gw-graph[data-ready]").wait_for()

    def drawn(name):
        return stage.evaluate("(stage, name) => Boolean(stage.locate(name))", name)

    twin = "grad/loss/layer0/relu/"
    assert drawn("layer0/relu") and not drawn(twin)
    view.get_by_role("button", name="Gradients beside their nodes").click()
    lab.event("gradients", value=True)
    gradient, node = place(stage, twin), place(stage, "layer0/relu")
    assert gradient[0] > node[0] and abs(gradient[1] - node[1]) < 0.5

    view.mouse.click(*node)
    lab.event("selected", value="layer0/relu")
    view.keyboard.press("g")
    lab.event("selected", value=twin)
    view.locator(".gw-status").get_by_text("gradient of layer0/relu").wait_for()

    view.mouse.dblclick(*place(stage, twin))
    lab.event("expanded", value=["grad/loss/layer0/relu", "layer0"])
    wait_for(lambda: drawn("grad/loss/layer0/relu/where"), "the nodes of the gradient")

    view.get_by_role("button", name="Gradients beside their nodes").click()
    lab.event("gradients", value=False)
    wait_for(lambda: drawn("layer0/relu") and not drawn(twin), "the forward nodes alone")
    page.assert_clean()
