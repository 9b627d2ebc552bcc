"""Schedules, averages and checkpoints in the trainer panel, and runs of another process, live."""

from __future__ import annotations

import re

import pytest

from tests.browser.lab import EVIL, NOTE, VIEW, expect

pytestmark = pytest.mark.browser

SETUP = f"""
{NOTE}
import subprocess, sys
import numpy as np
import gradwright as gw
from gradwright_widgets import RunComparison, TrainerPanel

RECORD = '''
import sys
import numpy as np
import gradwright as gw
for name, rate in (("{EVIL}", 0.1), ("plain", 0.3)):
    g = gw.Graph("line")
    x, w = g.placeholder("x", (None,)), g.variable("w", (), init=2.0)
    run = gw.Run(name=name, store=gw.train.Store(sys.argv[1]))
    loss = gw.mean((x * w) ** 2.0, name="loss")
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(rate), callbacks=[run])
    trainer.fit({{"x": np.linspace(-1, 1, 64)}}, epochs=5, batch_size=8, progress=False)
'''
g = gw.Graph("digits")
x = g.placeholder("x", (None, 16))
t = g.placeholder("t", (None,), dtype="int64")
logits = x @ g.variable("w", (16, 4), init=gw.init.he_normal(seed=0))
loss = gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
trainer = gw.Trainer(
    g, loss, optimizer=gw.optim.SGD(gw.schedules.Cosine(0.1, steps=400, warmup=20)),
    accumulation=2, ema=gw.EMA(0.9), clip_norm=1.0, precision="float16",
    callbacks=[gw.Checkpoints("checkpoints", keep_last=9)],
)
rng = np.random.default_rng(0)
y = rng.integers(0, 4, 512)
data = {{"x": (np.eye(4, 16)[y] * 2 + rng.standard_normal((512, 16))).astype("float32"), "t": y}}
panel = TrainerPanel(trainer, data, data, epochs=3)
panel
"""
LOOK = "note('look', step=trainer.steps_done, seen=trainer.config.validate_with, runs=chosen())"
RUNS = """
comparison = RunComparison("runs")
def chosen():
    names = {row["key"]: row["name"] for row in comparison.run_table()}
    return [names[key] for key in comparison.runs_chosen]
comparison
"""
ELSEWHERE = "other = subprocess.Popen([sys.executable, '-c', RECORD, 'runs'])"


def test_schedules_checkpoints_and_runs(page, lab, screens):
    lab.write_notebook("panels.ipynb", [SETUP, RUNS, ELSEWHERE, LOOK])
    page.open_notebook("panels.ipynb")
    view = page.page
    page.run_cell(0)
    page.run_cell(1)
    root = view.locator(VIEW).nth(0)

    def button(label, place=root):
        return place.get_by_role("button", name=label, exact=True)

    # What is on is shown, and the average is chosen for validation.
    for name, text in (("window", "0 / 2"), ("scale", "2¹⁶"), ("clipping", "norm ≤ 1")):
        expect(root.locator(f'[data-method="{name}"]')).to_contain_text(text)
    root.get_by_label("Evaluate with").last.select_option("ema")

    # The schedule opens, and is read off with the keyboard.
    button("Learning-rate schedule").click()
    stage = root.locator(".gw-schedule-stage")
    expect(stage).to_be_visible()
    stage.focus()
    view.keyboard.press("End")
    reading = root.locator(".gw-schedule-reading")
    expect(reading).to_have_text(re.compile("^step 439: 0"))
    view.keyboard.press("Home")
    expect(reading).to_have_text("step 0: 0.00476")
    button("Logarithmic scale of the schedule").click()

    # Checkpoints appear while it trains; going back asks first.
    root.get_by_role("tab", name="Checkpoints").click()
    button("Start").click()
    root.locator('.gw-train[data-state="finished"]').wait_for()
    rows = root.locator(".gw-checkpoints tbody tr")
    expect(rows).to_have_count(3)
    button("Restore step 8").click()
    expect(root.locator(".gw-confirm")).to_be_visible()
    expect(button("Cancel")).to_be_focused()
    root.screenshot(path=screens / "training_panel_confirm.png")
    view.keyboard.press("Escape")
    root.locator(".gw-confirm").wait_for(state="detached")
    expect(button("Restore step 8")).to_be_focused()
    button("Restore step 8").click()
    button("Go back").click()
    root.get_by_text("At step 8", exact=True).wait_for()
    button("Save now").click()
    root.locator(".gw-checkpoints .gw-here").wait_for()

    # Runs of another process appear, and are compared.
    runs = view.locator(VIEW).nth(1)
    runs.scroll_into_view_if_needed()
    runs.get_by_text("No training is recorded yet").wait_for()
    page.run_cell(2)
    runs.get_by_role("checkbox", name="Compare plain").wait_for()
    expect(runs.locator(".gw-run-status")).to_have_count(0)  # the other process has ended
    for name in (EVIL, "plain"):
        runs.get_by_role("checkbox", name=f"Compare {name}").check()
    plot = runs.locator(".gw-plot")
    expect(plot).to_have_attribute("data-points", "10")  # two curves of five epochs
    runs.get_by_role("tab", name="Settings").click()
    runs.get_by_role("row", name=re.compile("learning_rate.*0.1.*0.3")).wait_for()
    runs.screenshot(path=screens / "run_comparison.png")
    runs.get_by_label("Filter runs").fill("plain")
    expect(runs.locator("[data-run]")).to_have_count(1)
    page.run_cell(3)
    look = lab.event("look")
    assert look == look | {"step": 8, "seen": "ema", "runs": [EVIL, "plain"]}
    page.assert_clean()
