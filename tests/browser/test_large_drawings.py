"""Large drawings in a browser: what is seen first, Fit, columns, thousands of boxes that move."""

from __future__ import annotations

import pytest

from gradwright_widgets import GraphView
from tests.browser.lab import expect, place, redraw, wait_for
from tests.support import large_models

pytestmark = pytest.mark.browser

TOGGLE = (-28, -4)
"""px from the middle of a closed scope to where its toggle stands, open and closed."""
PAINTED = """(stage) => {
  const canvas = stage.querySelector(".gw-canvas"), { width, height } = canvas;
  const data = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  let painted = 0;
  for (let k = 3; k < data.length; k += 4) painted += data[k] > 0;
  return painted / (width * height);
}"""

MOVED = """async (stage, key) => {
  stage.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  await new Promise(requestAnimationFrame);
  return stage.querySelector(".gw-canvas").hasAttribute("data-moving");
}"""
"""Whether the frame after a key shows what was painted before."""


class View:
    """A drawing on a page of its own."""

    def __init__(self, page):
        self.page = page
        self.graph = page.locator(".gw-graph")
        page.locator(".gw-graph[data-ready]").wait_for()
        self.stage = page.locator(".gw-stage")

    def press(self, name):
        self.page.get_by_role("button", name=name).click()
        redraw(self.page)

    def sees(self, name):
        """Tell whether the middle of an item is in the window."""
        at, box = place(self.stage, name), self.stage.bounding_box()
        across = box["x"] <= at[0] <= box["x"] + box["width"]
        return across and box["y"] <= at[1] <= box["y"] + box["height"]

    def drawn(self, name):
        return self.stage.evaluate("(stage, name) => Boolean(stage.locate(name))", name)


@pytest.mark.parametrize("size", [(760, 620), (1500, 900)])
def test_reading_begins_at_the_input_and_fit_shows_all(saved, screens, size):
    view = View(saved(GraphView(large_models.decoder(12), height=size[1] - 60), *size))
    ends = ("ids", "layer0/", "layer11/", "labels", "loss")
    assert view.sees("ids")
    assert view.sees("embedded")
    view.page.screenshot(path=screens / f"large_first_{size[0]}.png")
    view.press("Fit the drawing")
    assert all(view.sees(name) for name in ends)
    view.page.screenshot(path=screens / f"large_fit_{size[0]}.png")
    view.press("Outline")
    wait_for(lambda: all(view.sees(name) for name in ends), "Fit to hold beside the outline")
    view.page.emulate_media(color_scheme="dark")
    redraw(view.page)
    view.page.screenshot(path=screens / f"large_fit_dark_{size[0]}.png")


def test_what_is_under_the_pointer_stays(saved):
    view = View(saved(GraphView(large_models.decoder(12), expanded=[]), 900, 700))
    at = place(view.stage, "layer2/")
    x, y = at[0] + TOGGLE[0], at[1] + TOGGLE[1]
    for _ in range(2):
        view.page.mouse.click(x, y)
        wait_for(lambda: view.drawn("layer2/add"), "the scope to open")
        redraw(view.page)
        view.page.mouse.click(x, y)
        wait_for(lambda: not view.drawn("layer2/add"), "the same place to close it")
        redraw(view.page)
    assert place(view.stage, "layer2/") == pytest.approx(at, abs=1)


def test_thousands_of_boxes_move_and_are_painted_when_they_rest(saved, screens):
    view = View(saved(GraphView(large_models.fan_out(5000)), 900, 700))
    view.press("Open all")
    expect(view.graph).to_have_attribute("data-boxes", "5001")
    view.press("Fit the drawing")
    whole = view.stage.evaluate(PAINTED)
    assert whole > 0.1
    for key in ("ArrowRight", "ArrowDown", "-"):
        assert view.stage.evaluate(MOVED, key)
        assert view.stage.evaluate(PAINTED) > whole / 4
    expect(view.stage.locator(".gw-canvas").first).not_to_have_attribute("data-moving", "")
    assert view.stage.evaluate(PAINTED) > whole / 4
    view.page.screenshot(path=screens / "large_fan.png")
