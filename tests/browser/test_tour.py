"""The tour in a real JupyterLab: every cell, twice, and then the workbench by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.lab import NOTE, SLOW, VIEW, expect, place, wait_for

pytestmark = pytest.mark.browser

TOUR = Path(__file__).parents[2] / "notebooks/00_tour.ipynb"

TELL = f"""
{NOTE}
import hashlib
def digest(name):
    return hashlib.sha256(g.values[name].tobytes()).hexdigest()
note("digest", w=digest("hidden/w"), b=digest("head/b"), steps=trainer.steps_done,
     frozen=bench.frozen, loss=float(np.mean(trainer.history.steps["loss"][-20:])))
"""

TEN_STEPS = 'trainer.fit({"x": X, "t": y}, steps=10, batch_size=64, progress=False); None'

ANEW = f"""
{SLOW}
trainer.add_callback(Slow())
for name, init in (("hidden/w", 0.05), ("head/w", 0.05)):
    g.values[name] = init * np.random.default_rng(0).standard_normal(g[name].shape)
"""


def texts(cells: list[dict]) -> list[str]:
    """Return what the cells have printed and returned, without what differs from run to run."""
    found = []
    for cell in cells:
        for output in cell["outputs"]:
            data = output.get("data", {})
            text = output.get("text") or ("" if "text/html" in data else data.get("text/plain", ""))
            found.append(re.sub(r"0x[0-9a-f]+|cell \d+|[\d.]+ (ms|s)\b", "", "".join(text)))
    return found


def test_the_tour(page, lab, screens):
    tour = json.loads(TOUR.read_text("utf-8"))
    sources = ["".join(c["source"]) for c in tour["cells"] if c["cell_type"] == "code"]
    lab.write_notebook("tour.ipynb", [*sources, TELL, TEN_STEPS, ANEW])
    page.open_notebook("tour.ipynb")
    view = page.page
    tell, ten_steps, anew = range(len(sources), len(sources) + 3)

    def outputs() -> list[str]:
        cells = view.evaluate(
            "() => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells"
        )
        return texts(cells[: len(sources)])

    # Every cell runs, and says the same when it runs again in the same kernel.
    said = []
    for _ in range(2):
        for number in range(len(sources)):
            page.run_cell(number)
        said.append(outputs())
    assert said[0] == said[1]
    assert any("test accuracy 9" in text for text in said[0])

    def show(widget: Any) -> None:
        widget.evaluate("element => element.scrollIntoView({block: 'start'})")

    def now() -> dict:
        page.run_cell(tell)
        return lab.events("digest")[-1]

    bench = view.locator(VIEW).first
    bench.locator(".gw-graph[data-ready]").wait_for()
    show(bench)
    tab = {
        name: bench.locator(f".gw-tab[data-tab={name}]") for name in ("train", "step", "parameters")
    }

    # A scope closes and opens; a click selects.
    graph, stage = bench.locator(".gw-graph"), bench.locator(".gw-stage")
    boxes = graph.get_attribute("data-boxes")
    (below_b, _), (_, beside_add) = place(stage, "hidden/b"), place(stage, "hidden/add")
    view.mouse.dblclick(below_b, beside_add)  # there is nothing but the scope
    expect(graph).not_to_have_attribute("data-boxes", boxes)
    view.mouse.dblclick(*place(stage, "hidden/"))
    expect(graph).to_have_attribute("data-boxes", boxes)
    view.mouse.click(*place(stage, "hidden/relu"))
    bench.locator(".gw-status strong", has_text="hidden/relu").first.wait_for()

    # Forwards, back, and a value edited.
    tab["step"].click()
    stepper = bench.locator(".gw-stepper")
    current = stepper.locator('.gw-step[data-stage="current"]')
    stepper.locator('[data-verb="reset"]').click()
    first = stepper.locator('.gw-step[data-index="0"][data-stage="current"]')
    first.wait_for()
    names = [current.get_attribute("title")]
    for verb in ("step", "step", "back"):
        stepper.locator(f'[data-verb="{verb}"]').click()
        expect(current).not_to_have_attribute("title", names[-1])
        names.append(current.get_attribute("title"))
    assert names[3] == names[1] and len(set(names)) == 3
    values = stepper.get_by_role("tabpanel", name="Values")
    values.get_by_label("Edit hidden/b").first.click()
    form = values.locator('form[aria-label="Edit hidden/b"]')
    form.get_by_label("Index").fill("0")
    form.get_by_label("New value").fill("7.5")
    form.get_by_role("button", name="Set and rerun").click()
    expect(values).to_contain_text("7.5", use_inner_text=True)
    view.wait_for_timeout(300)
    bench.screenshot(path=screens / "tour_step_light.png")

    # A frozen parameter keeps its bits over ten steps.
    tab["parameters"].click()
    bench.get_by_label("Train hidden/w", exact=True).uncheck()
    wait_for(lambda: now()["frozen"] == ["hidden/w"], "the frozen parameter")
    before = now()
    page.run_cell(ten_steps)
    after = now()
    assert after["steps"] == before["steps"] + 10
    assert after["w"] == before["w"] and after["b"] != before["b"]
    bench.get_by_label("Train hidden/w", exact=True).check()
    wait_for(lambda: now()["frozen"] == [], "it to be trained again")

    # Training from the panel: started, paused while it runs, resumed; the loss falls.
    page.run_cell(anew)
    show(bench)
    tab["train"].click()
    train = bench.locator(".gw-train")
    train.get_by_label("Epochs to train").fill("100000")
    train.get_by_label("Epochs to train").press("Enter")
    train.get_by_role("button", name="Start", exact=True).click()
    bench.locator('.gw-train[data-state="running"]').wait_for()
    train.get_by_role("button", name="Pause", exact=True).click()
    bench.locator('.gw-train[data-state="paused"]').wait_for()
    paused = now()
    assert now()["steps"] == paused["steps"]
    train.get_by_role("button", name="Resume", exact=True).click()
    wait_for(lambda: now()["steps"] > paused["steps"] + 100, "100 steps more")
    assert now()["loss"] < paused["loss"] or paused["loss"] < 0.05

    # A reload finds everything as it was.
    page.reload_notebook("tour.ipynb")
    view.locator(".gw-graph[data-ready]").first.wait_for()
    bench.locator('.gw-train[data-state="running"]').wait_for()
    expect(tab["train"]).to_have_attribute("aria-selected", "true")
    train.get_by_role("button", name="Stop", exact=True).click()
    bench.locator('.gw-train[data-state="stopped"]').wait_for()

    # The broken op is lit, and named in words.
    suspect = view.locator(VIEW).nth(1)
    show(suspect)
    suspect.get_by_role("button", name="Check again").click()
    suspect.locator(".gw-check", has_text="energy").wait_for()
    row = suspect.locator(".gw-outline .gw-row", has_text="energy")
    expect(row).to_contain_text("at fault", use_inner_text=True)
    suspect.screenshot(path=screens / "tour_blame_light.png")

    for theme in ("Light", "Dark"):
        page.set_theme(f"JupyterLab {theme}")
        show(bench)
        bench.screenshot(path=screens / f"tour_{theme.lower()}.png")
    page.assert_clean()
