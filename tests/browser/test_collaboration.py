"""Two people on one notebook: each sees what the other does to a graph, a training, a document."""

from __future__ import annotations

import json

import nbformat
import pytest
from nbformat.sign import NotebookNotary

import gradwright as gw
from tests.browser.hosts import MODEL
from tests.browser.lab import Lab, Page, expect, place, points, wait_for

pytestmark = pytest.mark.browser

NOT_OURS = "Comm not found"
"""ipywidgets asks each new kernel; JupyterLab logs the refusal on every other page, too."""


@pytest.fixture
def shared(browser, tmp_path):
    """Return a JupyterLab whose pages work together."""
    pytest.importorskip(
        "jupyter_server_ydoc", reason="no jupyter-collaboration: pip install -e '.[hosts]'"
    )
    lab = Lab(tmp_path, shared=True)
    lab.write_notebook("two.ipynb", [MODEL, "bench = made(); bench"])
    # JupyterLab shows no widget in cells that it does not trust, and trust is given by page.
    notebook = nbformat.from_dict(json.loads((lab.root / "two.ipynb").read_text()))
    NotebookNotary(data_dir=str(tmp_path / "data")).sign(notebook)
    graph = gw.Graph("small")
    gw.nn.relu(graph.placeholder("x", ("B", 4)) @ graph.variable("w", (4, 2)))
    (lab.root / "models").mkdir()
    gw.save(graph, lab.root / "models/small.gw")
    try:
        lab.start()
        yield lab
    finally:
        lab.stop()


def test_two_pages_show_one_workbench(browser, shared, screens):
    contexts = [browser.new_context(viewport={"width": 1366, "height": 768}) for _ in range(2)]
    one, two = (Page(context, shared) for context in contexts)
    for page in (one, two):
        page.open_notebook("two.ipynb")
    one.run_cell(0)
    one.run_cell(1)
    for page in (one, two):
        page.page.locator(".jp-Notebook .gw-graph[data-ready]").wait_for()

    # A click on one page is seen on the other.
    one.page.mouse.click(*place(one.page.locator(".jp-Notebook .gw-stage"), "w"))
    expect(two.page.locator(".jp-Notebook .gw-graph .gw-status")).to_contain_text("variable")
    for page in (one, two):
        page.page.locator(".jp-Notebook [data-tab=parameters]").click()
    two.page.get_by_label("Train w", exact=True).uncheck()
    expect(one.page.get_by_label("Train w", exact=True)).not_to_be_checked()
    one.page.get_by_label("Train w", exact=True).check()
    expect(two.page.get_by_label("Train w", exact=True)).to_be_checked()

    # So is a training that one of them starts.
    for page in (one, two):
        page.page.locator(".jp-Notebook [data-tab=train]").click()
    two.page.get_by_role("button", name="Start", exact=True).click()
    for page in (one, two):
        page.page.locator('.jp-Notebook .gw-train[data-state="finished"]').wait_for()
        plot = page.page.locator(".jp-Notebook .gw-training .gw-plot")
        wait_for(lambda plot=plot: points(plot) >= 6, "the points of all steps")
    two.page.screenshot(path=screens / "collaboration.png")

    # Panel and documents are there on both, and nothing of a model is copied.
    for page in (one, two):
        page.command("gradwright:show-panel")
        expect(page.page.locator("#gradwright-panel")).to_contain_text("5 nodes")
        page.command("docmanager:open", {"path": "models/small.gw"})
        page.page.locator(".gw-file .gw-graph[data-ready]").wait_for()
        page.command("docmanager:save")
    assert [path.name for path in (shared.root / "models").iterdir()] == ["small.gw"]
    for page, context in zip((one, two), contexts, strict=True):
        page.errors = [error for error in page.errors if not error.startswith(NOT_OURS)]
        page.assert_clean()
        context.close()
