"""Where a page and its kernel lose each other: keys, late modules, and stills of what is gone."""

from __future__ import annotations

import pytest

from tests.browser.lab import NOTE, Page, expect, wait_for

pytestmark = pytest.mark.browser

SETUP = f"""
{NOTE}
import numpy as np
import gradwright as gw
from gradwright_widgets import Workbench

g = gw.Graph("line")
x, t = g.placeholder("x", (None, 2)), g.placeholder("t", (None, 1))
loss = gw.loss.mean_squared_error(t, x @ g.variable("w", (2, 1)), name="loss")
trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.01))
data = {{"x": np.ones((64, 2), "float32"), "t": np.ones((64, 1), "float32")}}
"""

SHOW = """
bench = Workbench(g, trainer, data=data, epochs=3)
bench
"""

LOOK = 'note("rate", rate=trainer.optimizer.learning_rate, cell=1)'

LATE = "AbortSignal.timeout = () => AbortSignal.abort()"
"""No module is there so early: anywidget gives all of them up at once."""


def test_a_slow_module_hears_a_slider_moves_by_key_and_a_still_stays(context, lab, screens):
    page = Page(context, lab)
    page.page.add_init_script(LATE)
    try:
        late_keys_and_stills(page, lab, screens)
    finally:
        page.close()
        lab.end_kernels()


def late_keys_and_stills(page, lab, screens):
    lab.write_notebook("still.ipynb", [SETUP, SHOW, LOOK])
    page.open_notebook("still.ipynb")
    view = page.page
    page.run_cell(0)
    page.run_cell(1)

    # A module that came too late for anywidget hears its kernel all the same.
    controls = view.locator(".gw-train")
    controls.get_by_role("button", name="Start", exact=True).click()
    view.locator('.gw-train[data-state="finished"]').wait_for()
    expect(controls.locator('[data-fact="epoch"] b')).to_have_text("3 / 3")

    # Arrow keys move the slider, and neither the cursor of the notebook nor a cell.
    slider = controls.get_by_label("Learning rate", exact=True)
    slider.focus()
    for _ in range(10):
        view.keyboard.press("ArrowUp")
    view.keyboard.press("ArrowDown")
    active = "window.jupyterapp.shell.currentWidget.content.activeCellIndex"
    assert view.evaluate(active) in (1, 2)
    expect(slider).to_be_focused()
    expect(controls.get_by_label("Learning rate as a number")).to_have_value("0.0123")
    before = view.evaluate(active)
    view.keyboard.press("ArrowRight")
    assert view.evaluate(active) == before

    # It outlives its cell, so it is listed, and can be taken back.
    edits = view.locator(".gw-edits")
    expect(edits).to_contain_text("learning rate 0.01 → 0.0126")
    page.run_cell(2)
    wait_for(lambda: lab.event("rate")["rate"] == 0.0126, "the rate that was set by key")
    edits.locator("summary").click()
    edits.get_by_role("button", name="Undo learning rate").click()
    expect(edits).to_be_hidden()
    expect(controls.get_by_label("Learning rate as a number")).to_have_value("0.01")

    value = controls.get_by_label("Learning rate as a number")
    value.fill("abc")
    value.press("Enter")
    expect(controls.get_by_role("status").last).to_contain_text("“abc” is not a number")
    value.fill("0.5")
    value.press("Enter")
    expect(controls.get_by_text("is not a number")).to_be_hidden()

    # While the view lives, its still copy is hidden.
    still = view.locator(".gw-still")
    expect(still).to_have_css("display", "none")

    # In a view of its own it is as high as the view.
    view.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1; }")
    page.command("notebook:create-output-view")
    linked = view.locator(".jp-LinkedOutputView")
    expect(linked.locator(".gw-graph[data-ready]")).to_be_visible()
    fills = """(frame) => {
      const height = frame.querySelector('.gw').getBoundingClientRect().height;
      return frame.clientHeight - 60 < height && height <= frame.clientHeight;
    }"""
    wait_for(lambda: linked.evaluate(fills), "the view to be filled")
    view.screenshot(path=screens / "output_view.png")
    view.evaluate("() => window.jupyterapp.shell.currentWidget.close()")

    # Kernel gone, saved and loaded anew: the still stands for it, and says what to do.
    view.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
    )
    page.reload_notebook("still.ipynb")
    expect(still).to_be_visible()
    expect(still).to_contain_text("run the cell to bring it to life")
    expect(still.locator("img")).to_be_visible()
    expect(view.get_by_text("Error displaying widget")).to_be_hidden()
    view.screenshot(path=screens / "still_after_restart.png")
    assert page.outside == []
