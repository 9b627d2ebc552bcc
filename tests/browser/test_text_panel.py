"""The text of a language model in JupyterLab: typed, watched, looked into, stepped, reloaded."""

from __future__ import annotations

import re

import pytest

from tests.browser.lab import EVIL, NOTE, VIEW, expect

pytestmark = pytest.mark.browser

SETUP = f"""
{NOTE}
import time
import numpy as np
from gradwright.models import Decoder, DecoderConfig
from gradwright_widgets import TextPanel

WORDS = ["the ", "cat ", "sat ", "on ", "mat ", {EVIL!r}, "ran ", "to "]

class Words:
    def encode(self, text):
        return [WORDS.index(word + " ") for word in text.split()]
    def decode(self, ids):
        time.sleep(0.001)  # a text of 1,900 tokens takes half a minute: who stops it comes in time
        return "".join(WORDS[i] for i in ids)

config = DecoderConfig(vocabulary=8, width=16, layers=2, heads=4, kv_heads=2, context=2000)
rng = np.random.default_rng(3)
values = {{
    name: (rng.standard_normal(shape) * 0.4 + (len(shape) == 1)).astype("f")
    for name, shape in config.weights()
}}
model = Decoder(config, values=values, tokenizer=Words())
"""

SHOW = """
panel = TextPanel(model, height=520, text_length=24)
panel.observe(lambda change: note("state", value=change["new"]), "text_state")
panel.observe(lambda change: note("page", value=change["new"]), "text_page")
panel
"""


def test_a_text_is_written_and_looked_into(page, lab, screens):
    lab.write_notebook("text.ipynb", [SETUP, SHOW])
    page.open_notebook("text.ipynb")
    view = page.page
    for cell in range(2):
        page.run_cell(cell)
    panel = view.locator(".gw-text")
    panel.wait_for()
    panel.scroll_into_view_if_needed()
    tokens = panel.locator(".gw-token")

    # Typed and sent with the keyboard, it grows by as many tokens as were asked for.
    expect(panel).to_contain_text("goes on with it")
    expect(panel.get_by_role("button", name="Generate")).to_be_disabled()
    prompt = panel.get_by_label("Prompt", exact=True)
    prompt.fill("the cat sat")
    prompt.press("Control+Enter")
    lab.event("state", value="done")
    expect(tokens).to_have_count(27)
    expect(panel.locator(".gw-token-prompt")).to_have_count(3)
    expect(panel).to_contain_text("24 new tokens")
    expect(panel).to_contain_text("perplexity")
    expect(tokens.nth(0)).to_have_attribute("data-hue", "")  # nothing stands before it
    for at in (1, 2):
        expect(tokens.nth(at)).to_have_attribute("data-hue", re.compile("likely"))

    # What might have come, under the pointer and of the one that is chosen.
    tokens.nth(8).hover()
    expect(panel.locator(".gw-text-tip li").first).to_be_visible()
    tokens.nth(9).click()
    expect(tokens.nth(9)).to_have_attribute("aria-selected", "true")
    expect(panel.locator(".gw-text-detail .gw-ranked li:visible")).to_have_count(8)
    expect(panel.locator(".gw-text-detail li[data-came]")).to_have_count(1)
    assert view.evaluate("window.executed") is None  # tokens are text
    page.set_theme("JupyterLab Light")
    view.locator(VIEW).screenshot(path=screens / "text_light.png")

    # Attention of a layer and head, and what came before adds to the logit.
    panel.get_by_role("tab", name="Attention").click()
    expect(tokens.nth(9)).to_have_attribute("data-hue", "attended")
    expect(tokens.nth(10)).to_have_attribute("data-hue", "")
    panel.get_by_label("Layer", exact=True).select_option("1")
    panel.get_by_label("Head", exact=True).select_option("2")
    expect(panel.get_by_role("img", name="Attention of layer 1, head 2")).to_be_visible()
    kept = panel.get_by_role("img", name="Keys and values of the chosen token")
    expect(kept).to_be_visible()
    expect(panel).to_contain_text("of all up to it 640 B")  # 2 · 2 heads · 4 features · 10 · 4 B
    panel.get_by_role("tab", name="Why").click()
    expect(panel.locator(".gw-text-detail .gw-ranked li:visible")).to_have_count(9)
    expect(tokens.nth(2)).to_have_attribute("data-hue", re.compile("for|against"))
    panel.locator(".gw-text-flow").press("ArrowRight")
    expect(panel.locator(".gw-text-detail .gw-ranked li:visible")).to_have_count(10)
    page.set_theme("JupyterLab Dark")
    view.locator(VIEW).screenshot(path=screens / "text_dark.png")

    # The stepper stands before the graph that computes it.
    panel.get_by_role("button", name="Step through").click()
    lab.event("page", value="step")
    expect(view.locator(".gw-tabbed")).to_contain_text("ids 1 × 10")
    view.locator(".gw-tabbed").get_by_role("tab", name="Text", exact=True).click()

    # A view of its own stands in the side panel, which stays while the notebook scrolls.
    page.command("gradwright:show-panel")
    side = view.locator("#gradwright-panel")
    side.get_by_role("button", name="text", exact=True).click()
    expect(side.locator(".gw-side-pin .gw-text")).to_contain_text("goes on with it")
    side.screenshot(path=screens / "text_side.png")
    side.get_by_role("button", name="Unpin this view").click()

    # A long text can be stopped, what is there stays, also over a reload.
    panel.get_by_label("Tokens", exact=True).first.fill("1900")
    prompt.press("Control+Enter")
    panel.get_by_role("button", name="Stop").click()
    lab.event("state", value="stopped")
    expect(panel).to_contain_text("stopped")
    page.reload_notebook("text.ipynb")
    panel.wait_for()
    expect(tokens.nth(3)).to_be_visible()

    # A whole text, scored.
    panel.get_by_label("What to do with the text").select_option("score")
    panel.get_by_role("button", name="Score").click()
    expect(tokens).to_have_count(3)
    expect(panel).to_contain_text("log-likelihood")
