"""The site is built from nothing, without a warning, and is whole without a network."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import gradwright as gw
import gradwright_widgets
from tests.browser.lab import FLAGS, chromium, expect, wait_for

for _library in ("sphinx", "myst_nb", "furo", "anywidget"):
    pytest.importorskip(_library, reason="pip install -e '.[test]'")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site, built with four tutorials run and no other notebook."""
    out = tmp_path_factory.mktemp("build")
    places = [str(ROOT / folder) for folder in ("workbench", "widgets", "kernels")]
    paths = os.pathsep.join([*places, os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, ROOT / "notebooks/site/build.py", "--quick", "--out", out]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-4000:] + done.stdout[-2000:]
    return out / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, str]:
    """Return the text of every page, by its place, without what stands in frames."""
    found = {p.relative_to(site).as_posix(): p.read_text("utf-8") for p in site.rglob("*.html")}
    return {name: re.sub(r'srcdoc="[^"]*"', "", text) for name, text in found.items()}


def test_links_lead_somewhere(site: Path, pages: dict[str, str]) -> None:
    ids = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in pages.items()}
    lost = []
    for name, text in pages.items():
        for link in map(html.unescape, re.findall(r'(?:href|src)="([^"]*)"', text)):
            parts = urlsplit(link)
            if parts.scheme or not (parts.path or parts.fragment):
                continue
            place = (site / name).parent / unquote(parts.path) if parts.path else site / name
            there = place.resolve().relative_to(site.resolve()).as_posix()
            anchor = unquote(parts.fragment)
            if not place.exists() or (anchor and there in ids and anchor not in ids[there]):
                lost.append(f"{name}: {link}")
    assert not lost, "\n".join(lost[:20])


def test_nothing_comes_from_elsewhere(site: Path, pages: dict[str, str]) -> None:
    fetched = re.compile(r'<(?:script|img|iframe|source|link)\s[^>]*\b(?:src|href)="(https?:)?//')
    for name, text in pages.items():
        assert not fetched.search(text), name
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*[\"']?(https?:)?//", sheet.read_text("utf-8"))


def test_every_op_has_its_place(pages: dict[str, str]) -> None:
    described = "".join(text for name, text in pages.items() if name.startswith("ops/"))
    missing = [e.call for e in gw.ops.table() if f'id="{e.call}"' not in described]
    assert not missing
    rows = re.findall(r"<tr", pages["ops/index.html"])
    assert len(rows) == len(gw.ops.table()) + 1


def test_every_public_name_is_described(pages: dict[str, str]) -> None:
    told = "".join(t for n, t in pages.items() if n.startswith(("reference/", "ops/")))
    own = {name for names in (gw.CORE | gw.LATER).values() for name in names.split()}
    missing = [name for name in own if f'id="gw.{name}"' not in told]
    missing += [n for n in gradwright_widgets.__all__ if f'id="gradwright_widgets.{n}"' not in told]
    missing += [n for n in gw.optim.__all__ if f'id="gw.optim.{n}"' not in told]
    methods = ("Graph.output", "Graph.freeze", "Session.run", "Tensor.eval", "Stepper.break_at")
    missing += [name for name in methods if f'id="gw.{name}"' not in told]
    assert not missing


def test_documentation_reads_as_it_was_written(pages: dict[str, str]) -> None:
    page = pages["ops/layers.html"]
    softmax = page[page.index('id="gw.nn.softmax"') :]
    softmax = softmax.split('<dl class="py function">')[0]
    assert "yᵢ = exp(xᵢ − max x) / Σⱼ exp(xⱼ − max x)" in softmax
    assert "formula" in softmax and "[0.5, 0.5]" in html.unescape(re.sub("<[^>]+>", "", softmax))
    assert "ONNX Softmax; SameDiff nn.softmax" in softmax


def test_widgets_are_shown_without_a_kernel(site: Path) -> None:
    for tutorial in ("01_first_graph", "05_seeing", "10_your_own_op"):
        text = (site / f"tutorials/{tutorial}.html").read_text("utf-8")
        frames = re.findall(r'<iframe class="site-view"[^>]*srcdoc="([^"]*)"', text)
        assert frames and text.count("<noscript>") >= len(frames)
        assert all('id="saved"' in html.unescape(frame) for frame in frames)
        assert "widget-view+json" not in text and "require.min.js" not in text


def test_exercises_are_blank_and_solutions_folded(site: Path) -> None:
    text = (site / "tutorials/07_checking.html").read_text("utf-8")
    assert text.count("<details><summary>Solution</summary>") == 3
    assert text.count("Fill in the blank") == 3 and "Right." not in text


def test_the_gallery_has_its_drawings(site: Path, pages: dict[str, str]) -> None:
    drawn = re.findall(r'<img src="(\w+)\.svg"', pages["gallery/index.html"])
    assert len(drawn) >= 10
    for name in drawn:
        assert (site / f"gallery/{name}.svg").read_text("utf-8").count("<text") > 3
        assert f"gallery/{name}.html" in pages


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Return a running Chromium."""
    path = chromium()
    sync_api = pytest.importorskip("playwright.sync_api", reason="pip install -e '.[test]'")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.mark.browser
def test_it_reads_well_from_a_folder(site: Path, browser: Any) -> None:
    """Search, drawings and the filter of ops work from files alone, in the theme of the page."""
    ops = len(gw.ops.table())
    context = browser.new_context(viewport={"width": 1366, "height": 768}, color_scheme="light")
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda r: wrong.append(r.url) if r.url.startswith("http") else None)
    page.goto((site / "tutorials/01_first_graph.html").as_uri())
    view = page.frame_locator(".site-view").first
    expect(view.locator(".gw")).to_be_visible()
    assert page.locator(".site-view").first.bounding_box()["height"] > 280
    paper = "() => getComputedStyle(document.querySelector('.gw')).backgroundColor"
    assert view.locator("body").evaluate(paper) == "rgb(255, 255, 255)"
    page.evaluate("document.body.dataset.theme = 'dark'")
    own = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert own != "rgb(255, 255, 255)"
    wait_for(lambda: view.locator("body").evaluate(paper) == own, "the drawing in dark")
    expect(view.locator(".gw")).to_have_attribute("data-gw-theme", "dark")

    page.keyboard.press("/")
    page.keyboard.type("softmax")
    page.keyboard.press("Enter")
    expect(page.locator("#search-results a", has_text="gw.nn.softmax").first).to_be_visible()

    page.goto((site / "ops/index.html").as_uri())
    expect(page.locator("#site-count")).to_have_text(f"{ops} of {ops}")
    page.locator("#site-filter").fill("lstmLayer")
    expect(page.locator("#site-count")).to_have_text(f"1 of {ops}")
    expect(page.locator(".site-filtered tbody tr:visible")).to_contain_text("gw.rnn.lstm")
    page.locator(".site-filtered tbody tr:visible a").click()
    assert page.url.endswith("recurrent.html#gw.rnn.lstm")
    context.close()
    assert not wrong
