"""The reference of ops in JupyterLab: the notebook's cells, and a search by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

NOTEBOOK = Path(__file__).parents[2] / "notebooks/ops_reference.ipynb"


def test_every_cell_runs_and_the_search_finds(page, lab, screens):
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    sources = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    lab.write_notebook("ops.ipynb", sources)
    page.open_notebook("ops.ipynb")
    view = page.page
    for number in range(len(sources)):
        page.run_cell(number)
    view.get_by_role("heading", name="gw.nn.softmax(x, axis=-1)").wait_for()
    view.locator(".gw-graph[data-ready]").first.wait_for()
    view.screenshot(path=screens / "op_reference.png")

    search = view.get_by_placeholder("a name, in any spelling, or words of the documentation")
    search.fill("maxPooling2d")
    view.get_by_role("heading", name="gw.cnn.max_pool2d(").wait_for()
    search.fill("<b>zebra crossing</b>")
    view.get_by_text("0 of ").wait_for()
    page.assert_clean()
