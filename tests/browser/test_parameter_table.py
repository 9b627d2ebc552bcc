"""The parameter table in a page: live, sorted, filtered, with the keyboard, from a file."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gradwright as gw
from gradwright_widgets import ParameterTable
from tests.browser.lab import EVIL, NOTE, SLOW, VIEW, expect, redraw, wait_for

pytestmark = pytest.mark.browser

SETUP = f"""
{NOTE}
import hashlib, threading
import numpy as np
import gradwright as gw
from gradwright_widgets import ParameterTable
from gradwright_widgets.panels.parameters.panel import ParameterPanel

g = gw.Graph("digits")
x, t = g.placeholder("x", (None, 16)), g.placeholder("t", (None, 4))
with g.scope("hidden"):
    h = gw.tanh(x @ g.variable("w", (16, 32), init=gw.init.he_normal(seed=0))
                + g.variable("b", (32,)))
with g.scope({EVIL!r}):
    y = h @ g.variable("w2", (32, 4), init=gw.init.xavier_uniform(seed=1))
loss = gw.mean((y - t) ** 2.0, name="loss")
trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.01))
X = np.random.default_rng(0).standard_normal((256, 16)).astype("float32")
data = {{"x": X, "t": X[:, :4]}}
table = ParameterTable(g, trainer, table_columns=["shape", "norm", "gradient_norm", "ratio"])
def digest(name):
    return hashlib.sha256(g.values[name].tobytes()).hexdigest()
def frozen(change):
    note("frozen", names=change["new"], step=trainer.steps_done, w=digest("hidden/w"))
table.observe(frozen, "frozen")
table.observe(lambda change: note("selected", name=change["new"]), "selected")
table
"""

TRAIN = f"""
{SLOW}
class Report(gw.Callback):
    def on_epoch_end(self, trainer, record):
        note("epoch", step=record.step, w=digest("hidden/w"))
