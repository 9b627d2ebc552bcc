"""Pages that need no kernel: tensors to select, the theme of the page, executed notebooks."""

from __future__ import annotations

import base64

import nbclient
import nbformat.v4 as v4
import pytest
from nbconvert import HTMLExporter

from gradwright_widgets.host.base import bundle
from tests.browser.lab import Watched, expect, points, wait_for
from tests.widgets import benches

pytestmark = pytest.mark.browser

bench = pytest.fixture(benches.bench)


def test_tensors_of_a_saved_page_are_shown_by_selecting(saved, bench):
    bench.start()
    bench.wait()
    page = saved(bench, width=1300)
    page.locator("[data-tab=parameters]").click()
    page.get_by_role("button", name="gain", exact=True).click()
    page.locator("[data-tab=tensor]").click()
    tensor = page.locator(".gw-tensor")
    expect(tensor.locator(".gw-title")).to_have_text("gain")
    expect(tensor).to_contain_text("3 values")
    page.locator("[data-tab=parameters]").click()
    page.get_by_role("button", name="shift", exact=True).click()
    page.locator("[data-tab=tensor]").click()
    expect(tensor.locator(".gw-title")).to_have_text("shift")


def test_the_page_says_whether_it_is_dark_and_not_the_system(saved, bench):
    page = saved(bench, theme="light")
    root = page.locator(".gw")
    expect(root).to_have_attribute("data-gw-theme", "light")
    page.evaluate("document.documentElement.style.colorScheme = 'dark'")
    expect(root).to_have_attribute("data-gw-theme", "dark")
    page.evaluate("document.documentElement.style.colorScheme = 'light'")
    expect(root).to_have_attribute("data-gw-theme", "light")
    page.evaluate("document.documentElement.style.colorScheme = ''")
    page.evaluate("document.body.style.background = '#101216'")
    expect(root).to_have_attribute("data-gw-theme", "dark")
    page.emulate_media(contrast="more")  # which the system does say
    expect(root).to_have_attribute("data-gw-contrast", "")
    page.emulate_media(contrast="no-preference")
    expect(root).not_to_have_attribute("data-gw-contrast", "")


def test_a_host_that_makes_room_for_what_asks_for_it_shows_the_view(saved, bench):
    page = saved(bench, width=1200)
    root = page.locator(".gw")
    page.evaluate("document.getElementById('view').style.cssText = 'width: fit-content'")
    wait_for(lambda: root.evaluate("(e) => e.offsetWidth") > 900, "the view to have a width")
    page.set_viewport_size({"width": 500, "height": 700})
    wait_for(lambda: root.evaluate("(e) => e.offsetWidth") <= 500, "the view to fit the page")


EXECUTED = """
import numpy as np, gradwright as gw
from gradwright_widgets import LivePlot
g = gw.Graph("parabola")
w = g.variable("w", (), init=2.0)
trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(0.25))
plot = LivePlot(trainer)
plot
"""

STAND_IN = """async ({ state, module }) => {
  const { default: widget } = await import(`data:text/javascript;base64,${module}`);
  const listeners = {};
  const real = { comm: undefined, comm_live: false };
  const model = {
    get: (key) => state[key],
    set: (key, value) => {
      state[key] = value;
      for (const call of listeners[`change:${key}`] ?? []) call(real, value);
    },
    save_changes: () => {},
    send: () => {},
    on: (event, call) => (listeners[event] ??= []).push(call),
    off: () => {},
  };
  const shown = widget();
  await shown.initialize({ model });
  shown.render({ model, el: document.body });
}"""
"""What anywidget and ipywidgets' manager do with a widget whose notebook became a page."""


def test_an_executed_notebook_has_its_curves_and_a_still(browser, tmp_path):
    cells = [EXECUTED, "trainer.fit([{}], epochs=4, progress=False);"]
    notebook = v4.new_notebook(cells=[v4.new_code_cell(cell) for cell in cells])
    options = {"timeout": 120, "resources": {"metadata": {"path": str(tmp_path)}}}
    nbclient.NotebookClient(notebook, kernel_name="python3", **options).execute()

    # Default priorities, without a network: the still is there.
    html = HTMLExporter().from_notebook_node(notebook)[0]
    (tmp_path / "page.html").write_text(html)
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto((tmp_path / "page.html").as_uri(), wait_until="domcontentloaded")
    expect(page.locator(".gw-still")).to_contain_text("A still picture of this LivePlot")
    context.close()

    # With ipywidgets' manager: what Python has kept is drawn, and no kernel is waited for.
    states = notebook.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    (held,) = (s for s in states.values() if "_kept" in s["state"])
    state = dict(held["state"])
    context = browser.new_context()
    watched = Watched(context)
    page = watched.page
    page.goto("about:blank")
    page.evaluate(
        """([state, buffers]) => {
          window.state = state;
          for (const { path, data } of buffers) {
            const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
            let place = state;
            for (const key of path.slice(0, -1)) place = place[key];
            place[path.at(-1)] = new DataView(bytes.buffer);
          }
        }""",
        [state, held["buffers"]],
    )
    module = base64.b64encode(bundle("live_plot").encode()).decode()
    page.evaluate(f"(module) => ({STAND_IN})({{ state: window.state, module }})", module)
    plot = page.locator(".gw-plot")
    expect(plot).to_have_attribute("data-points", "8")
    assert points(plot) == 8
    expect(page.locator(".gw-notice")).to_be_hidden()
    watched.assert_clean()
    context.close()
