"""The graph drawing in Chromium, and the limits it keeps: ``python -m tests.benchmarks.drawing``.

Of graphs of 10,000 to 100,000 nodes: from opening the widget to its first painted frame, from a
click on a scope to the painted frame, from a key in the search to the painted frame (the slowest of
twenty), the frames while the drawing is panned and zoomed as it opens and with all of it in sight,
and the memory of the page's process. Frames are not held to the screen's rate, so that a short one
shows. Cases take turns; each figure is the median of the rounds. Then what the kernel takes to
group a graph, and a file of 10,000 nodes from the server's question to its first painted frame;
last the figures of the drawings of named models (``bench_shapes.mjs``).
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from gradwright_widgets import GraphView
from gradwright_widgets.drawing.grouping import grouped
from gradwright_widgets.drawing.nodes import drawn_nodes
from gradwright_widgets.drawing.spec import graph_spec
from gradwright_widgets.host.base import bundle
from gradwright_widgets.server.answers.asked import Asked, answered
from gradwright_widgets.server.paths import stamp_of
from tests.browser.lab import FLAGS, chromium
from tests.support import large_models

ROUNDS = 3
UNLIMITED = ["--disable-frame-rate-limit", "--disable-gpu-vsync"]
COLUMNS = ("paint", "scope", "key", "frame", "95 %", "in all", "95 %", "MB")
LIMITS = (1000, 100, 50, 16, 33, 16, 33, 300)
"""What holds up to 50,000 nodes, in ms and MB."""

OPEN = """
async (code) => {
  const { open } = await import(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
  const began = performance.now();
  open(document.getElementById("view"), JSON.parse(document.getElementById("saved").textContent));
  await new Promise((resolve) => {
    const look = () => document.querySelector(".gw-graph[data-ready]")
      ? requestAnimationFrame(() => resolve()) : requestAnimationFrame(look);
    look();
  });
  return performance.now() - began;
}
"""

SCOPE = """
async (names) => {
  const stage = document.querySelector(".gw-stage"), graph = document.querySelector(".gw-graph");
  const { x, y } = names.map((name) => stage.locate(name)).findLast((place) => place);
  const before = graph.dataset.ready;
  const began = performance.now();
  const at = { bubbles: true, clientX: x, clientY: y };
  stage.dispatchEvent(new MouseEvent("dblclick", at));
  await new Promise((resolve) => {
    const look = () => graph.dataset.ready !== before
      ? requestAnimationFrame(() => resolve()) : requestAnimationFrame(look);
    look();
  });
  return performance.now() - began;
}
"""

KEYS = """
async () => {
  const stage = document.querySelector(".gw-stage"), times = [];
  stage.dispatchEvent(new KeyboardEvent("keydown", { key: "/", bubbles: true }));
  await new Promise((resolve) => setTimeout(resolve, 1000)); // what is looked up is made ready
  const input = document.querySelector(".gw-search input");
  for (const text of ["matmul", "block40", "exp -> add"]) {
    for (let end = 1; end <= text.length; end++) {
      input.value = text.slice(0, end);
      const began = performance.now();
      input.dispatchEvent(new Event("input", { bubbles: true }));
      await new Promise(requestAnimationFrame);
      times.push(performance.now() - began);
    }
  }
  document.querySelector("[title='Leave the search'], [aria-label='Leave the search']").click();
  return Math.max(...times);
}
"""

FRAMES = """
async () => {
  const stage = document.querySelector(".gw-stage"), frames = [];
  stage.focus();
  const way = [["ArrowDown", 15], ["ArrowRight", 10], ["+", 8], ["ArrowDown", 10], ["-", 8],
    ["ArrowLeft", 10], ["ArrowUp", 15]];
  const keys = way.flatMap(([key, times]) => Array(times).fill(key));
  let last = await new Promise(requestAnimationFrame);
  for (const key of [...keys, ...keys]) {
    stage.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    await new Promise(requestAnimationFrame); // in which it is drawn
    const now = await new Promise(requestAnimationFrame); // which waits for that
    frames.push((now - last) / 2);
    last = now;
  }
  frames.sort((a, b) => a - b);
  return [frames[frames.length >> 1], frames[(0.95 * frames.length) | 0]];
}
"""

CASES: dict[str, tuple[Callable[[], Any], bool]] = {
    "10,000 nodes": (lambda: large_models.tower(10_000), False),
    "50,000 nodes": (large_models.tower, False),
    "50,000 nodes, all open": (large_models.tower, True),
    "fan of 10,000, all open": (large_models.fan_out, True),
    "chain of 100,000, all open": (large_models.chain, True),
}
"""Graphs, and whether all scopes are opened; else one is."""


def renderers() -> dict[int, float]:
    """Return the private memory in MB of every process that draws a page."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"--type=renderer" in (process / "cmdline").read_bytes():
                rollup = (process / "smaps_rollup").read_text()
                sizes = re.findall(r"^Private_\w+:\s+(\d+)", rollup, re.MULTILINE)
                found[int(process.name)] = sum(map(int, sizes)) / 1024
        except OSError:
            continue
    return found


def scopes(graph: Any) -> list[str]:
    """Return what can be opened, as a drawing calls it."""
    groups = graph_spec(graph).get("groups")
    return [f"{path}/" for path in (groups["names"] if groups else sorted(graph.scopes))]


def measure(browser: Any, html: str, code: str, names: list[str]) -> list[float]:
    """Return one number for each of the columns; without names, all scopes are opened."""
    others = renderers()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(html, "utf-8")
        page = browser.new_page(viewport={"width": 1200, "height": 800})
        page.goto(path.as_uri())
        figures = [page.evaluate(OPEN, code)]
        if names:
            figures.append(page.evaluate(SCOPE, names))
        else:
            page.get_by_role("button", name="Open all").click()
            page.wait_for_selector('.gw-graph[data-ready="2"]')
            figures.append(float("nan"))
        figures.append(page.evaluate(KEYS))
        figures += page.evaluate(FRAMES)
        page.get_by_role("button", name="Fit the drawing").click()
        figures += page.evaluate(FRAMES)
        figures.append(max(size for one, size in renderers().items() if one not in others))
        page.close()
    return figures


def limits() -> None:
    """Print what the limits are for, and the limits."""
    from playwright.sync_api import sync_playwright

    pages = {}
    for name, (make, opened) in CASES.items():
        graph = make()
        view = GraphView(graph, height=740)
        head = view.to_html().partition('<script type="module">')[0]
        pages[name] = head + "</body></html>", bundle(view.module), [] if opened else scopes(graph)
    taken: dict[str, list[list[float]]] = {name: [] for name in CASES}
    with sync_playwright() as playwright:
        flags = [*FLAGS, *UNLIMITED]
        browser = playwright.chromium.launch(executable_path=chromium(), args=flags)
        for _ in range(ROUNDS):
            for name, page in pages.items():
                taken[name].append(measure(browser, *page))
        browser.close()
    print(f"{'':28}", *(f"{column:>7}" for column in COLUMNS))
    for name, rounds in taken.items():
        middle = [median(column) for column in zip(*rounds, strict=True)]
        print(f"{name:28}", *(f"{'-' if x != x else format(x, '.0f'):>7}" for x in middle))
    print(f"{'limit to 50,000 nodes':28}", *(f"{limit:>7}" for limit in LIMITS))


def kernel() -> None:
    """Print the processor's time that kernel and server take before a page paints."""
    for name, make in (("in scopes", large_models.tower), ("fan", large_models.fan_out)):
        nodes = drawn_nodes(make(50_000))
        began = time.process_time()
        grouped(nodes)
        print(f"50,000 nodes grouped, {name:14} {1000 * (time.process_time() - began):7.0f} ms")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tower.gw"
        large_models.tower(10_000).save(path)
        stamps = (stamp_of(path)["stamp"],)
        asked = Asked("drawing", folder, False, (path.name,), (path,), stamps, {})
        began = time.process_time()
        size = len(answered(asked)[1])
        took = 1000 * (time.process_time() - began)
    print(f"file of 10,000 nodes, until it is sent {took:7.0f} ms, {size / 1e6:.1f} MB")


def shapes() -> None:
    """Print the figures of the drawings of named models."""
    script = Path(__file__).with_name("bench_shapes.mjs")
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, make in large_models.MODELS.items():
            files.append(Path(folder) / f"{name}.json")
            files[-1].write_text(json.dumps(graph_spec(make()), default=as_text), "utf-8")
        subprocess.run(["node", script, *files], check=True)


def as_text(buffer: memoryview) -> dict[str, str]:
    """Return a buffer as JSON has it in saved pages."""
    return {"$bytes": base64.b64encode(buffer).decode()}


def main() -> None:
    """Print all numbers."""
    limits()
    print()
    kernel()
    print()
    shapes()


if __name__ == "__main__":
    main()
