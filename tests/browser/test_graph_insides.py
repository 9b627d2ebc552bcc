"""Nodes that open in the drawing, in a real JupyterLab and on a page that was saved."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import gradwright as gw
from gradwright_widgets import GraphView
from tests.browser.lab import NOTE, expect, place, wait_for

pytestmark = pytest.mark.browser

SETUP = f"""
{NOTE}
import numpy as np
import gradwright as gw
from gradwright_widgets import GraphView
"""
SHOW = """
view = GraphView(g, expanded=["encoder"], height=640)
view.observe(lambda change: note("selected", name=change["new"]), "selected")
view.observe(lambda change: note("expanded", paths=change["new"]), "expanded")
view
"""
ELSEWHERE = "view.selected = 'encoder/loop:2:cell/norm::mean'"


def nested():
    """Return a graph with a call in a scope in a loop, and a branch."""
    g = gw.Graph("nested")
    x = g.placeholder("x", (None, 4))

    def step(c, v):
        with c.graph.scope("cell"):
            return gw.nn.layer_norm(c + v, name="norm"), gw.exp(c)

    with g.scope("encoder"):
        c, ys = gw.scan(step, np.zeros(4, "f4"), x, name="loop")
    z = gw.cond(gw.sum(c) > 0, lambda: c * 2.0, lambda: gw.exp(c) - 1.0, name="choose")
    gw.sum(z + gw.sum(ys, axis=0), name="loss")
    return g


SETUP += f"{inspect.getsource(nested)}\ng = nested()"


def test_nodes_open_by_mark_double_click_and_keys(page, lab, screens):
    lab.write_notebook("insides.ipynb", [SETUP, SHOW, ELSEWHERE])
    page.open_notebook("insides.ipynb")
    for k in range(2):
        page.run_cell(k)
    widget = page.page.locator(".jp-Notebook .gw")
    stage = widget.locator(".gw-stage")
    widget.locator(".gw-graph[data-ready]").wait_for()

    def drawn(name):
        return stage.evaluate("(stage, name) => Boolean(stage.locate(name))", name)

    def box(name):
        return stage.evaluate("(stage, name) => stage.locate(name)", name)

    widget.evaluate("e => e.scrollIntoView({block: 'start'})")
    x, y = place(stage, "encoder/loop")
    assert not drawn("encoder/loop::carry")
    before = box("encoder/loop")
    page.page.mouse.dblclick(x - 10, y)
    wait_for(lambda: drawn("encoder/loop::carry"), "the loop to open")
    assert drawn("encoder/loop::cell/"), "scopes inside stay closed"
    assert box("encoder/loop") != before
    widget.screenshot(path=screens / "graph_insides.png")

    stage.focus()
    keys = page.page.keyboard
    keys.press("/")
    page.page.get_by_role("combobox", name="Find nodes and scopes").fill("choose")
    keys.press("Enter")
    keys.press("Escape")
    expect(widget.locator(".gw-status strong")).to_have_text("choose")
    stage.focus()
    keys.press("Enter")
    wait_for(lambda: drawn("choose:then:mul") and drawn("choose:else:sub"), "both branches")
    expect(stage).to_be_focused()
    keys.press("Enter")
    wait_for(lambda: not drawn("choose:then:mul"), "the branches to close")

    page.run_cell(2)  # what is selected elsewhere is opened
    wait_for(lambda: drawn("encoder/loop::cell/norm::mean"), "what is selected to be opened")
    expect(widget.locator(".gw-status strong")).to_have_text("encoder/loop::cell/norm::mean")
    widget.get_by_role("button", name="Outline").click()
    row = widget.locator('.gw-row[title="encoder/loop::cell/norm"]')
    expect(row).to_have_attribute("aria-expanded", "true")
    row.locator(".gw-caret").click()
    wait_for(lambda: not drawn("encoder/loop::cell/norm::mean"), "the norm to close")
    expect(widget.locator('.gw-row[aria-selected="true"]')).to_have_count(0)
    page.assert_clean()


def test_a_saved_page_keeps_what_is_open_and_opens_no_more(saved, screens):
    view = saved(GraphView(nested(), expanded=["encoder", "encoder/loop::"]), 700, 700)
    stage = view.locator(".gw-stage")
    view.locator(".gw-graph[data-ready]").wait_for()

    def drawn(name):
        return stage.evaluate("(stage, name) => Boolean(stage.locate(name))", name)

    assert drawn("encoder/loop::carry")
    view.mouse.dblclick(*place(stage, "choose"))
    view.mouse.dblclick(*place(stage, "encoder/loop::cell/"))
    wait_for(lambda: drawn("encoder/loop::cell/norm"), "a scope inside to open")
    assert not drawn("choose:then:mul")
