"""The side panel of JupyterLab: what is alive, pinned views, errors, lines, marks, and the end."""

from __future__ import annotations

import re

import pytest

import gradwright as gw
from tests.browser.lab import EVIL, NOTE, expect, redraw, wait_for

pytestmark = pytest.mark.browser

GRAPH = """
import gradwright as gw
g = gw.Graph({name!r})
x = g.placeholder("x", (None, 4))
with g.scope("hidden"):
    h = gw.nn.relu(x @ g.variable("w", (4, 8), init=gw.init.he_normal(seed=0)))
loss = gw.mean(h * h, name="loss")
"""

TRAIN = f"""
{NOTE}
import time
import numpy as np
class Slow(gw.Callback):
    def on_step_end(self, trainer, record): time.sleep(0.02)
trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.1), callbacks=[Slow()])
trainer.fit({{"x": np.ones((8, 4), "f4")}}, steps=3000, progress=False)
note("end", outcome=trainer.progress.outcome)
"""

WILD = """
holes = {"x": np.ones((400, 4), "f4")}
holes["x"][390] = np.nan
how = {"optimizer": gw.optim.SGD(0.1), "callbacks": [Slow()]}
lenient = gw.Trainer(g, loss, nonfinite="skip", **how)
lenient.fit(holes, epochs=2, batch_size=8, shuffle=False, progress=False)
strict = gw.Trainer(g, loss, **how)
strict.fit(holes, batch_size=8, shuffle=False, progress=False)
"""

VIEW = """
from gradwright_widgets import GraphView
view = GraphView(g, height=300, selected="hidden/relu")
view
"""

WRONG = """
w = g.variable("w2", (10, 3))
logits = h @ w
"""

PANEL = "#gradwright-panel"


def open_lab(page, lab, *names: str) -> None:
    page.open_notebook(names[0])
    for name in names[1:]:
        activate(page, name)
    page.command("gradwright:show-panel")
    expect(page.page.locator(PANEL)).to_be_visible()


def activate(page, name: str) -> None:
    page.command("docmanager:open", {"path": name})
    page.page.wait_for_function(
        """(path) => {
          const w = window.jupyterapp.shell.currentWidget;
          return w?.context?.path === path && w.sessionContext.session?.kernel?.status === 'idle';
        }""",
        arg=name,
    )


def status(page):
    return page.page.locator(".gw-status-item")


TOLD = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": False}


def test_the_panel_follows_the_notebook_in_front(page, lab, screens):
    with (
        page.setting("@jupyterlab/apputils-extension:notification", **TOLD),
        page.setting("gradwright:panel", seconds=0),
    ):
        follow_three_notebooks(page, lab, screens)


def follow_three_notebooks(page, lab, screens):
    lab.write_notebook("one.ipynb", [GRAPH.format(name="one"), TRAIN, WILD])
    lab.write_notebook("two.ipynb", [GRAPH.format(name=EVIL)])
    lab.write_notebook("three.ipynb", ["1 + 1"])
    open_lab(page, lab, "one.ipynb", "two.ipynb", "three.ipynb")
    panel = page.page.locator(PANEL)
    expect(panel).to_contain_text("Nothing of gradwright is alive")
    activate(page, "two.ipynb")
    page.run_cell(0)
    expect(panel.locator("strong")).to_have_text([EVIL])
    activate(page, "one.ipynb")
    page.run_cell(0)
    expect(panel.locator("strong")).to_have_text(["one"])
    expect(panel).to_contain_text("6 nodes")

    # A training, live while its cell runs: in the panel, the status bar and the titles.
    page.start_cell(1)
    row = panel.locator(".gw-side-row", has_text="loss")
    expect(row.locator(".gw-chip")).to_have_text("running")
    expect(status(page)).to_contain_text("steps/s")
    tab = page.page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab", has_text="one.ipynb")
    expect(tab).to_have_attribute("data-gw-progress", re.compile(r"\d+ %"))
    expect(page.page).to_have_title(re.compile(r"^\d+ % "))
    row.get_by_label("Pause after the present step").click()
    expect(row.locator(".gw-chip")).to_have_text("paused")
    expect(tab).to_have_attribute("data-gw-progress", "‖")
    activate_other(page, "two.ipynb")
    expect(status(page)).to_be_hidden()
    expect(panel.locator("strong")).to_have_text([EVIL])
    page.command("docmanager:open", {"path": "one.ipynb"})
    row.get_by_label("Go on").click()
    expect(row.locator(".gw-chip")).to_have_text("running")
    row.get_by_label("Stop after the present step").click()
    expect(row.locator(".gw-chip")).to_have_text("stopped")
    assert lab.event("end")["outcome"] == "stopped"
    expect(tab).not_to_have_attribute("data-gw-progress", re.compile(""))
    assert (lab.root / "one.ipynb").is_file(), "what stands on a tab renames no file"
    spark = row.locator(".gw-side-spark")
    wait_for(lambda: int(spark.get_attribute("data-points") or 0) > 3, "the curve of the loss")

    # What ends, and what goes wrong, is told wherever one looks.
    toasts = page.page.locator(".Toastify__toast")
    expect(toasts).to_have_count(1)
    expect(toasts).to_contain_text(
        re.compile(r"one \(one\.ipynb\): stopped after \d+ steps, loss ")
    )
    page.command("docmanager:open", {"path": "one.ipynb"})
    page.start_cell(2)
    for what in ("not finite, step ", "finished after 100 steps", "failed after 48 steps"):
        expect(toasts.filter(has_text=what)).to_have_count(1)
    page.page.screenshot(path=screens / "side_panel_told.png")
    expect(panel.locator(".gw-side-row", has_text="strict")).to_contain_text("is not finite")
    page.assert_clean()


