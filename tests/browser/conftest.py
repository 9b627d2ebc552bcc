"""Fixtures of the browser tests: one JupyterLab and one Chromium for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.lab import FLAGS, Lab, Page, Watched, chromium


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """Return a running Chromium."""
    path = chromium()
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="no playwright: pip install -e '.[test]'"
    )
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def lab(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Return a running JupyterLab."""
    pytest.importorskip("jupyterlab", reason="no jupyterlab: pip install -e '.[lab]'")
    lab = Lab(tmp_path_factory.mktemp("lab"))
    try:
        lab.start()
        yield lab
    finally:
        lab.stop()


@pytest.fixture(scope="package")
def context(browser: Any) -> Iterator[Any]:
    """Return what JupyterLab's pages share: its scripts, which each would load for 2 s."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    yield context
    context.close()


@pytest.fixture(scope="package")
def pages(context: Any) -> Iterator[list[Page]]:
    """Return the page that tests hand on, if there is one."""
    pages: list[Page] = []
    yield pages
    for page in pages:
        page.close()


@pytest.fixture
def page(
    context: Any, lab: Lab, pages: list[Page], request: pytest.FixtureRequest
) -> Iterator[Page]:
    """Return a page of the size of a laptop screen with nothing open; who fails leaves none."""
    page = pages.pop() if pages else Page(context, lab)
    failed = request.session.testsfailed
    yield page
    if request.session.testsfailed == failed:
        page.clear()
        pages.append(page)
    else:
        page.close()
    lab.end_kernels()


@pytest.fixture
def saved(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Return what shows a widget from a file, without a kernel; nothing may go wrong there."""
    opened: list[tuple[Watched, Any]] = []

    def show(widget: Any, width: int = 920, height: int = 700, theme: str = "light") -> Any:
        path = tmp_path / f"page{len(opened)}.html"
        widget.to_html(path)
        size = {"width": width, "height": height}
        context = browser.new_context(viewport=size, color_scheme=theme)
        opened.append((Watched(context), context))
        page = opened[-1][0].page
        page.goto(path.as_uri())
        return page

    yield show
    for watched, context in opened:
        watched.assert_clean()
        context.close()


@pytest.fixture(scope="package")
def screens() -> Path:
    """Return the folder for screenshots."""
    folder = Path(__file__).parents[2] / "build/screens"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
