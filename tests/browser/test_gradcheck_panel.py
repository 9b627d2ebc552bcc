"""The gradient check in a real JupyterLab: start, see, look closer, stop, reload."""

from __future__ import annotations

import re

import pytest

from tests.browser.lab import EVIL, NOTE, expect

pytestmark = pytest.mark.browser

SETUP = f"""
{NOTE}
import numpy as np
import gradwright as gw
from gradwright_widgets import GradCheckPanel

@gw.register("test/bad_cap")
class BadCap(gw.Op):
    '''Cap softly.

    y = tanh(x)
    '''
    def infer(self, x): return x.with_shape(x.shape)
    def forward(self, x): return np.tanh(x)
    def vjp(self, gs, ys, xs): return (gs[0] * (1.0 - ys[0] * ys[0]) * 0.5,)

rng = np.random.default_rng(0)
g = gw.Graph("capped")
x = g.placeholder("x", ("B", 16))
w = g.variable("w", (16, 24), init=gw.init.he_normal(seed=0))
b = g.variable({EVIL!r}, (24,))
h = BadCap()(x @ w + b, name="cap")
loss = gw.square(h).mean(name="loss")
"""

SHOW = """
panel = GradCheckPanel(g, loss=loss, feeds={"x": rng.standard_normal((8, 16)).astype("f4")})
panel.observe(lambda change: note("state", value=change["new"]), "check_state")
panel.observe(lambda change: note("blamed", names=change["new"]), "blamed")
panel.observe(lambda change: note("selected", name=change["new"]), "selected")
panel.observe(lambda change: note("focus", **change["new"]), "check_focus")
panel
"""

LATE = """
import threading
gate, forward = threading.Event(), BadCap.forward
def late(self, x):
    if threading.current_thread() is not threading.main_thread():
        gate.wait(0.004 if x.ndim == 2 else 0.4)  # many elements at once have an axis of their own
    return forward(self, x)
BadCap.forward = late
"""

IN_TIME = """
BadCap.forward = forward
panel.check(max_per_param=4, wait=True)
panel.curve("w", (0, 0)) and None
"""


def test_a_check_runs_and_is_looked_at(page, lab, screens):
    lab.write_notebook("check.ipynb", [SETUP, SHOW, LATE, IN_TIME])
    page.open_notebook("check.ipynb")
    view = page.page
    for cell in range(2):
        page.run_cell(cell)
    panel = view.locator(".gw-check")
    panel.wait_for()
    panel.scroll_into_view_if_needed()
    expect(panel).to_contain_text("compares every gradient", use_inner_text=True)

    # The button starts it; the broken op is named, and a click selects it.
    panel.get_by_role("button", name="Check", exact=True).click()
    lab.event("state", value="done")
    lab.event("blamed", names=["cap"])
    finding = panel.locator('.gw-finding[data-verdict="fail"]').first
    expect(panel).to_have_attribute("data-state", "done")
    expect(finding).to_contain_text("test/bad_cap 'cap'")
    expect(finding).to_contain_text("0.5 times what it should be")
    finding.get_by_role("button", name="show").click()
    lab.event("selected", name="cap")
    page.set_theme("JupyterLab Light")
    panel.screenshot(path=screens / "gradcheck_light.png")

    # Names are text.
    expect(panel.locator("tr", has_text=EVIL)).to_have_count(1)
    assert view.evaluate("window.executed") is None

    # Ops have their own table; only what is wrong, if asked for.
    panel.get_by_role("button", name="Ops 5").click()
    listed = panel.locator("tbody tr:visible")
    expect(listed).to_have_count(5)
    panel.get_by_label("Only trouble").check()
    expect(listed).to_have_count(1)
    panel.get_by_label("Only trouble").uncheck()
    panel.get_by_role("button", name="Parameters 2").click()

    # A parameter opens as a map; the keyboard walks over it and opens an element.
    panel.locator("tr", has_text="24").first.get_by_role("button", name="w", exact=True).click()
    info = panel.locator(".gw-check-info")
    expect(info).to_contain_text("20 of 384 elements checked")
    element_map = panel.locator(".gw-map")
    element_map.focus()
    view.keyboard.press("ArrowRight")
    view.keyboard.press("ArrowRight")
    expect(info).to_contain_text("error 0.5, wrong")
    view.keyboard.press("Enter")
    looked_at = lab.event("focus", name="w", part="real")
    words = panel.locator(".gw-check-words")
    expect(words).to_contain_text("Wrong: the gradient is")
    page.set_theme("JupyterLab Dark")
    panel.screenshot(path=screens / "gradcheck_dark.png")

    # A reload brings back what was looked at.
    page.reload_notebook("check.ipynb")
    panel.wait_for()
    expect(words).to_contain_text("Wrong: the gradient is")
    picked = panel.locator(".gw-check-picks option:checked")
    expect(picked).to_have_text(re.compile("^" + re.escape(str(looked_at["index"]))))
    panel.get_by_role("button", name="Back to all parameters").click()
    finding.wait_for()

    # A long check shows how far it is, and stops when told to.
    page.run_cell(2)
    panel.get_by_label("Elements of each parameter").select_option("all")
    panel.get_by_role("button", name="Check again").click()
    lab.event("state", value="running")
    now = panel.locator(".gw-check-now")
    expect(now).to_contain_text(" left · w")

    # Its rows are built anew all the while, but not under a pointer that is down.
    name = panel.locator("tbody tr:visible").get_by_role("button", name="w", exact=True)
    name.hover()
    view.mouse.down()
    pressed = name.element_handle()
    view.wait_for_timeout(1000)
    assert pressed.evaluate("(node) => node.isConnected")
    view.mouse.up()
    expect(info).to_contain_text("of 384 elements checked")
    panel.get_by_role("button", name="Stop").click()
    lab.event("state", value="stopped")
    expect(panel).to_contain_text("Stopped early, after", use_inner_text=True)

    # What code does shows in the panel.
    page.run_cell(3)
    expect(info).to_contain_text("4 of 384 elements")
    expect(picked).to_contain_text("[0, 0]")
    page.assert_clean()
