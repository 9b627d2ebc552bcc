"""The way from the kernel to the screen and back, in a real JupyterLab."""

from __future__ import annotations

import re

import pytest

from tests.browser.lab import EVIL, NOTE, SLOW, VIEW, expect, place, points, wait_for

pytestmark = pytest.mark.browser

SETUP = f"""
{NOTE}
import hashlib, threading
import numpy as np
import gradwright as gw
from gradwright_widgets import Workbench

g = gw.Graph("digits")
x = g.placeholder("x", (None, 16))
t = g.placeholder("t", (None,), dtype="int64")
with g.scope("hidden"):
    w = g.variable("w", (16, 32), init=gw.init.he_normal(seed=0))
    b = g.variable("b", (32,))
    h = gw.nn.relu(x @ w + b)
w2 = g.variable("w2", (32, 4), init=gw.init.xavier_uniform(seed=1))
logits = gw.matmul(h, w2, name={EVIL!r})
loss = gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
trainer = gw.Trainer(
    g, loss, optimizer=gw.optim.SGD(0.02),
    metrics={{"accuracy": gw.metrics.accuracy(t, logits)}},
)
rng = np.random.default_rng(0)
y = rng.integers(0, 4, 512)
X = (np.eye(4, 16)[y] * 2 + rng.standard_normal((512, 16))).astype("float32")
def digest(name):
    return hashlib.sha256(g.values[name].tobytes()).hexdigest()
"""

SHOW = """
bench = Workbench(g, trainer, expanded=[])
bench.observe(lambda change: note("selected", name=change["new"]), "selected")
bench.observe(lambda change: note("expanded", scopes=change["new"]), "expanded")
def on_frozen(change):
    note("frozen", names=change["new"], step=trainer.steps_done, w=digest("hidden/w"))
bench.observe(on_frozen, "frozen")
bench
"""

TRAIN = f"""
{SLOW}
class Report(gw.Callback):
    def on_epoch_end(self, trainer, record):
        note("epoch", epoch=record.epoch, loss=record.metrics["loss"], step=record.step,
             w=digest("hidden/w"), b=digest("hidden/b"))
trainer.add_callback(Report())
trainer.add_callback(Slow())
data = {{"x": X, "t": y}}
thread = threading.Thread(
    target=lambda: trainer.fit(data, epochs=10**6, batch_size=32, validation=data, progress=False)
)
thread.start()
note("started")
"""

STOP = """
trainer.stop()
thread.join(30)
note("stopped", alive=thread.is_alive(), loss=float(trainer.history.steps["loss"][-1]),
     first=float(trainer.history.steps["loss"][0]), step=trainer.steps_done)
bench.to_html("bench.html")
note("saved")
"""


def test_the_workbench_drives_the_graph(page, lab, screens):
    lab.write_notebook("workbench.ipynb", [SETUP, SHOW, TRAIN, STOP])
    page.open_notebook("workbench.ipynb")
    view = page.page

    page.run_cell(0)
    page.run_cell(1)
    graph = view.locator(".gw-graph[data-ready]")
    graph.wait_for()
    view.locator(VIEW).scroll_into_view_if_needed()
    expect(view.locator(".gw-parameters tr[data-name]")).to_have_count(3)
    stage, status = view.locator(".gw-stage"), view.locator(".gw-graph .gw-status")
    closed = graph.get_attribute("data-boxes")
    opened = str(int(closed) + 5)  # the scope has five nodes

    # A click on a node reaches the kernel.
    view.mouse.click(*place(stage, "loss"))
    lab.event("selected", name="loss")
    expect(status).to_contain_text("sparse_softmax_cross_entropy")

    # A name is text, wherever it is shown.
    view.mouse.click(*place(stage, EVIL))
    lab.event("selected", name=EVIL)
    expect(status).to_contain_text(EVIL)
    assert view.evaluate("window.executed") is None

    # A scope opens, and what is selected inside is selected in the table.
    view.mouse.dblclick(*place(stage, "hidden/"))
    lab.event("expanded", scopes=["hidden"])
    expect(graph).to_have_attribute("data-boxes", opened)
    view.mouse.click(*place(stage, "hidden/w"))
    lab.event("selected", name="hidden/w")
    view.get_by_role("tab", name="Parameters", exact=True).click()
    view.locator("tr.gw-selected[data-name='hidden/w']").wait_for()
    view.get_by_role("tab", name="Train", exact=True).click()

    # Loss falls while the kernel trains, and the plot shows it.
    page.run_cell(2)
    lab.event("started")
    first = wait_for(lambda: lab.events("epoch"), "the first epoch")[0]
    plot = view.locator(".gw-training .gw-plot")
    wait_for(lambda: points(plot) > 100, "a hundred points")

    def shown_step() -> int:
        text = view.locator('.gw-train [data-fact="step"] b').inner_text()
        return int(text.partition(" /")[0].replace(",", ""))

    def shown_loss() -> float:
        label = view.locator(".gw-training .gw-plot-stage").get_attribute("aria-label") or ""
        found = re.search(r"loss validation ([\d.]+)", label)
        return float(found[1]) if found else float("inf")

    wait_for(lambda: shown_loss() < 0.8 * first["loss"], "a falling curve")
    drawn = points(plot)
    wait_for(lambda: points(plot) > drawn, "more points")

    # The box freezes between two steps of the running training.
    view.get_by_role("tab", name="Parameters", exact=True).click()
    view.get_by_label("Train hidden/w", exact=True).uncheck()
    frozen = lab.event("frozen", names=["hidden/w"])
    last = frozen["step"] + 100
    later = wait_for(
        lambda: [e for e in lab.events("epoch") if e["step"] >= last], "100 steps more"
    )[0]
    assert later["w"] == frozen["w"], "a frozen parameter changed"
    assert later["b"] != first["b"], "the others went on"
    view.locator("tr.gw-frozen[data-name='hidden/w']").wait_for()
    view.get_by_role("tab", name="Train", exact=True).click()

    page.run_cell(3)
    stopped = lab.event("stopped")
    assert not stopped["alive"]
    assert stopped["loss"] < 0.7 * stopped["first"]
    wait_for(lambda: shown_step() == stopped["step"], "the last step")

    # The keyboard alone: the outline opens and closes scopes and selects.
    view.locator(".gw-outline").focus()
    for key in ("Home", "ArrowDown", "ArrowDown", "ArrowLeft"):
        view.keyboard.press(key)
    expect(graph).to_have_attribute("data-boxes", closed)
    view.keyboard.press("Space")
    lab.event("selected", name="hidden/")
    view.keyboard.press("Enter")
    expect(graph).to_have_attribute("data-boxes", opened)
    bench = view.locator(VIEW)
    for theme in ("Light", "Dark"):
        page.set_theme(f"JupyterLab {theme}")
        bench.scroll_into_view_if_needed()
        view.mouse.move(5, 5)
        bench.screenshot(path=screens / f"workbench_{theme.lower()}.png")
        view.screenshot(path=screens / f"lab_{theme.lower()}.png")

    assert view.evaluate("window.executed") is None
    assert page.errors == []
    assert page.outside == []


