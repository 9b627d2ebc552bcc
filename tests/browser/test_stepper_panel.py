"""The stepper panel in a real JupyterLab, and its recording in a page without a kernel."""

from __future__ import annotations

import pytest

from tests.browser.lab import EVIL, HIDDEN, NOTE, expect, wait_for

pytestmark = pytest.mark.browser

SETUP = f"""
{NOTE}
{HIDDEN}
from gradwright_widgets import StepperPanel
n = gw.nn.layer_norm(h, g.variable("scale", (32,), init=1.0), g.variable("shift", (32,)), name="ln")
logits = gw.matmul(n, g.variable("w2", (32, 4), init=gw.init.xavier_uniform(seed=1)), name={EVIL!r})
loss = gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
rng = np.random.default_rng(0)
feeds = {{"x": rng.standard_normal((8, 16)), "t": rng.integers(0, 4, 8)}}
"""

SHOW = """
panel = StepperPanel(g, loss=loss, feeds=feeds, height=560)
panel.observe(lambda change: note("current", path=change["new"]), "current")
panel.observe(lambda change: note("stops", names=change["new"]), "stops")
panel.observe(lambda change: note("reruns", text=change["new"].get("text")), "reruns")
panel
"""

DRIVE = """
panel.stepper.run_to("ln")
panel.watch('norm(t["hidden/relu"])')
"""


def test_stepping_in_a_notebook(page, lab, screens):
    lab.write_notebook("stepper.ipynb", [SETUP, SHOW, DRIVE])
    page.open_notebook("stepper.ipynb")
    view = page.page
    page.run_cell(0)
    page.run_cell(1)
    panel = view.locator(".gw-stepper")
    panel.get_by_role("button", name="Start", exact=True).click()
    rows = panel.locator(".gw-step")
    current = panel.locator('.gw-step[data-stage="current"] .gw-step-name')

    def stands_at(name: str) -> None:
        expect(current).to_have_text(name)
        expect(panel).to_have_attribute("data-mode", "ready")  # a run that goes on drops keys

    stands_at("hidden/matmul")

    # Forwards and back, with buttons and with keys.
    panel.get_by_role("button", name="One step (").click()
    stands_at("hidden/add")
    first = rows.first.locator(".gw-step-value")
    expect(first).to_contain_text("…")
    value = first.inner_text()
    panel.locator(".gw-step-list").focus()
    view.keyboard.press("s")
    stands_at("hidden/relu")
    view.keyboard.press("b")
    view.keyboard.press("ArrowLeft")
    stands_at("hidden/matmul")
    view.keyboard.press("ArrowRight")
    stands_at("hidden/add")
    expect(first).to_have_text(value)

    # What code does shows: a run to a node, a watch.
    page.run_cell(2)
    stands_at("ln")
    panel.get_by_role("tab", name="Watches").click()
    panel.locator(".gw-step-result").wait_for()

    # Into the composite and out of it.
    panel.locator(".gw-step-list").focus()
    view.keyboard.press("i")
    panel.locator(".gw-step-here", has_text="ln").wait_for()
    panel.get_by_role("button", name="Finish what is around").click()
    stands_at(EVIL)

    # A breakpoint beside a node stops a run; names stay text.
    rows.filter(has_text="loss").first.locator(".gw-step-gutter").click()
    lab.event("stops", names=["loss"])
    panel.locator(".gw-step-list").focus()
    view.keyboard.press("r")
    stands_at("loss")
    panel.locator(".gw-status", has_text="Stopped before 'loss'").wait_for()
    view.keyboard.press("r")
    panel.locator(".gw-status", has_text="Everything has run").wait_for()
    position = int(panel.get_attribute("data-position"))
    expect(panel.locator(".gw-step-count")).to_have_text(f"{position} of {position}")

    # A button that is off once it was pressed leaves the keyboard in the panel.
    panel.get_by_role("button", name="Back to the start").press("Enter")
    stands_at("hidden/matmul")
    view.keyboard.press("s")
    stands_at("hidden/add")
    view.keyboard.press("r")
    stands_at("loss")
    view.keyboard.press("r")
    panel.locator(".gw-status", has_text="Everything has run").wait_for()

    # A breakpoint that is refused stays in the form.
    panel.get_by_role("tab", name="Breakpoints").click()
    form = panel.get_by_role("form", name="New breakpoint")
    form.get_by_label("Pattern").fill("nowhere")
    form.get_by_role("button", name="Add").click()
    view.locator(".gw-message", has_text="nowhere").wait_for()
    expect(form.get_by_label("Pattern")).to_have_value("nowhere")

    # Edit a value and rerun what depends on it.
    panel.get_by_role("tab", name="Values").click()
    panel.locator(".gw-step-list").evaluate("list => (list.scrollTop = 0)")
    expect(rows.first).to_have_attribute("data-index", "0")
    rows.filter(has_text="hidden/relu").first.click()
    panel.locator('.gw-step-tensor[data-tensor="hidden/relu"]').get_by_role(
        "button", name="Edit hidden/relu"
    ).click()
    form = panel.get_by_role("form", name="Edit hidden/relu")
    form.get_by_label("How to change it").select_option("fill")
    form.get_by_label("New value").fill("0.5")
    form.get_by_role("button", name="Set and rerun").click()
    assert "nodes ran again · loss" in lab.event("reruns")["text"]
    panel.locator('.gw-step[data-changed="true"]').first.wait_for()

    for theme in ("Dark", "Light"):
        page.set_theme(f"JupyterLab {theme}")
        panel.screenshot(path=screens / f"stepper_{theme.lower()}.png")

    # A reload of the page brings everything back.
    page.reload_notebook("stepper.ipynb")
    panel.locator('.gw-step[data-changed="true"]').first.wait_for()
    expect(panel.get_by_role("tab", name="Breakpoints 1")).to_be_visible()
    panel.get_by_role("button", name="Back to the start").click()
    stands_at("hidden/matmul")
    page.assert_clean()


