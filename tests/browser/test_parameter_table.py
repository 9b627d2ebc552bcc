"""The parameter table in a page: live, sorted, filtered, with the keyboard, from a file."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright_widgets import ParameterTable
from tests.browser.lab import EVIL, NOTE, wait_for

pytestmark = pytest.mark.browser

SETUP = f"""
{NOTE}
import hashlib, threading
import numpy as np
import gradwright as gw
from gradwright_widgets import ParameterTable

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

TRAIN = """
class Report(gw.Callback):
    def on_epoch_end(self, trainer, record):
        note("epoch", step=record.step, w=digest("hidden/w"))
trainer.add_callback(Report())
thread = threading.Thread(target=lambda: trainer.fit(data, epochs=10**6, progress=False))
thread.start()
"""

STOP = """
trainer.stop()
thread.join(30)
table._statistics_pace.flush()
last = table.statistics.steps[-1]
note("stopped", step=last, ratio=table.parameter_numbers()["hidden/b"]["ratio"])
"""


def test_the_table_follows_a_training_and_freezes_a_scope(page, lab, screens):
    lab.write_notebook("table.ipynb", [SETUP, TRAIN, STOP])
    page.open_notebook("table.ipynb")
    view = page.page
    page.run_cell(0)
    rows = view.locator(".gw-parameters tr[data-name]")
    rows.nth(2).wait_for()
    assert rows.count() == 3 and view.locator("tr[data-scope]").count() == 2
    line = view.locator("tr[data-name='hidden/b'] .gw-spark-line").last
    assert not line.get_attribute("d"), "nothing was trained yet"

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
    wait_for(
        lambda: "–" in view.locator("tr[data-name='hidden/w'] td").nth(4).inner_text(),
        "no gradient of what is frozen",
    )
    view.get_by_label("Train hidden/b", exact=True).check()
    lab.event("frozen", names=["hidden/w"])
    assert view.get_by_label("Train all of hidden/", exact=True).evaluate("b => b.indeterminate")

    view.locator("tr[data-name='hidden/w'] .gw-link").click()
    lab.event("selected", name="hidden/w")
    page.run_cell(2)
    stopped = lab.event("stopped")
    step = view.locator(".gw-parameters .gw-status", has_text=f"step {stopped['step']:,}")
    step.wait_for()
    drawn = line.get_attribute("d")
    view.locator(".gw").screenshot(path=screens / "parameter_table_light.png")

    page.reload_notebook("table.ipynb")
    step.wait_for()
    wait_for(lambda: line.get_attribute("d") == drawn, "the past after a reload")
    assert not view.get_by_label("Train hidden/w", exact=True).is_checked()
    view.locator("tr.gw-selected[data-name='hidden/w']").wait_for()
    page.assert_clean()


def test_five_thousand_parameters_from_a_file(saved):
    g = gw.Graph("large")
    for i in range(5000):
        g.variable(f"model/block{i // 100}/layer{i % 100}/w", (2,), init=float(i))
    table = ParameterTable(g, table_closed=[], selected="model/block30/layer7/w")
    view = saved(table)
    rows = view.locator(".gw-rows tr")
    view.locator("tr.gw-selected").wait_for()
    assert view.locator("tr.gw-selected").get_attribute("data-name") == "model/block30/layer7/w"
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
    assert view.locator(".gw-columns .gw-popup").is_hidden()
    for order, first in (("descending", 4999), ("ascending", 0), ("none", 0)):
        norm.locator("button").click()
        wait_for(lambda order=order: norm.get_attribute("aria-sort") == order, order)
        name = f"model/block{first // 100}/layer{first % 100}/w"
        wait_for(lambda name=name: rows.first.get_attribute("data-name") == name, name)

    field = view.get_by_label("Filter parameters")
    field.fill("*/block7/layer1?/w")
    view.locator(".gw-filtered", has_text="10 of 5,000 shown").wait_for()
    assert rows.count() == 10
    field.fill("/layer(1|2)[/")
    wait_for(lambda: field.get_attribute("aria-invalid") == "true", "a word about the regex")
    assert rows.count() == 10, "what was shown stays"
    field.fill("/block7.layer(1|2).w/")
    wait_for(lambda: rows.count() == 2, "two rows")
    field.fill("nothing")
    view.locator(".gw-empty", has_text="No name fits").wait_for()
    field.fill("block7/layer1/")
    view.get_by_role("button", name="Freeze shown").click()
    view.locator(".gw-message", has_text="saved view").wait_for()
    assert view.get_by_label("Train model/block7/layer1/w", exact=True).is_checked()


def test_the_keyboard_alone_and_names_that_are_text(saved):
    g = gw.Graph("small")
    for scope in ("a", EVIL):
        with g.scope(scope):
            g.variable("w", (2, 3), init=1.0)
            g.variable(EVIL, (3,))
    view = saved(ParameterTable(g), 440, theme="dark")
    active = "document.activeElement.getAttribute('aria-label')"
    view.locator(".gw-rows .gw-link").first.focus()
    seen = [view.evaluate(active)]
    for key in ("ArrowDown", "End", "ArrowLeft", "ArrowLeft", "ArrowUp", "Home", "ArrowLeft"):
        view.keyboard.press(key)
        view.wait_for_timeout(50)
        seen.append(view.evaluate(active))
    inner = f"{EVIL}/"
    assert seen == ["a/", "a/w", f"{inner}{EVIL}", inner, inner, f"a/{EVIL}", "a/", "a/"]
    assert view.locator(".gw-rows tr").count() == 2, "both groups are closed"
    view.keyboard.press("Enter")
    view.locator("tr.gw-selected[data-scope='a/']").wait_for()
    view.keyboard.press("Shift+Tab")
    assert view.evaluate(active) == "Train all of a/"
    assert view.locator(".gw-rows").inner_text().count(EVIL) == 1


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
    line = view.locator("tr[data-name='w'] .gw-spark-line").first.get_attribute("d")
    assert line.count("L") == 7 and "NaN" not in line
    assert "1 dead · 1 not finite" in view.locator(".gw-status").inner_text()
