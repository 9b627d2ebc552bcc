"""Fixtures of the browser tests: one JupyterLab and one Chromium for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.lab import FLAGS, Lab, Page, chromium


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """Return a running Chromium."""
    path = chromium()
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install it")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def lab(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Return a running JupyterLab."""
    pytest.importorskip("jupyterlab", reason="no jupyterlab: pip install 'gradwright[lab]'")
    lab = Lab(tmp_path_factory.mktemp("lab"))
    try:
        lab.start()
        yield lab
    finally:
        lab.stop()


@pytest.fixture
def page(browser: Any, lab: Lab) -> Iterator[Page]:
    """Return a fresh page of the size of a laptop screen."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    yield Page(context, lab)
    context.close()


@pytest.fixture(scope="package")
def screens() -> Path:
    """Return the folder for screenshots."""
    folder = Path(__file__).parents[2] / "build/screens"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