def activate_other(page, name: str) -> None:
    """Bring a notebook to the front whose kernel may be busy."""
    page.command("docmanager:open", {"path": name})
    page.page.wait_for_function(
        "(path) => window.jupyterapp.shell.currentWidget?.context?.path === path", arg=name
    )


def test_views_stay_and_what_was_told_outlives_the_kernel(page, lab, screens):
    lab.write_notebook("pins.ipynb", [GRAPH.format(name="net"), VIEW, WRONG, "1"])
    open_lab(page, lab, "pins.ipynb")
    view, panel = page.page, page.page.locator(PANEL)
    page.run_cell(0)

    # By keyboard alone: palette, panel, drawing, inspector, and back.
    expect(panel).to_contain_text("6 nodes")
    page.choose("Show Graphs and Trainings")
    expect(panel).to_be_focused()
    page.tab_to(panel.get_by_role("button", name="drawing"))
    view.keyboard.press("Enter")
    pinned = panel.locator(".gw-side-pin")
    graph = pinned.locator(".gw-graph[data-ready]")
    expect(graph).to_have_count(1)
    stage, sheet = graph.locator(".gw-stage"), graph.get_by_role("complementary", name="Inspector")
    page.tab_to(stage)
    view.keyboard.press("i")
    expect(sheet).to_contain_text("6 nodes")
    view.keyboard.press("i")
    expect(sheet).to_be_hidden()
    expect(stage).to_be_focused()
    model = pinned.get_attribute("data-model")

    # The cell runs again: the pinned view goes over to the new graph.
    page.run_cell(0)
    wait_for(lambda: pinned.get_attribute("data-model") != model, "the view of the new graph")
    expect(graph).to_have_count(1)

    # A view of the notebook is pinned by its menu, and found again when its cell has run again.
    page.run_cell(1)
    shown = view.locator(".jp-OutputArea-child .gw-graph[data-ready]")
    expect(shown).to_have_count(1)
    shown.click(button="right", position={"x": 20, "y": 200})
    view.locator(".lm-Menu-itemLabel", has_text="Pin This View").click()
    expect(panel.locator(".gw-side-pin")).to_have_count(2)
    second = panel.locator(".gw-side-pin").nth(1)
    before = second.get_attribute("data-model")
    page.run_cell(1)
    wait_for(lambda: second.get_attribute("data-model") != before, "the widget of the new output")

    # From a node to its line, and from a cell to its nodes.
    page.run_cell(1)
    view.locator(".jp-OutputArea-child .gw-status .gw-hop", has_text="line").click()
    view.wait_for_function(
        """() => {
          const {content} = window.jupyterapp.shell.currentWidget;
          const cell = content.widgets[0];
          const {start} = cell.editor.getSelection();
          return content.activeCellIndex === 0 && cell.editor.getLine(start.line).includes('relu');
        }"""
    )
    mark = view.locator(".gw-cell-mark")
    expect(mark.first).to_have_text("6 nodes")
    mark.first.click()
    expect(panel.locator(".gw-side-pin").first).to_contain_text("this cell")

    # An error: drawn below the traceback, and in the panel when one asks for it.
    page.command("application:toggle-right-area")
    page.start_cell(2)
    card = panel.locator(".gw-side-failure")
    expect(card.locator("img")).to_have_count(1)
    expect(panel).to_be_hidden()
    page.choose("Explain This Error")
    expect(card).to_be_focused()
    expect(card).to_contain_text("ShapeError")
    expect(card.locator("img")).to_have_count(1)
    expect(view.locator(".jp-Cell .jp-RenderedSVG")).to_have_count(1)
    view.screenshot(path=screens / "side_panel_light.png")
    page.set_theme("JupyterLab Dark")
    view.screenshot(path=screens / "side_panel_dark.png")
    page.set_theme("JupyterLab Light")
    card.get_by_title("Go to the line").click()
    view.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget.content.activeCellIndex === 2"
    )

    # It can be put away, and asked for again.
    card.get_by_role("button", name="Dismiss this error").click()
    expect(card).to_be_hidden()
    page.command("gradwright:explain-error")
    expect(card).to_contain_text("ShapeError")

    # The kernel ends: what it has told stays, and says so.
    view.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
    )
    expect(panel.locator(".gw-notice").first).to_contain_text("was restarted")
    expect(panel).to_contain_text("7 nodes")
    expect(panel.locator(".gw-side-pin .gw-graph").first).to_be_visible()
    page.run_cell(3)
    expect(panel).to_contain_text("7 nodes")
    still = panel.locator(".gw-side-pin").first.get_attribute("data-model")
    page.run_cell(0)
    expect(panel).to_contain_text("6 nodes")
    expect(panel.locator(".gw-notice").first).to_be_hidden()
    first = panel.locator(".gw-side-pin").first
    wait_for(lambda: first.get_attribute("data-model") != still, "the view of the new kernel")
    assert page.outside == []


