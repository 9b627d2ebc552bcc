"""The tensor view in a real JupyterLab: slices, exact values, zoom, NaN, and a training."""

from __future__ import annotations

import re

import pytest

from tests.browser.lab import EVIL, NOTE, expect, wait_for
from tests.browser.lab import place as place_on

pytestmark = pytest.mark.browser

SETUP = f"""
{NOTE}
import threading
import numpy as np
import gradwright as gw
from gradwright_widgets.panels.tensor.panel import TensorView

rng = np.random.default_rng(0)
large = rng.standard_normal((1000, 1000)).astype("float32")
large[421, 777] = np.nan
stack = np.arange(2 * 3 * 4 * 5, dtype="float32").reshape(2, 3, 4, 5)
g = gw.Graph()
x = g.placeholder("x", (None, 16))
w = g.variable("hidden/w", (16, 10), init=gw.init.he_normal(seed=0))
loss = gw.mean((x @ w - 1.0) ** 2, name="loss")
trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(1e-3))
data = {{"x": rng.standard_normal((256, 16)).astype("float32")}}
"""

SHOW = f"""
view = TensorView(stack, name={EVIL!r}, height=520)
view.observe(lambda c: note("cursor", at=c["new"]), "tensor_cursor")
view.observe(lambda c: note("index", text=c["new"]), "tensor_index")
view
"""

LARGE = "view.show_tensor(large, name='large')"
NEXT = "live = TensorView(w, trainer=trainer, height=520); live"

TRAIN = """
thread = threading.Thread(
    target=lambda: trainer.fit(data, epochs=400, batch_size=32, progress=False)
)
thread.start()
"""

STOP = """
trainer.stop(); thread.join(30)
view.show_tensor(stack, "[1, 2]", name="exact")
view.to_html("tensor.html")
live.close(); view.close()
note("closed", threads=[t.name for t in threading.enumerate()])
"""


def test_a_tensor_is_explored(page, lab, screens):
    lab.write_notebook("tensor.ipynb", [SETUP, SHOW, LARGE, NEXT, TRAIN, STOP])
    page.open_notebook("tensor.ipynb")
    view = page.page
    page.run_cell(0)
    page.run_cell(1)
    panel = view.locator(".gw-tensor").first
    stage, field = panel.locator(".gw-tensor-stage"), panel.get_by_label("Slice", exact=True)
    readout = panel.locator(".gw-tensor-readout")

    def drawn(what: str) -> None:
        expect(panel).to_have_attribute("data-drawn", what)

    def place(*index: int) -> tuple[float, float]:
        stage.scroll_into_view_if_needed()
        return place_on(stage, list(index))

    def says(text: str) -> None:
        expect(readout).to_contain_text(re.compile(text), use_inner_text=True)

    # A name is text; a slice is shown, or refused with the place of the mistake.
    drawn(f"{EVIL}[0, 0, :, :]")
    expect(panel.locator(".gw-title")).to_have_text(EVIL)
    assert view.evaluate("window.executed") is None
    field.fill("[0, 9, :]")
    field.press("Enter")
    panel.get_by_text("9 is outside of axis 1").wait_for()
    marked = "f => f.value.slice(f.selectionStart, f.selectionEnd)"
    wait_for(lambda: field.evaluate(marked) == "9", "the mistake to be marked")
    field.fill("[1, 2, ::2, -1:0:-2]")
    field.press("Enter")
    lab.event("index", text="[1, 2, ::2, -1:0:-2]")
    drawn(f"{EVIL}[1, 2, ::2, -1:0:-2]")
    expect(panel.locator(".gw-tensor-problem")).to_be_hidden()
    view.mouse.move(*place(1, 2, 2, 2))
    says(r"\[1, 2, 2, 2\]\s+112")

    # Sliders, planes side by side, and a cursor that the kernel knows.
    panel.get_by_label("Index of axis 0").fill("0")
    drawn(f"{EVIL}[0, 2, ::2, -1:0:-2]")
    panel.get_by_label("All planes side by side").click()
    drawn(f"{EVIL}[:, :, :, :]")
    view.mouse.click(*place(1, 1, 3, 4))
    lab.event("cursor", at=[1, 1, 3, 4])
    stage.press("ArrowLeft")
    lab.event("cursor", at=[1, 1, 3, 3])
    says(r"\[1, 1, 3, 3\]\s+98")
    panel.get_by_label("Numbers instead of colours").click()
    expect(panel.locator(".gw-tensor-here")).to_contain_text("98")
    panel.get_by_label("Numbers instead of colours").click()

    # One NaN among a million is marked; a click goes there; zooming brings the exact values.
    page.run_cell(2)
    drawn("large[:, :]")
    chip = panel.locator(".gw-tensor-chip")
    expect(chip).to_contain_text("1 NaN first at [421, 777]", use_inner_text=True)
    chip.click()
    lab.event("cursor", at=[421, 777])
    says(r"1 NaN, first at \[421, 777\]")
    panel.screenshot(path=screens / "tensor-light.png")
    stage.focus()
    for _ in range(6):
        stage.press("+")
    says(r"\[421, 777\]\s+NaN")
    stage.press("0")
    says(r"1 NaN, first at")

    # Pictures follow a training while they are looked at.
    page.run_cell(3)
    live = view.locator(".gw-tensor").nth(1)
    live.scroll_into_view_if_needed()
    label = live.locator(".gw-tensor-stage")
    expect(label).to_have_attribute("aria-label", re.compile("norm"))
    first = label.get_attribute("aria-label")
    page.run_cell(4)
    expect(label).not_to_have_attribute("aria-label", first)  # a picture of the training
    page.set_theme("JupyterLab Dark")
    live.screenshot(path=screens / "tensor-dark.png")
    page.run_cell(5)
    assert not [t for t in lab.event("closed")["threads"] if "tensor" in t]
    assert page.errors == []
    assert page.outside == []

    # A saved page works without a kernel.
    view.goto((lab.root / "tensor.html").as_uri())
    drawn("exact[1, 2, :, :]")
    panel.get_by_label("Index of axis 0").fill("0")
    drawn("exact[0, 2, :, :]")
    view.mouse.move(*place(0, 2, 3, 4))
    says(r"\[0, 2, 3, 4\]\s+59")
    expect(field).to_be_disabled()
