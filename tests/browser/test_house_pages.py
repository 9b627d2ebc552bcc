"""Pages as earlier versions have saved them, as they are and drawn by the modules of today.

A page carries the module that drew it, so it opens without us: three that were saved before the
house was rebuilt do. Held apart is what a page was told: whoever renames a trait or a message sees
that the module still takes the old one, or that ``python -m tests.house.files`` has to write the
pages anew.
"""

from __future__ import annotations

import pytest

import gradwright as gw
import gradwright_widgets
from tests.browser.lab import expect
from tests.house.files import PAGES, pages, saved_pages
from tests.house.views import HELD

pytestmark = pytest.mark.browser

DRAWN = {
    "GraphView of loops": [".gw-graph[data-ready]"],
    "TensorView": [".gw-tensor[data-drawn]"],
    "Workbench": [".gw-graph[data-ready]", ".gw-parameters tr[data-name='hidden/w']"],
}
"""What is on each page once it is drawn."""


class Kept:
    """Has the page of a widget of today, with what was held at that time."""

    def __init__(self, name):
        g = gw.Graph()
        made = gw.exp(g.placeholder("x", (2,)))
        kind = getattr(gradwright_widgets, name.partition(" ")[0])
        self.widget, self.held = kind(made if name == "TensorView" else g), pages()[name]

    def to_html(self, path):
        page = self.widget.to_html()
        self.widget.close()
        path.write_text(HELD.sub(lambda _: self.held, page), "utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_a_kept_page_is_drawn(saved, name):
    page = saved(Kept(name))
    for place in DRAWN[name]:
        expect(page.locator(place).first).to_be_attached()


class Saved:
    """A page as it lies on somebody's disk."""

    def __init__(self, name):
        self.text = saved_pages()[name]

    def to_html(self, path):
        path.write_text(self.text, "utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_a_saved_page_opens(saved, name):
    page = saved(Saved(name))
    for place in DRAWN[name]:
        expect(page.locator(place).first).to_be_attached()