trainer.add_callback(Report())
trainer.add_callback(Slow())
thread = threading.Thread(target=lambda: trainer.fit(data, epochs=10**6, progress=False))
thread.start()
"""

STOP = """
trainer.stop()
thread.join(30)
table.part(ParameterPanel)._statistics_pace.flush()
last = table.statistics.steps[-1]
note("stopped", step=last, ratio=table.parameter_numbers()["hidden/b"]["ratio"])
"""


def test_the_table_follows_a_training_and_freezes_a_scope(page, lab, screens):
    lab.write_notebook("table.ipynb", [SETUP, TRAIN, STOP])
    page.open_notebook("table.ipynb")
    view = page.page
    page.run_cell(0)
    rows = view.locator(".gw-parameters tr[data-name]")
    expect(rows).to_have_count(3)
    expect(view.locator("tr[data-scope]")).to_have_count(2)
    line = view.locator("tr[data-name='hidden/b'] .gw-spark-line").last
    expect(line).not_to_have_attribute("d", re.compile("."))  # nothing was trained yet

    page.run_cell(1)
    wait_for(lambda: (line.get_attribute("d") or "").count("L") >= 4, "a line that grows")
    view.locator("tr[data-name='hidden/b'] .gw-spark").last.hover()
    view.locator(".gw-sample", has_text="usual band").wait_for()

    # A scope is frozen between two steps, and stays as it is to the bit.
    view.get_by_label("Train all of hidden/", exact=True).uncheck()
    event = lab.event("frozen", names=["hidden/w", "hidden/b"])
    last = event["step"] + 50
    later = wait_for(lambda: [e for e in lab.events("epoch") if e["step"] >= last], "50 steps more")
    assert later[0]["w"] == event["w"]
    view.locator("tr[data-name='hidden/w']", has_text="frozen").wait_for()
    expect(view.locator("tr[data-name='hidden/w'] td").nth(4)).to_contain_text("–")  # no gradient
    view.get_by_label("Train hidden/b", exact=True).check()
    lab.event("frozen", names=["hidden/w"])
    view.locator("tr[data-scope='hidden/']:not([data-waiting])").wait_for()
    some = view.get_by_label("Train all of hidden/", exact=True)
    expect(some).to_be_checked(indeterminate=True)

    view.locator("tr[data-name='hidden/w'] .gw-link").click()
    lab.event("selected", name="hidden/w")
    page.run_cell(2)
    stopped = lab.event("stopped")
    step = view.locator(".gw-parameters .gw-status", has_text=f"step {stopped['step']:,}")
    step.wait_for()
    drawn = line.get_attribute("d")
    view.locator(VIEW).screenshot(path=screens / "parameter_table_light.png")

    page.reload_notebook("table.ipynb")
    step.wait_for()
    expect(line).to_have_attribute("d", drawn)
    expect(view.get_by_label("Train hidden/w", exact=True)).not_to_be_checked()
    view.locator("tr.gw-selected[data-name='hidden/w']").wait_for()
    page.assert_clean()


def test_five_thousand_parameters_from_a_file(saved):
    g = gw.Graph("large")
    for i in range(5000):
        g.variable(f"model/block{i // 100}/layer{i % 100}/w", (2,), init=float(i))
    table = ParameterTable(g, table_closed=[], selected="model/block30/layer7/w")
    view = saved(table)
    rows = view.locator(".gw-rows tr")
    name = "model/block30/layer7/w"
    expect(view.locator("tr.gw-selected")).to_have_attribute("data-name", name)
    assert rows.count() < 80, "only what is in sight is built"

    scroll = view.locator(".gw-parameters .gw-table-scroll")
    scroll.evaluate("s => { s.scrollTop = s.scrollHeight }")
    view.locator("tr[data-name='model/block49/layer99/w']").wait_for()
    assert rows.count() < 80

    # Sorting by a number, largest first, then smallest, then as in the graph.
    scroll.evaluate("s => { s.scrollTop = 0 }")
    norm = view.locator("th[data-column='norm']")
    view.get_by_label("Columns", exact=True).first.click()
    view.get_by_label("Group by scope").uncheck()
    view.locator(".gw-parameters .gw-title").click()
    expect(view.locator(".gw-columns .gw-popup")).to_be_hidden()
    for order, first in (("descending", 4999), ("ascending", 0), ("none", 0)):
        norm.locator("button").click()
        expect(norm).to_have_attribute("aria-sort", order)
        name = f"model/block{first // 100}/layer{first % 100}/w"
        expect(rows.first).to_have_attribute("data-name", name)

    field = view.get_by_label("Filter parameters")
    field.fill("*/block7/layer1?/w")
    view.locator(".gw-filtered", has_text="10 of 5,000 shown").wait_for()
    expect(rows).to_have_count(10)
    field.fill("/layer(1|2)[/")
    expect(field).to_have_attribute("aria-invalid", "true")
    redraw(view)
    assert rows.count() == 10, "what was shown stays"
    field.fill("/block7.layer(1|2).w/")
    expect(rows).to_have_count(2)
    field.fill("nothing")
    view.locator(".gw-empty", has_text="No name fits").wait_for()
    field.fill("block7/layer1/")
    view.get_by_role("button", name="Freeze shown").click()
    view.locator(".gw-message", has_text="saved view").wait_for()
    expect(view.get_by_label("Train model/block7/layer1/w", exact=True)).to_be_checked()


def test_the_keyboard_alone_and_names_that_are_text(saved):
    g = gw.Graph("small")
    for scope in ("a", EVIL):
        with g.scope(scope):
            g.variable("w", (2, 3), init=1.0)
            g.variable(EVIL, (3,))
    view = saved(ParameterTable(g), 440, theme="dark")
    active, inner = view.locator(":focus"), f"{EVIL}/"
    view.locator(".gw-rows .gw-link").first.focus()
    expect(active).to_have_attribute("aria-label", "a/")
    for key, name in (
        ("ArrowDown", "a/w"),
        ("End", f"{inner}{EVIL}"),
        ("ArrowLeft", inner),
        ("ArrowLeft", inner),
        ("ArrowUp", f"a/{EVIL}"),
        ("Home", "a/"),
        ("ArrowLeft", "a/"),
    ):
        view.keyboard.press(key)
        redraw(view)
        expect(active).to_have_attribute("aria-label", name)
    expect(view.locator(".gw-rows tr")).to_have_count(2)  # both groups are closed
    view.keyboard.press("Enter")
    view.locator("tr.gw-selected[data-scope='a/']").wait_for()
    view.keyboard.press("Shift+Tab")
    expect(active).to_have_attribute("aria-label", "Train all of a/")
    assert view.locator(".gw-rows").text_content().count(EVIL) == 1


def test_a_damaged_past_is_drawn_as_far_as_it_goes(saved):
    g = gw.Graph("flags")
    x = g.placeholder("x", (2,))
    w, d = g.variable("w", (2,), init=1.0), g.variable("d", (2,), init=-1.0)
    loss = gw.sum(w * w * x) + gw.sum(gw.nn.relu(d))
    watch = gw.ParameterStatistics(every=1)
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(1e-3), nonfinite="skip", callbacks=[watch])
    table = ParameterTable(g, trainer)
    for k in range(9):
        trainer.step({"x": np.array([1.0, np.nan if k == 8 else 2.0])})
    view = saved(table)
    view.locator("tr[data-name='d'] .gw-flag", has_text="dead").wait_for()
    view.locator("tr[data-name='w'] .gw-flag", has_text="not finite").wait_for()
    line = view.locator("tr[data-name='w'] .gw-spark-line").first
    expect(line).to_have_attribute("d", re.compile("^([^L]*L){7}[^L]*$"))
    expect(line).not_to_have_attribute("d", re.compile("NaN"))
    expect(view.locator(".gw-status")).to_contain_text("1 dead · 1 not finite")
