"""Pictures of every panel: light and dark, wide and narrow, in use, empty, busy and in error.

    python -m tests.browser.screens [--readme] [part of a name ...]

They go to build/screens. Most are pages that need no kernel; what only a kernel shows (a training
that runs or pauses, a check under way, a busy cell) comes from one notebook in JupyterLab, as do
the pictures of the README, which ``--readme`` writes to notebooks/images.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import sync_playwright

from tests.browser.lab import FLAGS, Lab, Page, chromium
from tests.browser.lab_scenes import SCENES as EXTENSION
from tests.browser.lab_scenes import THEMES, Extension
from tests.browser.scenes import BENCH, PANEL, SCENES

ROOT = Path(__file__).parents[2]
SCREENS, README = ROOT / "build/screens", ROOT / "notebooks/images"


def take_pages(browser: Any, wanted: Callable[[str], bool], folder: Path) -> None:
    """Save every scene as a page and take its pictures."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(3000)
    page.on("pageerror", lambda error: print("  !!", error))
    for scenes in SCENES:
        for name, widget, widths, act in scenes():
            if not wanted(name):
                continue
            path = folder / f"{name}.html"
            widget.to_html(path)
            page.set_viewport_size({"width": widths[-1] + 48, "height": 1300})
            page.goto(path.as_uri())
            page.locator(".gw").wait_for()
            page.wait_for_timeout(400)
            try:
                act and act(page)
            except PlaywrightError as error:
                print(f"  !! {name}: {error}")
            for width in widths:
                page.set_viewport_size({"width": width + 48, "height": 1300})
                for theme in ("light", "dark"):
                    page.emulate_media(color_scheme=theme)
                    page.wait_for_timeout(300)
                    snap(page.locator(".gw"), f"{name}_{width}_{theme}")
    context.close()


def snap(place: Any, name: str) -> None:
    path = SCREENS / f"{name}.png"
    place.screenshot(path=path)
    print(path.relative_to(ROOT))


# -- scenes with a kernel --------------------------------------------------------------------------


