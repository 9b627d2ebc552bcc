"""Adapters in JupyterLab: switched in the drawing, trained, merged and loaded by clicks."""

from __future__ import annotations

import re

import pytest

from tests.browser.lab import NOTE, VIEW, expect, place
from tests.browser.test_accessible import assert_accessible

pytestmark = pytest.mark.browser

SETUP = f"""
{NOTE}
import numpy as np
import gradwright as gw
from gradwright_widgets import AdapterPanel, Workbench

g = gw.Graph("net")
x, t = g.placeholder("x", ("B", 8)), g.placeholder("t", ("B", 4))
with g.scope("hidden"):
    h = gw.nn.relu(x @ g.variable("w", (8, 16), init=gw.init.he_normal(seed=0)))
with g.scope("head"):
    y = h @ g.variable("w", (16, 4), init=gw.init.he_normal(seed=1))
loss = gw.loss.mean_squared_error(t, y, name="loss")
rng = np.random.default_rng(0)
data = {{"x": rng.standard_normal((32, 8), "f"), "t": rng.standard_normal((32, 4), "f")}}
"""
BENCH = """
bench = Workbench(g, loss=loss, feeds=data, tab="step", expanded=["hidden"], height=560)
bench
"""
ADD = """
adapted = gw.adapters.add(g, gw.adapters.LoRA(r=2), where="hidden/w")
gw.adapters.save(adapted, "saved/rhymes")
bench.expanded = ["hidden", "hidden/w"]
"""
PANEL = """
trainer = gw.Trainer(g, loss, gw.optim.Adam(0.02))
panel = AdapterPanel(g, trainer, folder="saved", height=520)
panel
"""
TRAIN = """
trainer.fit([data] * 60, progress=False)
note("norm", value=panel.measure_deltas()["default", "hidden/w"][0] > 0)
"""


def test_adapters_are_seen_switched_trained_and_merged(page, lab, screens):
    lab.write_notebook("adapters.ipynb", [SETUP, BENCH, ADD, PANEL, TRAIN])
    page.open_notebook("adapters.ipynb")
    view = page.page
    for cell in range(2):
        page.run_cell(cell)
    bench = view.locator(".gw-bench")
    bench.locator(".gw-graph[data-ready]").wait_for()

    # The tab comes with the first adapter, and the drawing has its scope, whose switch is clicked.
    tab = bench.get_by_role("tab", name="Adapters")
    expect(tab).to_be_hidden()
    page.run_cell(2)
    expect(tab).to_be_visible()
    expect(bench.locator(".gw-graph .gw-status")).to_contain_text("adapter")
    stage = bench.locator(".gw-stage")
    x, y = place(stage, "hidden/w/default/")
    edits = bench.locator("xpath=ancestor::*[contains(@class, 'gw')]").locator(".gw-edits").first
    for right in range(40, 100, 6):  # the switch stands at the right end of the box
        view.mouse.click(x + right, y)
        view.wait_for_timeout(150)
        if edits.count() and edits.is_visible():
            break
    expect(edits).to_contain_text("1 change")
    tab.click()
    switch = bench.get_by_role("switch", name="Compute with default")
    expect(switch).not_to_be_checked()
    switch.click()
    expect(switch).to_be_checked()
    page.set_theme("JupyterLab Light")
    view.locator(VIEW).first.screenshot(path=screens / "adapters_bench_light.png")

    # Norms and singular values follow a training.
    for cell in (3, 4):
        page.run_cell(cell)
    lab.event("norm", value=True)
    panel = view.locator(".gw-adapters").last
    panel.scroll_into_view_if_needed()
    row = panel.locator('tr[data-place="hidden/w"]')
    expect(row).to_contain_text("lora_A 2×8")
    expect(row.locator(".gw-figure-line path")).to_be_visible()
    row.get_by_role("button", name="hidden/w").click()
    expect(panel.get_by_role("img", name=re.compile("Singular values: "))).to_be_visible()
    expect(panel.locator("figcaption").filter(has_text="Norm")).to_contain_text("steps 0 to 60")

    # What a merge would cost, the merge itself, and back.
    panel.get_by_role("button", name="Drift").click()
    expect(panel.get_by_role("status")).to_contain_text("A merge moves")
    panel.get_by_role("button", name="Merge", exact=True).click()
    expect(panel.locator(".gw-adapter .gw-chip")).to_have_text("merged")
    expect(panel.get_by_role("switch")).to_be_disabled()
    panel.get_by_role("button", name="Unmerge").click()
    expect(panel.get_by_role("switch")).to_be_checked()

    # One from disk stands beside it; what a hand weighs is told.
    panel.locator("summary", has_text="On disk").click()
    panel.get_by_role("button", name="Load rhymes").click()
    expect(panel.locator(".gw-adapter")).to_have_count(2)
    weight = panel.get_by_label("Weight of rhymes")
    weight.fill("0.5")
    weight.press("Enter")
    expect(panel.get_by_label("Weight of rhymes")).to_have_value("0.5")
    assert_accessible(panel)
    page.set_theme("JupyterLab Dark")
    panel.screenshot(path=screens / "adapters_dark.png")
    assert_accessible(panel, "JupyterLab Dark")
