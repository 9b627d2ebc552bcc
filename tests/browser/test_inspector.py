"""The property sheet, the language of the search, bookmarks, files and measured colours."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright_widgets import GraphView
from tests.browser.lab import NOTE, VIEW, expect, wait_for
from tests.browser.test_graph_panel import View

pytestmark = pytest.mark.browser


def network():
    g = gw.Graph("net")
    x = g.placeholder("x", ("B", 3, 12, 12))
    for k, (a, b) in enumerate([(3, 4), (4, 8)]):
        with g.scope(f"block{k}"):
            w = g.variable("w", (b, a, 3, 3), init=gw.init.he_normal(seed=k))
            x = gw.nn.relu(gw.cnn.conv2d(x, w, stride=1 + k))
    gw.mean(x, name="loss")
    return g


FEEDS = {"x": np.random.default_rng(0).standard_normal((2, 3, 12, 12)).astype("f4")}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_saved_page_inspects_searches_and_keeps_places(saved, screens, scheme):
    widget = GraphView(network(), loss="loss", feeds=FEEDS, expanded=["block0"])
    view = View(saved(widget, 1100, 640, theme=scheme))
    page, keys = view.page, view.page.keyboard
    sheet = page.get_by_role("complementary", name="Inspector")
    expect(sheet).to_be_hidden()
    page.mouse.click(*view.place("block0/conv2d"))
    view.stage.focus()
    keys.press("i")
    expect(sheet).to_contain_text("Convolution")
    expect(sheet).to_contain_text("FLOP at B = 2")  # 2·(2·4·10·10)·27
    expect(sheet).to_contain_text("43.2k FLOP")
    expect(sheet).to_contain_text("gw.cnn.conv2d(x, w)")
    expect(sheet.get_by_text("stride", exact=True)).to_have_attribute(
        "title", "Step of the windows."
    )
    page.locator(".gw").screenshot(path=screens / f"inspector_{scheme}.png")
    sheet.get_by_role("button", name="w", exact=True).click()
    view.assert_selected("block0/w")
    keys.press("Escape")
    expect(sheet).to_be_hidden()
    expect(view.stage).to_be_focused()

    # From the drawing, too: what is open goes first, then what is selected.
    keys.press("i")
    expect(sheet).to_be_visible()
    keys.press("Escape")
    expect(sheet).to_be_hidden()
    view.assert_selected("block0/w")
    keys.press("Escape")
    view.assert_selected()

    # A path in the language of the search, and what can be typed while nothing is.
    keys.press("/")
    field = page.get_by_role("combobox", name="Find nodes and scopes")
    expect(page.get_by_text("the shape of a result")).to_be_visible()
    field.fill("conv* -> relu")
    rows, count = page.get_by_role("option"), page.locator(".gw-search-count")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("conv2d → relu")
    field.fill("strides=2")
    expect(count).to_contain_text("no node has strides; try stride")
    field.fill("op:conv2d stride=2")
    expect(count).to_have_text("1 of 1")
    page.locator(".gw").screenshot(path=screens / f"search_{scheme}.png")
    keys.press("F3")
    wait_for(lambda: view.drawn("block1/conv2d"), "the scope of the hit to open")
    view.assert_selected("block1/conv2d")
    keys.press("Escape")

    # A place is kept, left, and gone back to.
    kept = view.place("block1/conv2d")
    menu = page.get_by_role("button", name="More")
    menu.click()
    page.get_by_role("menuitem", name="Keep what is in sight").click()
    page.get_by_role("button", name="Close all scopes").click()
    wait_for(lambda: not view.drawn("block1/conv2d"), "the scopes to close")
    menu.click()
    page.get_by_role("menuitem", name="conv2d", exact=True).click()
    wait_for(lambda: view.drawn("block1/conv2d"), "the scope to open again")

    def moved():
        return max(abs(a - b) for a, b in zip(kept, view.place("block1/conv2d"), strict=True))

    wait_for(lambda: moved() < 1, "the window to be where it was")

    # A label beside the pointer leaves the neighbours in sight.
    page.mouse.move(*view.place("block1/conv2d"))
    tip = page.locator(".gw-tip")
    expect(tip).to_be_visible()
    box = tip.bounding_box()
    for name in ("block1/w", "block1/relu"):
        x, y = view.place(name)
        assert not (
            box["x"] < x < box["x"] + box["width"] and box["y"] < y < box["y"] + box["height"]
        )

    def file(kind):
        menu.click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name=kind).click()
        return download.value.suggested_filename, download.value.path().read_bytes()

    name, pdf = file("PDF")
    assert name == "net.pdf" and pdf.startswith(b"%PDF-1.4") and pdf.isascii()
    name, chart = file("Mermaid")
    assert name == "net.mmd" and chart.startswith(b"flowchart TB\n") and b"conv2d" in chart

    page.get_by_role("button", name="Colour by").click()
    page.get_by_role("menuitemradio", name="Arithmetic (FLOP)").click()
    expect(page.locator(".gw-scale")).to_contain_text("arithmetic at B = 2")
    page.get_by_role("button", name="Colour by").click()
    page.get_by_role("menuitemradio", name="Dtype").click()
    expect(page.locator(".gw-kinds")).to_contain_text("f32")


CELLS = [
    f"""
{NOTE}
import sys
sys.path.insert(0, {str(__import__("pathlib").Path(__file__).parents[2])!r})
from gradwright_widgets import Workbench
from tests.browser.test_inspector import FEEDS, network
bench = Workbench(network(), loss="loss", feeds=FEEDS, expanded=["block0"], tab="step")
def told(change):
    note("measured", by=change["new"].get("by"), known="values" in change["new"])
bench.observe(told, "measured")
bench
""",
    "bench.selected = 'block0/relu'; bench.inspector = True; _ = bench.stepper.run_to('loss')",
]


def test_the_kernel_tells_values_measures_and_copies(page, lab, screens):
    lab.write_notebook("inspector.ipynb", CELLS)
    page.open_notebook("inspector.ipynb")
    view = page.page
    view.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.run_cell(0)
    view.locator(".gw-graph[data-ready]").wait_for()
    page.run_cell(1)
    sheet = view.get_by_role("complementary", name="Inspector")
    expect(sheet).to_contain_text("in the stepper's run")
    expect(sheet.locator(".gw-sheet-thumb")).to_be_visible()
    expect(sheet).to_contain_text("made at")
    view.get_by_role("button", name="Colour by").click()
    view.get_by_role("menuitemradio", name="Norm of the gradient").click()
    lab.event("measured", by="gradient", known=True)
    expect(view.locator(".gw-scale")).to_contain_text("gradient norm")
    expect(sheet).to_contain_text("gradient norm")
    view.locator(VIEW).first.screenshot(path=screens / "inspector_live.png")
    sheet.get_by_role("button", name="Copy as code").click()
    wait_for(lambda: "relu = gw.nn.relu(" in view.evaluate("navigator.clipboard.readText()"),
             "the code to be on the clipboard")  # fmt: skip
    page.assert_clean()