def recorded(folder, rate: float, steps: int) -> gw.Trainer:
    """Train a parabola in a run folder, and return who can go on."""
    graph = gw.Graph("parabola")
    w = graph.variable("w", (), init=2.0)
    run = gw.Run(folder, name=f"rate {rate}", store=None)
    trainer = gw.Trainer(graph, w * w, optimizer=gw.optim.SGD(rate), callbacks=[run])
    trainer.fit([{}], epochs=steps, progress=False)
    return trainer


def test_runs_are_a_document_that_is_live(page, lab, screens):
    folder = lab.root / "trials"
    first = recorded(folder / "a", 0.1, 5)
    recorded(folder / "b", 0.25, 9)
    lab.write_notebook("empty.ipynb", ["1"])
    page.open_notebook("empty.ipynb")
    view = page.page
    page.command("gradwright:open-runs", {"folder": "trials"})
    runs = view.locator(".gw-runs")
    expect(runs.locator(".gw-runs-left tbody tr")).to_have_count(2)
    for name in ("rate 0.1", "rate 0.25"):
        runs.locator(".gw-runs-left tbody tr", has_text=name).locator(
            "input[type=checkbox]"
        ).check()
    chart = runs.locator(".gw-plot")
    expect(chart.locator(".gw-chart, canvas").first).to_be_visible()
    expect(runs).to_contain_text("2 chosen")
    runs.get_by_role("tab", name="Settings").click()
    expect(runs).to_contain_text("learning_rate")
    runs.get_by_role("tab", name="Curves").click()
    expect(runs.locator(".gw-runs-detail")).to_contain_text("rate 0.25")
    redraw(view)
    view.screenshot(path=screens / "runs_document_light.png")

    # Another process writes: the table and the curves follow.
    first.fit([{}], epochs=3, progress=False)
    recorded(folder / "c", 0.4, 2)
    expect(runs.locator(".gw-runs-left tbody tr")).to_have_count(3)
    expect(runs.locator(".gw-runs-left tbody tr", has_text="rate 0.1")).to_contain_text("8")
    page.assert_clean()
