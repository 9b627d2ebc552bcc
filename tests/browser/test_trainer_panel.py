"""Training controlled from the page, with and without subshells, in the background and a cell."""

from __future__ import annotations

import re

import pytest

from tests.browser.lab import NOTE, SLOW, VIEW, expect, points, wait_for

pytestmark = pytest.mark.browser

SETUP = f"""
{NOTE}
import threading
from pathlib import Path
import numpy as np
import gradwright as gw
from gradwright_widgets import TrainerPanel

g = gw.Graph("digits")
x = g.placeholder("x", (None, 16))
t = g.placeholder("t", (None,), dtype="int64")
w = g.variable("w", (16, 4), init=gw.init.he_normal(seed=0))
logits = x @ w
loss = gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
trainer = gw.Trainer(
    g, loss, optimizer=gw.optim.SGD(gw.schedules.Cosine(0.002, steps=10**7)),
    metrics={{"<img src=x onerror=window.executed=1>": gw.metrics.accuracy(t, logits)}},
)
{SLOW}
trainer.add_callback(Slow())
rng = np.random.default_rng(0)
y = rng.integers(0, 4, 512)
data = {{"x": (np.eye(4, 16)[y] * 2 + rng.standard_normal((512, 16))).astype("float32"), "t": y}}
"""

SHOW = """
panel = TrainerPanel(trainer, data, data, epochs=100_000)
def on_state(change):
    note("state", state=change["new"], step=trainer.steps_done)
panel.observe(on_state, "state")
panel
"""

LOOK = """
rates = trainer.history.steps["learning_rate"]
losses = trainer.history.steps["loss"]
first, last = losses[:20].mean(), losses[-20:].mean()
note("look", step=trainer.steps_done, rate=rates[-1], first=first, last=last)
"""

DEAF = """
class UntilReleased(gw.Callback):
    def on_step_end(self, trainer, record):
        if Path("release").exists():
            trainer.stop()
until = UntilReleased()
trainer.add_callback(until)
note("blocking")
trainer.fit(data, epochs=100_000, progress=False)
trainer.remove_callback(until)
"""

CLOSE = """
panel.start()
panel.close()
trainer.fit(data, steps=1, progress=False)
note("closed", status=trainer.status, threads=[t.name for t in threading.enumerate()])
"""


KERNELS = "@jupyterlab/apputils-extension:kernels-settings"


class Panel:
    """The panel on the page."""

    def __init__(self, page):
        self.view = page.page
        self.root = self.view.locator(".gw-train")
        self.plot = self.view.locator(".gw-plot")

    def button(self, label):
        return self.root.get_by_role("button", name=label, exact=True)

    def state(self, state):
        self.view.locator(f'.gw-train[data-state="{state}"]').wait_for()

    def fact(self, name):
        return self.root.locator(f'[data-fact="{name}"] b').inner_text()

    def step(self):
        return int(self.fact("step").partition(" /")[0].replace(",", ""))


