"""Cards in a browser: what they say, opened and closed, found, stepped to, coloured."""

from __future__ import annotations

import pytest

import gradwright as gw
from gradwright_widgets import GraphView, Workbench
from tests.browser.lab import expect, place, redraw, wait_for
from tests.widgets import unnamed_models

pytestmark = pytest.mark.browser

RUN = "attention, 4 heads + mlp × 6"


class View:
    """A drawing on a page of its own."""

    def __init__(self, page):
        self.page = page
        page.locator(".gw-graph[data-ready]").wait_for()
        self.stage = page.locator(".gw-stage")

    def drawn(self, name):
        return self.stage.evaluate("(stage, name) => Boolean(stage.locate(name))", name)

    def waits_for(self, name, drawn=True):
        wait_for(lambda: self.drawn(name) is drawn, f"{name} to be {'' if drawn else 'un'}drawn")
        redraw(self.page)

    def double(self, name):
        self.page.mouse.dblclick(*place(self.stage, name))


def test_cards_open_to_their_nodes_and_repeats_together(saved, screens):
    view = View(saved(GraphView(unnamed_models.decoder(6), expanded=[]), 1100, 700))
    assert view.drawn(f"{RUN}/") and not view.drawn("n2")
    view.double(f"{RUN}/")
    blocks = [f"attention, 4 heads + mlp{k}/" for k in ("", "_2", "_6")]
    view.waits_for(blocks[0])
    view.page.get_by_role("button", name="Fit the drawing").click()
    redraw(view.page)
    view.double(blocks[0])
    view.waits_for("attention, 4 heads_6/")
    view.page.screenshot(path=screens / "cards_repeats.png")
    view.page.get_by_role("button", name="Close all scopes").click()
    view.waits_for(f"{RUN}/")
    view.page.get_by_role("button", name="Fit the drawing").click()
    redraw(view.page)
    view.double("n2/")
    view.waits_for("n2")
    assert view.drawn("r1"), "the weight of the embedding"
    view.page.screenshot(path=screens / "cards_opened.png")


def test_the_outline_reads_cards_and_the_search_finds_rows(saved):
    view = View(saved(GraphView(unnamed_models.densenet((2, 3))), 1100, 700))
    view.page.get_by_role("button", name="Outline").click()
    rows = view.page.locator(".gw-row")
    expect(rows.nth(1)).to_contain_text("conv 3×3, 3 → 8")
    expect(rows.nth(1)).to_contain_text("batch norm · scale, shift · relu · 7 w")
    view.page.keyboard.press("/")
    box = view.page.get_by_role("combobox", name="Find nodes and scopes")
    box.fill("conv 1x1, 16 -> 8")
    hit = view.page.locator(".gw-hit").first
    expect(hit).to_be_visible()
    hit.click()
    expect(view.page.locator(".gw-status strong")).to_have_text("conv 1×1, 16 → 8")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_steps_gradients_and_colours_stand_on_cards(saved, screens, theme):
    g = gw.Graph("layers")
    x = g.placeholder("x", (2, 8))
    weights = [g.variable(f"w{k}", (8, 8), init=gw.init.he_normal(seed=k)) for k in range(24)]
    for w in weights:
        x = gw.nn.relu(x @ w)
    loss = gw.mean(x, name="loss")
    gw.gradients(loss, weights)
    g.freeze(weights[0])
    bench = Workbench(g, loss=loss, gradients=True, tab="step", expanded=["linear 8 → 8 × 24"])
    bench.set_overlay("norm", {w: float(k) for k, w in enumerate(weights)})
    page = saved(bench, 1440, 800, theme)
    view = View(page)
    assert view.drawn("grad/loss/matmul/") and view.drawn("matmul/") and not view.drawn("w0")
    page.mouse.click(*place(view.stage, "matmul/"))
    status = page.locator(".gw-graph .gw-status")
    expect(status).to_contain_text("frozen")
    expect(status).to_contain_text("linear 8 → 8")
    expect(status).to_contain_text("card · relu · 1 w")
    page.screenshot(path=screens / f"cards_bench_{theme}.png")
