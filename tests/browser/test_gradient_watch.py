"""The watch of the gradients and the explanation of one, in a real JupyterLab."""

from __future__ import annotations

import re

import pytest

from tests.browser.lab import NOTE, expect, wait_for

pytestmark = pytest.mark.browser

SETUP = f"""
{NOTE}
import numpy as np
import gradwright as gw
from gradwright_widgets import Workbench

bad = gw.define_op("watched/cube", lambda x: x**3, vjp=lambda g, y, x: g * 2.0 * x**2)
g = gw.Graph("net")
x = g.placeholder("x", (None, 4))
with g.scope("encoder"):
    h = gw.nn.relu(x @ g.variable("w", (4, 8), init=gw.init.he_normal(seed=0)) - 50.0)
    h = h + x @ g.variable("v", (4, 8), init=gw.init.he_normal(seed=1))
c, _ = gw.scan(
    lambda c, row: (bad(gw.tanh(c + row), name="third"), None), np.full(8, 0.5, "f4"), h,
    name="loop",
)
loss = gw.mean(gw.square(c), name="loss")
trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.01))
data = {{"x": np.random.default_rng(0).standard_normal((64, 4)).astype("f4")}}
"""

SHOW = """
bench = Workbench(g, trainer, data=data, batch_size=8, epochs=10**6, height=640, tab="check")
for trait in ("selected", "watch_on", "watch_pause", "state", "blamed", "why"):
    bench.observe(lambda change, t=trait: note(t, value=change["new"]), trait)
bench
"""


def test_a_wrong_gradient_stops_the_training_and_is_shown_where_it_is(page, lab, screens):
    lab.write_notebook("watch.ipynb", [SETUP, SHOW])
    page.open_notebook("watch.ipynb")
    for k in range(2):
        page.run_cell(k)
    widget = page.page.locator(".jp-Notebook .gw")
    widget.locator(".gw-graph[data-ready]").wait_for()
    widget.evaluate("e => e.scrollIntoView({block: 'start'})")
    stage, watch = widget.locator(".gw-stage"), widget.locator(".gw-watch")

    def drawn(name):
        return stage.evaluate("(stage, name) => Boolean(stage.locate(name))", name)

    watch.get_by_label("Watch while training").check()
    lab.event("watch_on", value=True)
    watch.get_by_label("Pause at an error above noise").check()
    lab.event("watch_pause", value=True)
    widget.get_by_role("tab", name="Train", exact=True).click()
    widget.get_by_role("button", name="Start", exact=True).click()
    lab.event("state", value="paused")
    lab.event("blamed", value=["loop::third"])
    widget.get_by_role("tab", name="Check", exact=True).click()
    expect(watch).to_have_attribute("data-state", "alarm")
    alarm = watch.locator(".gw-finding")
    expect(alarm).to_contain_text("watched/cube")
    expect(alarm).to_contain_text("0.66667 times what it should be")
    strip = watch.locator(".gw-watch-strip")
    expect(strip).to_have_attribute("aria-label", re.compile("above noise"))
    strip.focus()
    page.page.keyboard.press("End")
    expect(watch.locator(".gw-watch-reading strong")).to_have_text("loop")
    alarm.get_by_role("button", name="show").click()
    lab.event("selected", value="loop::third")
    wait_for(lambda: drawn("loop::third"), "the loop to open at the fault")
    widget.screenshot(path=screens / "gradient_watch.png")

    widget.get_by_role("tab", name="Parameters", exact=True).click()
    row = widget.locator('tr[data-name="encoder/w"]')
    row.hover()
    row.get_by_role("button", name="Why is the gradient of encoder/w as it is?").click()
    card = widget.locator(".gw-why")
    expect(card.locator("strong")).to_have_text("The gradient of 'loss' for 'encoder/w' is 0")
    expect(card).to_contain_text("it dies at relu 'encoder/relu'")
    widget.screenshot(path=screens / "gradient_why.png")
    card.get_by_role("button", name="Show encoder/relu").click()
    lab.event("selected", value="encoder/relu")
    card.get_by_role("button", name="Take the path off the drawing").click()
    expect(card).to_be_hidden()
    page.assert_clean()