def tour(part: str) -> str:
    """Return the code cell of the tour that has this in it."""
    cells = json.loads((ROOT / "notebooks/00_tour.ipynb").read_text("utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return next(source for source in sources if part in source)


CELLS = {
    "begin": f"""
import sys, time
sys.path.insert(0, {str(ROOT)!r})
import gradwright as gw
import gradwright_widgets as gww
from tests.browser import shown
""",
    "trainer": """
trainer, train, test = shown.digits()
trainer.add_callback(shown.Slow())
gww.TrainerPanel(trainer, train, test, epochs=2000, batch_size=64)
""",
    "trainer_failed": """
failing, train, test = shown.digits()
failing.add_callback(shown.Fails())
failed = gww.TrainerPanel(failing, train, test, epochs=3, batch_size=64)
failed.start(); failed.wait()
failed
""",
    "check": """
checked, train, test = shown.digits()
feeds = {name: rows[:512] for name, rows in train.items()}
gww.GradCheckPanel(checked.graph, loss="loss", feeds=feeds, check_limit=None)
""",
    "stepper": """
edited = gww.StepperPanel(checked.graph, loss="loss", feeds=feeds, height=520)
edited.run_to("loss"); edited.step()
edited.edit("hidden/b", -1.0 - edited.stepper.value("hidden/b")); edited.rerun()
edited
""",
    "tensor": """
unit = checked.graph.values["hidden/w"].T[:8].reshape(8, 8, 8)
gww.TensorView(unit, name="eight hidden units", height=480)
""",
    "empty": """
bare = gw.Graph("bare")
bare.placeholder("x", (None, 3))
gww.Workbench(bare, height=480)
""",
    "data": tour("load_digits"),
    "graph": tour('gw.Graph("digits")'),
    "how": tour("trainer = gw.Trainer("),
    "bench": tour("bench = Workbench("),
    "drive": """
bench.start(); bench.wait()
bench.height = 700
bench.gradients = True
bench.tab = "step"
bench.stepper.run_to("hidden/relu")
bench.selected = "hidden/relu"
""",
    "blame": tour('"tour/square"'),
    "busy": "time.sleep(8)",
}


KEPT = {
    "lab_bench_1300_light": "workbench.png",
    "lab_blame_1000_light": "blame.png",
    "lab_document_light": "document.png",
}
"""Pictures of the README."""


class Notebook:
    """A notebook in JupyterLab with a cell for each state that needs a kernel."""

    def __init__(self, page: Page) -> None:
        page.lab.write_notebook("screens.ipynb", list(CELLS.values()))
        page.open_notebook("screens.ipynb")
        self.page, self.view = page, page.page
        page.command("application:toggle-left-area")
        page.run_cell(0)

    def run(self, cell: str) -> int:
        """Run a cell and return its number."""
        number = list(CELLS).index(cell)
        self.page.run_cell(number)
        return number

    def show(self, cell: str) -> Any:
        """Run a cell and return its widget."""
        widget = self.view.locator(".jp-Notebook .jp-Cell").nth(self.run(cell)).locator(".gw")
        widget.wait_for()
        return widget

    def snap(self, widget: Any, name: str, widths: tuple[int, ...]) -> None:
        for theme in ("Light", "Dark"):
            self.page.set_theme(f"JupyterLab {theme}")
            for width in widths:
                widget.evaluate("(e, w) => (e.parentElement.style.width = `${w}px`)", width)
                widget.evaluate("e => e.scrollIntoView({block: 'start'})")
                self.view.mouse.move(3, 3)
                self.view.wait_for_timeout(700)
                snap(widget, f"lab_{name}_{width}_{theme.lower()}")


def take_notebook(browser: Any, wanted: Callable[[str], bool], folder: Path, readme: bool) -> None:
    """Run the notebook and take the pictures that need a kernel."""
    lab = Lab(folder / "lab")
    context = browser.new_context(viewport={"width": 1640, "height": 1000})
    try:
        lab.start()
        page = Page(context, lab)
        kernels = "@jupyterlab/apputils-extension:kernels-settings"
        with page.setting(kernels, commsOverSubshells="disabled"):  # so that a cell makes it deaf
            notebook = Notebook(page)
        if wanted("lab_trainer"):
            widget = notebook.show("trainer")
            widget.get_by_role("button", name="Start", exact=True).click()
            widget.locator('.gw-train[data-state="running"]').wait_for()
            notebook.snap(widget, "trainer_running", PANEL)
            widget.get_by_role("button", name="Pause", exact=True).click()
            widget.locator('.gw-train[data-state="paused"]').wait_for()
            notebook.snap(widget, "trainer_paused", PANEL)
            notebook.snap(notebook.show("trainer_failed"), "trainer_failed", PANEL)
        if wanted("lab_check"):
            widget = notebook.show("check")
            widget.get_by_role("button", name="Check", exact=True).click()
            widget.get_by_role("button", name="Stop", exact=True).wait_for()
            notebook.snap(widget, "check_running", PANEL)
            widget.get_by_role("button", name="Stop", exact=True).click()
            notebook.snap(widget, "check_stopped", PANEL[:1])
            notebook.snap(notebook.show("stepper"), "stepper_edited", PANEL)
            widget = notebook.show("tensor")
            widget.get_by_label("Slice", exact=True).fill("[9]")
            widget.get_by_label("Slice", exact=True).press("Enter")
            notebook.snap(widget, "tensor_bad_slice", PANEL)
            notebook.snap(notebook.show("empty"), "bench_empty", (1000,))
        if wanted("lab_bench"):
            for cell in ("data", "graph", "how"):
                notebook.run(cell)
            widget = notebook.show("bench")
            widget.locator(".gw-graph[data-ready]").wait_for()
            notebook.run("drive")
            notebook.snap(widget, "bench", (1300, *BENCH))
            widget.get_by_role("tab", name="Train", exact=True).click()
            page.start_cell(list(CELLS).index("busy"))
            widget.get_by_role("button", name="Step", exact=True).click()
            widget.locator(".gw-notice:not([hidden])").wait_for()
            notebook.snap(widget, "bench_busy", (1000,))
        if wanted("lab_blame"):
            widget = notebook.show("blame")
            widget.locator(".gw-graph[data-ready]").wait_for()
            notebook.snap(widget, "blame", (1000,))
        if wanted("lab_document"):
            take_document(page)
        if wanted("lab_extension"):
            take_extension(page)
        if readme:
            for name, kept in KEPT.items():
                (README / kept).write_bytes((SCREENS / f"{name}.png").read_bytes())
        print("errors on the page:", page.errors or "none")
    finally:
        context.close()
        lab.stop()


LARGE = Path(str(files("onnx") / "backend/test/data/light/light_densenet121.onnx"))
WINDOWS = ((1366, 768), (1920, 1080))


def take_extension(page: Page) -> None:
    """Take what the extension shows, in every theme, on a small and on a large screen."""
    extension = Extension(page, LARGE)
    for theme in THEMES:
        page.set_theme(theme)
        for width, height in WINDOWS:
            page.page.set_viewport_size({"width": width, "height": height})
            for scene in EXTENSION:
                extension.show(scene)
                page.page.mouse.move(3, 3)
                page.page.wait_for_timeout(500)
                name = "_".join(theme.lower().split()[1:])
                snap(page.page, f"lab_extension_{scene}_{width}_{name}")


def take_document(page: Page) -> None:
    """Open a large model by double click, and take pictures of JupyterLab around it."""
    (page.lab.root / "densenet121.onnx").write_bytes(LARGE.read_bytes())
    view = page.page
    view.set_viewport_size({"width": 1366, "height": 768})
    page.command("application:toggle-left-area")
    page.command("filebrowser:refresh")
    view.locator('.jp-DirListing-item[title^="Name: densenet121.onnx"]').dblclick()
    view.locator(".gw-document .gw-graph[data-ready]").wait_for()
    for theme in ("Light", "Dark"):
        page.set_theme(f"JupyterLab {theme}")
        view.wait_for_timeout(1000)
        view.screenshot(path=SCREENS / f"lab_document_{theme.lower()}.png")


def main(*args: str) -> None:
    parts = [arg for arg in args if not arg.startswith("--")]
    readme = "--readme" in args
    SCREENS.mkdir(parents=True, exist_ok=True)

    def wanted(name: str) -> bool:
        return not parts or any(part in name or name in part for part in parts)

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        take_pages(browser, wanted, Path(folder))
        if not parts or any("lab" in part for part in parts):
            take_notebook(browser, wanted, Path(folder), readme)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
