"""The site without a server: models open as documents, from static files alone."""

from __future__ import annotations

import functools
import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.lab import PATIENCE, Watched, expect
from tests.browser.test_documents import inspected

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files as any static host does."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build the site, and return where a static host shows it."""
    pytest.importorskip("jupyterlite_core", reason="no jupyterlite: pip install -e '.[lite]'")
    out = tmp_path_factory.mktemp("site") / "lite"
    build = [sys.executable, str(ROOT / "notebooks/lite/build.py"), "--out", str(out)]
    subprocess.run(build, check=True, cwd=ROOT, capture_output=True)
    handler = functools.partial(Quiet, directory=str(out))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_models_open_without_a_server(browser, site, screens):
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    watched = Watched(context, site)
    page = watched.page
    page.goto(f"{site}lab/index.html?path=digits.gw")
    drawing = page.locator(".gw-graph[data-ready]").first
    drawing.wait_for(timeout=PATIENCE * 1000)
    expect(drawing.locator(".gw-status, .gw-legend").first).to_be_visible()
    page.get_by_role("tab", name="Tensors").click()
    page.get_by_text("hidden/w", exact=True).first.click()
    page.locator(".gw-tensor[data-drawn]").wait_for()
    page.screenshot(path=screens / "lite_light.png")
    # What was not written down cannot be asked for, and that is said.
    expect(page.locator(".gw-tensor").get_by_label("Slice", exact=True)).to_be_disabled()
    page.get_by_role("tab", name="Drawing").click()
    expect(inspected(page, drawing, "hidden/w")).to_contain_text("in the file")
    page.screenshot(path=screens / "lite_inspector_light.png")
    icon = "404"  # the site has none, and browsers ask for it
    watched.errors = [error for error in watched.errors if icon not in error]
    watched.assert_clean()
    context.close()
