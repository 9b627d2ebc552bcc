"""The Workbench where JupyterLab is not: live, in the theme of the page, and after its kernel.

Each test needs its host: ``pip install -e '.[hosts]'``.
"""

from __future__ import annotations

import json
import os
import signal

import nbformat.v4 as v4
import pytest

from tests.browser.hosts import MARIMO, MODEL, SHINY, installed, served
from tests.browser.lab import Watched, expect, points, wait_for

pytestmark = pytest.mark.browser


@pytest.fixture
def open_page(browser):
    """Return what opens a page of a host on a machine whose system is light."""
    contexts = []

    def opened(url):
        base = url[: url.index("/", 8)]
        size = {"width": 1400, "height": 900}
        contexts.append(browser.new_context(viewport=size, color_scheme="light"))
        watched = Watched(contexts[-1], base, base.replace("http", "ws"))
        watched.page.goto(url)
        return watched

    yield opened
    for context in contexts:
        context.close()


def use(page, theme):
    """Train and check on a page, and see both come back to it."""
    page.locator(".gw-graph[data-ready]").wait_for()
    view = page.locator(".gw", has=page.locator(".gw-graph"))  # not the panel at the side
    expect(view).to_have_attribute("data-gw-theme", theme)
    controls = page.locator(".gw-train")
    controls.get_by_role("button", name="Start", exact=True).click()
    expect(controls).to_have_attribute("data-state", "finished")
    wait_for(lambda: points(page.locator(".gw-training .gw-plot")) >= 6, "the points of all steps")
    page.locator("[data-tab=check]").click()
    check = page.locator(".gw-check")
    check.get_by_role("button", name="Check", exact=True).click()
    expect(check.get_by_text("All gradients agree").first).to_be_visible()
    page.locator("[data-tab=train]").click()


def notebook(path, *cells):
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made = [v4.new_code_cell(cell) for cell in cells]
    made = v4.new_notebook(metadata={"kernelspec": kernel}, cells=made)
    path.write_text(json.dumps(made))


def test_marimo(open_page, tmp_path, screens):
    installed("marimo")
    (tmp_path / "app.py").write_text(MARIMO)
    run = ("marimo", "run", "app.py", "--headless", "--no-token", "--host=127.0.0.1")
    with served(tmp_path, *run, "--port=PORT") as base:
        watched = open_page(f"{base}/")
        use(watched.page, "dark")
        watched.page.screenshot(path=screens / "host_marimo.png")
        assert watched.outside == []


def test_shiny(open_page, tmp_path, screens):
    installed("shinywidgets")
    (tmp_path / "app.py").write_text(SHINY)
    with served(tmp_path, "shiny", "run", "--port=PORT", "app.py") as base:
        watched = open_page(f"{base}/")
        use(watched.page, "dark")
        watched.page.screenshot(path=screens / "host_shiny.png")
        assert watched.outside == []


def test_voila(open_page, tmp_path, screens):
    installed("voila")
    told = "import os, pathlib; _ = pathlib.Path('pid').write_text(str(os.getpid()))"
    notebook(tmp_path / "app.ipynb", MODEL, "bench = made(); bench", told)
    run = ("voila", "app.ipynb", "--no-browser", "--theme=dark", "--Voila.ip=127.0.0.1")
    with served(tmp_path, *run, "--port=PORT") as base:
        watched = open_page(f"{base}/")
        use(watched.page, "dark")
        watched.page.screenshot(path=screens / "host_voila.png")
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
        watched.page.get_by_role("button", name="Start", exact=True).click()
        expect(watched.page.locator(".gw-notice")).to_contain_text("it has ended or was restarted")
