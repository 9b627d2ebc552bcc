"""Rollouts and pairs in JupyterLab: followed, paused, weighed, looked into, by hand and by keys."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.browser.lab import NOTE, VIEW, expect
from tests.browser.lab_scenes import THEMES
from tests.browser.test_accessible import assert_accessible

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
SETUP = f"""
{NOTE}
import sys, threading, time
sys.path.insert(0, {str(ROOT)!r})
import gradwright as gw
from gradwright_widgets import PreferencePanel, RolloutPanel, Workbench
from tests.support.panels import EVIL
from tests.support.rollouts import adding, preferring, sums

trainer = adding()
prompts = sums(8)
prompts[0] = gw.align.Prompt(prompts[0].tokens, EVIL + prompts[0].text, prompts[0].columns)

class Slow(gw.Callback):
    def on_step_end(self, trainer, record): time.sleep(0.05)

trainer.add_callback(Slow())

def train():
    trainer.fit(prompts, batch_size=32, epochs=10_000, shuffle=False, progress=False)
"""
SHOW = """
panel = RolloutPanel(trainer, height=640)
panel.observe(lambda change: note("selected", value=change["new"]), "selected")
panel.observe(lambda change: note("page", value=change["new"]), "rollout_page")
panel
"""
TRAIN = """
thread = threading.Thread(target=train); thread.start()
"""
REWARDS = """
def length(completion_ids): return [float(len(row)) for row in completion_ids]
panel.rewards = [length]
"""
BENCH = """
trainer.stop(); thread.join()
bench = Workbench(trainer.graph, trainer, tab="rollouts", height=640)
bench
"""
PAIRS = """
learner, data = preferring()
pairs = PreferencePanel(lambda: gw.align.pairs_of(learner, data), learner, height=560)
learner.fit(data, batch_size=8, epochs=2, progress=False)
pairs
"""


def test_rollouts_are_followed_paused_and_looked_into(page, lab, screens):
    lab.write_notebook("rollouts.ipynb", [SETUP, SHOW, TRAIN, REWARDS, BENCH, PAIRS])
    page.open_notebook("rollouts.ipynb")
    view = page.page
    for cell in range(2):
        page.run_cell(cell)
    panel = view.locator(".gw-rollouts").first
    expect(panel).to_contain_text("Nothing has been drawn yet")
    page.run_cell(2)
    expect(panel.locator(".gw-group-card")).to_have_count(4)
    expect(panel.locator(".gw-subtitle")).to_contain_text("32 samples in 8 groups")
    expect(panel.locator(".gw-group-prompt").first).to_contain_text("<img src=x")
    assert view.evaluate("window.executed") is None  # prompts are text
    expect(panel.locator(".gw-subtitle")).to_contain_text(re.compile(r"rollout [3-9]"))

    # Paused, it goes on with other weights; one that is off is judged, and counts nothing.
    panel.get_by_role("button", name="Pause").click()
    on = panel.get_by_role("button", name="Go on")
    expect(on).to_be_visible()
    weight = panel.get_by_label("Weight of near")
    weight.fill("3")
    weight.press("Enter")
    panel.get_by_label("Count digits").click()
    expect(panel.locator('.gw-rollout-curve[data-name="digits"]')).not_to_have_attribute(
        "data-on", ""
    )
    expect(
        panel.locator("xpath=ancestor::*[contains(@class, 'gw')]").locator(".gw-edits").first
    ).to_contain_text("2 changes")
    on.click()
    expect(panel.get_by_role("button", name="Pause")).to_be_visible()

    # A click on a token stays at its rollout, says its numbers, and selects the node it is of.
    panel.locator(".gw-token").first.click()
    expect(panel.get_by_label("Live")).not_to_be_checked()
    lab.event("selected", value="log_probs/head_log_probs")
    facts = panel.locator(".gw-rollout-token")
    expect(facts).to_contain_text("token 1 of row 0")
    expect(facts).to_contain_text("log π of the reference")
    expect(panel.locator(".gw-subtitle")).to_contain_text("behind")
    panel.locator(".gw-sample-text").first.press("ArrowRight")
    expect(facts).to_contain_text("token 2 of row 0")
    expect(panel.locator('.gw-token[aria-selected="true"]')).to_have_count(1)

    # Sorted, filtered, coloured otherwise; what is below the middle is told by more than colour.
    panel.get_by_label("Colour", exact=True).select_option("entropy")
    expect(panel.locator('.gw-token[data-hue="size"]').first).to_be_visible()
    expect(panel.locator(".gw-token").first).to_have_attribute("title", re.compile("entropy"))
    panel.get_by_label("Sort", exact=True).select_option("spread")
    panel.get_by_role("button", name="Groups after").click()
    expect(panel.locator(".gw-pager")).to_contain_text("Groups 5 to 8 of 8")
    panel.get_by_label("Show", exact=True).select_option("failed")
    expect(panel.locator(".gw-pager")).to_contain_text("no groups")
    panel.get_by_label("Show", exact=True).select_option("all")
    panel.get_by_label("Colour", exact=True).select_option("advantage")
    for theme in THEMES:
        page.set_theme(theme)
        assert_accessible(panel, theme)
        name = theme.lower().replace("jupyterlab ", "").replace(" ", "_")
        view.locator(VIEW).first.screenshot(path=screens / f"rollouts_{name}.png")
    page.set_theme(THEMES[0])

    # Other rewards of a cell count from the next rollout on, and the stepper stands at the token.
    page.run_cell(3)
    panel.get_by_label("Live").click()
    expect(panel.get_by_label("Weight of length")).to_be_visible()
    panel.locator(".gw-token").first.click()
    panel.get_by_role("button", name="Step through").click()
    lab.event("page", value="step")
    expect(view.locator(".gw-tabbed").first).to_contain_text("head_log_probs")

    # The Workbench asks for the code of the tab.
    page.run_cell(4)
    bench = view.locator(".gw-bench")
    expect(bench.locator(".gw-rollouts .gw-group-card")).to_have_count(4)
    bench.locator(".gw-rollouts .gw-token").first.click()
    bench.get_by_role("button", name="As tensor").click()
    expect(bench.get_by_role("tab", name="Tensor")).to_have_attribute("aria-selected", "true")
    bench.get_by_role("tab", name="Rollouts").click()
    bench.scroll_into_view_if_needed()
    bench.screenshot(path=screens / "rollouts_bench.png")

    # Pairs stand side by side, and are measured anew.
    page.run_cell(5)
    pairs = view.locator(".gw-rollouts").last
    expect(pairs.locator(".gw-group-card")).to_have_count(4)
    expect(pairs.locator(".gw-pairs-margin").first).to_have_text("margin 0")
    pairs.get_by_role("button", name="Measure").click()
    expect(pairs.locator(".gw-pairs-margin").first).not_to_have_text("margin 0")
    pairs.locator(".gw-token").first.click()
    expect(pairs.locator(".gw-rollout-token")).to_contain_text("log-ratio")
    for theme in THEMES:
        page.set_theme(theme)
        assert_accessible(pairs, theme)
    pairs.screenshot(path=screens / "pairs_contrast.png")
    page.set_theme(THEMES[0])
