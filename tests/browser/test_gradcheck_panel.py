"""The gradient check in a real JupyterLab: start, see, look closer, stop, reload."""

from __future__ import annotations

import pytest

from tests.browser.lab import EVIL, NOTE, wait_for

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
        gate.wait(0.02)
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
    assert "compares every gradient" in panel.inner_text()

    # The button starts it; the broken op is named, and a click selects it.
    panel.get_by_role("button", name="Check", exact=True).click()
    lab.event("state", value="done")
    lab.event("blamed", names=["cap"])
    finding = panel.locator('.gw-finding[data-verdict="fail"]').first
    finding.wait_for()
    assert "test/bad_cap 'cap'" in finding.inner_text()
    assert "0.5 times what it should be" in finding.inner_text()
    finding.get_by_role("button", name="show").click()
    lab.event("selected", name="cap")
    page.set_theme("JupyterLab Light")
    panel.screenshot(path=screens / "gradcheck_light.png")

    # Names are text.
    assert panel.locator("tr", has_text=EVIL).count() == 1
    assert view.evaluate("window.executed") is None

    # Ops have their own table; only what is wrong, if asked for.
    panel.get_by_role("button", name="Ops 5").click()
    assert panel.locator("tbody tr:visible").count() == 5
    panel.get_by_label("Only trouble").check()
    assert panel.locator("tbody tr:visible").count() == 1
    panel.get_by_label("Only trouble").uncheck()
    panel.get_by_role("button", name="Parameters 2").click()

    # A parameter opens as a map; the keyboard walks over it and opens an element.
    panel.locator("tr", has_text="24").first.get_by_role("button", name="w", exact=True).click()
    info = panel.locator(".gw-check-info")
    wait_for(lambda: "20 of 384 elements checked" in info.inner_text(), "the map")
    element_map = panel.locator(".gw-map")
    element_map.focus()
    view.keyboard.press("ArrowRight")
    view.keyboard.press("ArrowRight")
    wait_for(lambda: "error 0.5, wrong" in info.inner_text(), "an element under the cursor")
    view.keyboard.press("Enter")
    looked_at = lab.event("focus", name="w", part="real")
    words = panel.locator(".gw-check-words")
    wait_for(lambda: "Wrong: the gradient is" in words.inner_text(), "the curve")
    page.set_theme("JupyterLab Dark")
    panel.screenshot(path=screens / "gradcheck_dark.png")

    # A reload brings back what was looked at.
    page.reload_notebook("check.ipynb")
    panel.wait_for()
    wait_for(lambda: "Wrong: the gradient is" in words.inner_text(), "the curve after a reload")
    assert (
        panel.locator(".gw-check-picks option:checked")
        .inner_text()
        .startswith(str(looked_at["index"]))
    )
    panel.get_by_role("button", name="Back to all parameters").click()
    finding.wait_for()

    # A long check shows how far it is, and stops when told to.
    page.run_cell(2)
    panel.get_by_label("Elements of each parameter").select_option("all")
    panel.get_by_role("button", name="Check again").click()
    lab.event("state", value="running")
    wait_for(lambda: " left · w" in panel.inner_text(), "progress")
    panel.get_by_role("button", name="Stop").click()
    lab.event("state", value="stopped")
    wait_for(lambda: "Stopped early, after" in panel.inner_text(), "what was done")

    # What code does shows in the panel.
    page.run_cell(3)
    wait_for(lambda: "4 of 384 elements" in info.inner_text(), "the new map")
    assert "[0, 0]" in panel.locator(".gw-check-picks option:checked").inner_text()
    page.assert_clean()