def test_training_from_the_panel_without_subshells(page, lab, screens):
    lab.write_notebook("panel.ipynb", [SETUP, SHOW, LOOK, DEAF, CLOSE])
    with page.setting(KERNELS, commsOverSubshells="disabled"):
        page.open_notebook("panel.ipynb")
        view, panel = page.page, Panel(page)
        kernel = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"
        view.wait_for_function(f"{kernel}.commsOverSubshells === 'disabled'")
        page.run_cell(0)
        page.run_cell(1)
        panel.state("idle")

        # Start, and pause while it runs. The kernel is free meanwhile.
        panel.button("Start").click()
        lab.event("state", state="running")
        wait_for(lambda: points(panel.plot) > 300, "300 points")
        page.run_cell(2)
        began = lab.event("look")
        panel.button("Pause").click()
        paused = lab.event("state", state="paused")
        panel.state("paused")
        wait_for(lambda: panel.step() == paused["step"], "the step it paused at")
        page.run_cell(2)
        assert lab.event("look")["step"] == paused["step"], "paused, but it went on"

        # Single steps and resume by key; a rate that is typed counts from the next step.
        panel.root.focus()
        view.keyboard.press(".")
        lab.event("state", state="paused", step=paused["step"] + 1)
        wait_for(lambda: panel.step() == paused["step"] + 1, "one step")
        panel.state("paused")
        value = panel.root.get_by_label("Learning rate as a number")
        value.fill("0.03")
        value.press("Enter")
        panel.button("Schedule").wait_for()
        view.keyboard.press("Tab")
        panel.root.focus()
        view.keyboard.press("Space")
        panel.state("running")
        done = paused["step"] + 300
        wait_for(lambda: panel.step() > done, "300 steps more")
        page.run_cell(2)
        later = lab.event("look", rate=0.03)
        assert later["last"] < 0.8 * began["first"], "the loss did not fall"

        # A reload finds the training where it is.
        page.reload_notebook("panel.ipynb")
        panel.state("running")
        wait_for(lambda: panel.step() > later["step"], "the running training after a reload")
        drawn = points(panel.plot)
        wait_for(lambda: points(panel.plot) > drawn, "more points")
        expect(value).to_have_value("0.03")
        view.locator(VIEW).scroll_into_view_if_needed()
        view.locator(VIEW).screenshot(path=screens / "trainer_running_light.png")
        panel.button("Stop").click()
        lab.event("state", state="stopped")
        panel.state("stopped")

        # A cell that trains cannot be interrupted from here: the panel says so, and what to do.
        view.wait_for_function(f"{kernel}.status === 'idle'")
        page.start_cell(3)
        lab.event("blocking")
        panel.root.get_by_text("hears nothing while a cell runs").wait_for()
        (lab.root / "release").touch()
        panel.state("stopped")
        panel.root.get_by_text("hears nothing while a cell runs").wait_for(state="hidden")

        view.wait_for_function(f"{kernel}.status === 'idle'")
        page.run_cell(4)
        closed = lab.event("closed")
        assert closed["status"] == "idle"
        assert "gradwright training" not in closed["threads"]
        page.assert_clean()


BLOCK = """
note("blocking", cell=2)
trainer.fit(data, epochs=100_000, progress=False)
note("ended", step=trainer.steps_done)
"""


def test_a_blocking_fit_is_paused_over_subshells(page, lab):
    lab.write_notebook("cell.ipynb", [SETUP, SHOW, BLOCK])
    before = len(lab.events("state"))
    page.open_notebook("cell.ipynb")
    panel = Panel(page)

    def state(name):
        def found():
            return [e for e in lab.events("state")[before:] if e["state"] == name]

        return wait_for(found, f"the state {name!r}")[-1]

    page.run_cell(0)
    page.run_cell(1)
    panel.state("idle")
    page.start_cell(2)
    lab.event("blocking", cell=2)
    panel.root.get_by_text("Running from code").wait_for()
    wait_for(lambda: panel.step() > 50, "50 steps")
    panel.button("Pause").click()
    paused = state("paused")
    panel.state("paused")
    wait_for(lambda: panel.step() == paused["step"], "the step it paused at")
    panel.button("Step").click()
    wait_for(lambda: panel.step() == paused["step"] + 1, "one step")
    panel.state("paused")

    # The crosshair moves by key and says what it shows; a drag zooms, a double click goes back.
    stage = panel.plot.locator(".gw-plot-stage")
    wait_for(lambda: points(panel.plot) > 50, "curves to move on")
    stage.focus()
    panel.view.keyboard.press("Home")
    panel.view.keyboard.press("ArrowRight")
    spoken = panel.plot.locator(".gw-plot-spoken")
    expect(spoken).to_have_text(re.compile(r"^step \d+: loss step [\d.]+"))
    box = stage.bounding_box()
    mouse = panel.view.mouse
    mouse.move(box["x"] + 100, box["y"] + 60)
    mouse.down()
    mouse.move(box["x"] + 250, box["y"] + 60, steps=3)
    mouse.up()
    whole = panel.plot.get_by_role("button", name="Show all steps")
    whole.wait_for()
    mouse.dblclick(box["x"] + 200, box["y"] + 60)
    whole.wait_for(state="hidden")

    panel.button("Resume").click()
    wait_for(lambda: panel.step() > paused["step"] + 50, "50 steps more")
    panel.button("Stop").click()
    ended = lab.event("ended")
    assert ended["step"] > paused["step"] + 50
    panel.state("stopped")
    page.assert_clean()
