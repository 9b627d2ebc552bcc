"""The graph drawing in Chromium, of up to 10,000 nodes: ``python -m tests.benchmarks.drawing``.

Everything is measured in the page: from opening the widget to its first painted frame, from a click
on a scope to the painted frame, the frames while the drawing is panned, and the time that painting
once takes, pixels included.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import gradwright as gw
from gradwright_widgets import GraphView
from gradwright_widgets.host.base import bundle
from tests.browser.lab import FLAGS, chromium

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
async (name) => {
  const stage = document.querySelector(".gw-stage"), graph = document.querySelector(".gw-graph");
  const { x, y } = stage.locate(name), before = graph.dataset.ready;
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

PAN = """
async () => {
  const stage = document.querySelector(".gw-stage"), frames = [];
  stage.focus();
  for (let k = 0, last = 0; k < 90; k++) {
    const key = k % 30 < 15 ? "ArrowDown" : "ArrowUp";
    stage.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    const now = await new Promise(requestAnimationFrame);
    if (last) frames.push(now - last);
    last = now;
  }
  frames.sort((a, b) => a - b);
  return [1000 * frames.length / frames.reduce((a, b) => a + b), frames[frames.length * 0.95 | 0]];
}
"""

DRAW = """
async () => {
  const stage = document.querySelector(".gw-stage"), canvas = stage.querySelector(".gw-canvas");
  const times = [], ask = window.requestAnimationFrame;
  window.requestAnimationFrame = (draw) => ask((now) => {
    const began = performance.now();
    draw(now);
    canvas.getContext("2d").getImageData(0, 0, 1, 1);
    times.push(performance.now() - began);
  });
  for (let k = 0; k < 20; k++) {
    stage.dispatchEvent(new KeyboardEvent("keydown", { key: k % 2 ? "+" : "-", bubbles: true }));
    await new Promise((resolve) => setTimeout(resolve, 80));
  }
  window.requestAnimationFrame = ask;
  return times.sort((a, b) => a - b)[times.length >> 1];
}
"""


def blocks(size: int) -> gw.Graph:
    """Return residual blocks of ten nodes each in scopes."""
    g = gw.Graph("blocks")
    x = g.placeholder("x", ("B", 8))
    for k in range(size // 10):
        with g.scope(f"block{k}"):
            y = gw.nn.relu(x @ g.variable("w1", (8, 8)) + g.variable("b1", (8,)))
            y = gw.exp(gw.tanh(y @ g.variable("w2", (8, 8)) + g.variable("b2", (8,))))
        x = x + y
    return g


def strands(count: int, length: int) -> gw.Graph:
    """Return chains side by side, which fill a screen."""
    g = gw.Graph("strands")
    for strand in range(count):
        x = g.placeholder(f"x{strand}", ("B", 8))
        for k in range(length - 1):
            x = (gw.exp, gw.tanh, gw.nn.relu)[k % 3](x)
    return g


def measure(browser: Any, title: str, view: GraphView, scope: str = "", fit: bool = False) -> None:
    """Print one line of numbers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        head = view.to_html().partition('<script type="module">')[0]
        path.write_text(head + "</body></html>", "utf-8")
        page = browser.new_page(viewport={"width": 1200, "height": 800})
        page.goto(path.as_uri())
        first = page.evaluate(OPEN, bundle(view.module))
        opened = page.evaluate(SCOPE, scope) if scope else None
        if fit:
            page.get_by_role("button", name="Fit the drawing").click()
        rate, slow = page.evaluate(PAN)
        once = page.evaluate(DRAW)
        boxes = page.locator(".gw-graph").get_attribute("data-boxes")
        page.close()
    text = "       -" if opened is None else f"{opened:5.0f} ms"
    print(
        f"{title:42}{first:6.0f} ms {text} {rate:6.0f} fps {slow:6.1f} ms {once:6.1f} ms {boxes:>7}"
    )


def main() -> None:
    """Print all numbers."""
    from playwright.sync_api import sync_playwright

    print(f"{'':42}  paint    scope      pan  95 % of frames  draw   boxes")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        large, wide = blocks(10_000), strands(32, 32)
        measure(browser, "10,000 nodes, closed", GraphView(large, expanded=[]), "block0/")
        everything = [f"block{k}" for k in range(1000)]
        measure(browser, "10,000 nodes, all open", GraphView(large, expanded=everything))
        measure(browser, "1,024 nodes, all in sight", GraphView(wide), fit=True)
        colored = GraphView(wide)
        colored.set_overlay("place", {n.name: k for k, n in enumerate(wide.nodes)})
        measure(browser, "1,024 nodes, all in sight, overlay", colored, fit=True)
        strained = GraphView(strands(100, 100))
        measure(browser, "10,000 nodes, all in sight", strained, fit=True)
        browser.close()


if __name__ == "__main__":
    main()