BLOCK = """
class StopAfterFreezing(gw.Callback):
    left = 50
    def on_step_end(self, trainer, record):
        self.left -= not w.trainable
        if self.left == 0:
            trainer.stop()
trainer.add_callback(StopAfterFreezing())
note("blocking")
trainer.fit({"x": X, "t": y}, epochs=100_000, batch_size=32)
points = sum(len(bench.points(*curve)[0]) for curve in bench.curves)
note("free", steps=trainer.steps_done, frozen=not w.trainable, points=points)
"""


def test_a_blocking_fit_is_heard_and_a_reload_restores(page, lab):
    lab.write_notebook("blocking.ipynb", [SETUP, SHOW, BLOCK])
    page.open_notebook("blocking.ipynb")
    view = page.page
    page.run_cell(0)
    page.run_cell(1)
    view.locator(".gw-graph[data-ready]").wait_for()
    page.start_cell(2)
    lab.event("blocking")
    plot = view.locator(".gw-training .gw-plot")
    wait_for(lambda: points(plot) > 20, "curves while the cell runs")
    view.get_by_role("tab", name="Parameters", exact=True).click()
    view.get_by_label("Train hidden/w", exact=True).uncheck()
    done = lab.event("free")
    assert done["frozen"], "the box was not heard while the cell ran"
    view.get_by_role("tab", name="Train", exact=True).click()

    # What the kernel has, not what the page happens to have: the last points may be on the way.
    every = str(done["points"])
    expect(plot).to_have_attribute("data-points", every)
    page.reload_notebook("blocking.ipynb")
    view.locator(".gw-graph[data-ready]").wait_for()
    expect(plot).to_have_attribute("data-points", every)
    expect(view.get_by_label("Train hidden/w", exact=True)).not_to_be_checked()
    page.assert_clean()


def test_a_saved_page_works_without_a_kernel(saved, screens):
    import gradwright as gw
    from gradwright_widgets import Workbench

    g = gw.Graph("offline")
    with g.scope("hidden"):
        h = g.placeholder("x", (None, 4)) @ g.variable("w", (4, 3))
    gw.nn.softmax(h, name=EVIL)
    bench = Workbench(g, expanded=[])
    for step in range(50):
        bench.append(step, {"loss": 1 / (step + 1)})
    view = saved(bench, 1200, theme="dark")
    view.locator(".gw-graph[data-ready]").wait_for()
    view.mouse.dblclick(*place(view.locator(".gw-stage"), "hidden/"))
    expect(view.locator(".gw-graph")).to_have_attribute("data-boxes", "5")
    expect(view.locator(".gw-training .gw-plot")).to_have_attribute("data-points", "50")
    view.get_by_role("tab", name="Parameters", exact=True).click()
    view.get_by_label("Train hidden/w", exact=True).click()
    view.locator(".gw-message", has_text="saved view").wait_for()
    expect(view.get_by_label("Train hidden/w", exact=True)).to_be_checked()
    view.screenshot(path=screens / "saved_page_dark.png")