TURNS = f"""
{NOTE}
import numpy as np
import gradwright as gw
from gradwright_widgets import StepperPanel

@gw.function("cell")
def cell(c, x):
    glow = lambda: gw.nn.silu(c + x, name="glow")
    return gw.cond(x.sum() > 0.0, glow, lambda: c - x, name="choose")

g = gw.Graph("turns")
xs, w = g.placeholder("xs", (4, 3)), g.variable("w", (3,), init=0.5)
with g.scope("decoder"):
    last, _ = gw.scan(lambda c, x: (cell(c, x) * w, None), w, xs, name="walk")
loss = gw.square(last).sum(name="loss")
panel = StepperPanel(g, loss=loss, feeds={{"xs": np.ones((4, 3))}}, height=560)
panel.observe(lambda change: note("current", path=change["new"]), "current")
panel.observe(lambda change: note("breakpoints", found=change["new"]), "breakpoints")
panel
"""


def test_stepping_through_the_turns_of_a_loop(page, lab, screens):
    lab.write_notebook("turns.ipynb", [TURNS, 'panel.stepper.run_to("decoder/walk:2:mul")'])
    page.open_notebook("turns.ipynb")
    page.run_cell(0)
    page.run_cell(1)
    view, panel = page.page, page.page.locator(".gw-stepper")
    here = panel.locator(".gw-step-here")
    current = panel.locator('.gw-step[data-stage="current"] .gw-step-name')
    expect(here).to_have_text("walk:2")
    expect(current).to_have_text("mul")
    panel.locator(".gw-step-list").focus()
    view.keyboard.press("s")  # on to the next turn
    expect(here).to_have_text("walk:3")
    expect(current).to_have_text("cell")
    view.keyboard.press("i")
    expect(here).to_have_text("cell")
    panel.locator(".gw-step").filter(has_text="choose").first.locator(".gw-step-gutter").click()
    at = "decoder/walk:3:cell::choose"
    wait_for(lambda: any(at in str(e) for e in lab.events("breakpoints")), "a breakpoint inside")
    for theme in ("Dark", "Light"):
        page.set_theme(f"JupyterLab {theme}")
        panel.screenshot(path=screens / f"stepper_turns_{theme.lower()}.png")
    panel.locator(".gw-step-list").focus()
    view.keyboard.press("r")
    expect(here).to_have_text("cell")
    expect(current).to_have_text("choose")
    for place, name in (
        ("cell", "greater"),
        ("cell", "sum"),
        ("walk:3", "cell"),
        ("walk:2", "mul"),
    ):
        view.keyboard.press("b")  # past the start of the call, and of the turn
        expect(here).to_have_text(place)
        expect(current).to_have_text(name)
    page.assert_clean()


def test_a_recording_walks_without_a_kernel(saved, screens):
    import numpy as np

    import gradwright as gw
    from gradwright_widgets import StepperPanel

    g = gw.Graph(EVIL)
    x = g.placeholder("x", (4, 6))
    w = g.variable("w", (6, 5), init=gw.init.he_normal(seed=0))
    y = gw.tanh(x @ w, name=EVIL)
    loss = (y * y).sum(name="loss")
    feeds = {"x": np.random.default_rng(0).standard_normal((4, 6))}
    panel = StepperPanel(g, loss=loss, feeds=feeds, height=520)
    panel.watch(f"t[{EVIL!r}]")
    panel.break_at(op="tanh")
    total = len(panel.stepper.nodes())

    view = saved(panel, 560, 600, "dark")
    shown = view.locator(".gw-stepper")
    at = lambda n: expect(shown).to_have_attribute("data-position", str(n))  # noqa: E731
    at(0)
    values = shown.locator(".gw-step-value")
    for n in range(1, 4):
        shown.get_by_role("button", name="One step (").click()
        at(n)
    wanted = [n < 3 for n in range(total)]
    wait_for(lambda: [bool(t) for t in values.all_inner_texts()] == wanted, "three nodes' values")
    shown.locator(".gw-step-list").focus()
    view.keyboard.press("r")
    at(total)
    shown.locator(".gw-status", has_text="Everything has run").wait_for()
    view.keyboard.press("b")
    at(total - 1)
    view.keyboard.press("g")
    expect(shown.locator(".gw-step-node")).to_contain_text("grad/")
    shown.locator(".gw-step", has_text=EVIL).first.click()
    expect(shown.locator(".gw-step-node")).to_contain_text(EVIL)
    expect(shown.get_by_role("button", name="Edit")).to_have_count(0)
    for name in ("Breakpoints 1", "Watches 1"):
        shown.get_by_role("tab", name=name).click()
    view.screenshot(path=screens / "stepper_recording_dark.png")
