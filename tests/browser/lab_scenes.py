"""What the extension shows in JupyterLab, each scene brought to the front of one page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gradwright as gw
from tests.browser.lab import HIDDEN, Page, expect, points, wait_for

CELLS = {
    "graph": f"""
{HIDDEN}
import time
from gradwright_widgets import Workbench
logits = h @ g.variable("w2", (32, 4), init=gw.init.xavier_uniform(seed=1))
loss = gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
""",
    "train": """
class Slow(gw.Callback):
    def on_step_end(self, trainer, record): time.sleep(0.01)
rng = np.random.default_rng(0)
y = rng.integers(0, 4, 512)
data = {"x": (np.eye(4, 16)[y] * 2 + rng.standard_normal((512, 16))).astype("f4"), "t": y}
trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.02), callbacks=[Slow()])
bench = Workbench(g, trainer, data=data, epochs=10_000)
bench.start()
bench
""",
    "wrong": """
with g.scope("head"):
    logits = h @ g.variable("w3", (10, 3))
""",
}

THEMES = ("JupyterLab Light", "JupyterLab Dark", "JupyterLab Dark High Contrast")
SCENES = ("document", "tensors", "comparison", "panel", "runs", "failure", "workbench")


def network(seed: int = 0, *, squash: bool = False) -> gw.Graph:
    """Return a small network; another seed gives other weights, ``squash`` another layer."""
    g = gw.Graph("digits")
    x = g.placeholder("x", ("B", 64))
    with g.scope("hidden"):
        w = g.variable("w", (64, 16), init=gw.init.he_normal(seed=seed))
        h = gw.nn.relu(x @ w + g.variable("b", (16,)))
    if squash:
        h = gw.nn.tanh(h, name="squash")
    h @ g.variable("w2", (16, 10), init=gw.init.xavier_uniform(seed=1))
    return g


def record(folder: Path, rate: float, epochs: int) -> None:
    """Train a line, and record it as a run."""
    g = gw.Graph("line")
    x, t = g.placeholder("x", ("B", 4)), g.placeholder("t", ("B", 1))
    loss = gw.mean((x @ g.variable("w", (4, 1)) - t) ** 2, name="loss")
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=(64, 4)), "t": rng.normal(size=(64, 1))}
    run = gw.Run(folder, name=f"rate {rate}", tags=["line"], store=None)
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(rate), callbacks=[run])
    trainer.fit(data, epochs=epochs, batch_size=16, progress=False)


class Extension:
    """A notebook, models and runs in JupyterLab; a method a scene, which returns what it shows."""

    def __init__(self, page: Page, model: Path | None = None) -> None:
        self.page, self.view = page, page.page
        folder = page.lab.root / "scenes"
        folder.mkdir(exist_ok=True)
        gw.onnx.save(network(), folder / "a.onnx")
        gw.onnx.save(network(3, squash=True), folder / "b.onnx")
        self.model = "scenes/model.onnx"
        (page.lab.root / self.model).write_bytes((model or folder / "a.onnx").read_bytes())
        for k, rate in enumerate((0.003, 0.01, 0.03)):
            if not (folder / f"runs/{k}").exists():
                record(folder / f"runs/{k}", rate, 20 + 10 * k)
        page.lab.write_notebook("scenes.ipynb", list(CELLS.values()))
        page.open_notebook("scenes.ipynb")
        page.run_cell(0)
        page.run_cell(1)

    def show(self, scene: str) -> Any:
        """Bring a scene to the front, and return what is to be looked at."""
        found: Callable[[], Any] = getattr(self, scene)
        return found()

    def _notebook(self, cell: str) -> None:
        self.page.command("docmanager:open", {"path": "scenes.ipynb"})
        self.view.evaluate(
            """(k) => {
              const notebook = window.jupyterapp.shell.currentWidget.content;
              notebook.activeCellIndex = k;
              notebook.scrollToCell(notebook.activeCell, 'start');
            }""",
            list(CELLS).index(cell),
        )

    def _file(self) -> Any:
        self.page.command("docmanager:open", {"path": self.model})
        document = self.view.locator(".gw-document:visible > .gw-file")
        document.get_by_role("tab", name="Drawing").wait_for()
        return document

    def document(self) -> Any:
        """A model's drawing."""
        document = self._file()
        document.get_by_role("tab", name="Drawing").click()
        document.locator(".gw-graph[data-ready]").wait_for()
        return document

    def tensors(self) -> Any:
        """A model's tensors, one of them in sight."""
        document = self._file()
        document.get_by_role("tab", name="Tensors").click()
        document.locator("[data-at] .gw-link").nth(1).click()
        document.locator(".gw-tensor-stage").wait_for()
        return document

    def comparison(self) -> Any:
        """Two models against each other."""
        files = {"a": "scenes/a.onnx", "b": "scenes/b.onnx"}
        self.page.command("gradwright:compare-models", files)
        comparison = self.view.locator(".gw-comparison:visible")
        expect(comparison.locator("> .gw-toolbar")).to_contain_text("differ")
        return comparison

    def panel(self) -> Any:
        """The side panel, with a training that runs and a drawing that is pinned."""
        self._notebook("train")
        self.page.command("gradwright:show-panel")
        panel = self.view.locator("#gradwright-panel")
        expect(panel.locator(".gw-chip").first).to_have_text("running")
        if not panel.locator(".gw-side-pin").count():
            panel.get_by_role("button", name="drawing").click()
        panel.locator(".gw-side-pin .gw-graph[data-ready]").wait_for()
        return panel

    def runs(self) -> Any:
        """The runs of a folder, two of them chosen."""
        self.page.command("gradwright:open-runs", {"folder": "scenes/runs"})
        runs = self.view.locator(".gw-runs:visible")
        rows = runs.locator(".gw-runs-left tbody tr")
        expect(rows).to_have_count(3)
        for row in (rows.nth(0), rows.nth(1)):
            row.locator("input[type=checkbox]").check()
        wait_for(lambda: points(runs.locator(".gw-plot")) > 50, "both curves")
        return runs

    def failure(self) -> Any:
        """An error, explained in the panel and below its cell."""
        panel = self.view.locator("#gradwright-panel")
        self._notebook("wrong")
        self.page.command("gradwright:show-panel")
        if not panel.locator(".gw-side-failure:visible").count():
            self.page.start_cell(list(CELLS).index("wrong"))
        panel.locator(".gw-side-failure img").wait_for()
        self.view.locator(".jp-Cell .jp-RenderedSVG").wait_for()
        self._notebook("wrong")
        return panel

    def workbench(self) -> Any:
        """The Workbench, which trains."""
        self._notebook("train")
        bench = self.view.locator(".jp-Notebook .gw")
        bench.locator(".gw-graph[data-ready]").wait_for()
        return bench
