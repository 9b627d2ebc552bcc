"""How long JupyterLab takes to start, with the extension and without it.

    python -m tests.benchmarks.lab_start [pairs]

Two servers stand side by side; pages are opened on them in turn, each in a fresh profile, from the
request to the moment that JupyterLab has restored its layout. Of the servers themselves the time
until they answer is taken once for each. Medians of the differences, pair by pair, are printed; on
a machine that has other work, too, they say less than how much of a page's own work is ours.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tests.browser.lab import FLAGS, Lab, chromium

PAIRS = 10
READY = "() => window.jupyterapp && window.jupyterapp.restored.then(() => true)"


def started(folder: Path, *, extension: bool) -> tuple[Lab, float]:
    """Return a running JupyterLab, and how long its server took to answer."""
    lab = Lab(folder)
    if not extension:
        (folder / "data/labextensions/gradwright").unlink()
        (folder / "config/jupyter_server_config.d").unlink()
    begin = time.perf_counter()
    lab.start()
    return lab, time.perf_counter() - begin


def opened(browser: Any, lab: Lab) -> float:
    """Return the seconds until a fresh page has its layout."""
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    page = context.new_page()
    begin = time.perf_counter()
    page.goto(f"{lab.base}/lab?reset&token={lab.token}")
    page.wait_for_function(READY)
    taken = time.perf_counter() - begin
    context.close()
    return taken


def ours(browser: Any, lab: Lab) -> tuple[float, float]:
    """Return how many milliseconds a page works until it has its layout, and how many of our code.

    What our code calls counts as ours.
    """
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    page = context.new_page()
    profiler = context.new_cdp_session(page)
    profiler.send("Profiler.enable")
    profiler.send("Profiler.start")
    page.goto(f"{lab.base}/lab?reset&token={lab.token}")
    page.wait_for_function(READY)
    profile = profiler.send("Profiler.stop")["profile"]
    context.close()
    busy, own = set[int](), set[int]()

    def walk(node: dict[str, Any], within: bool) -> None:
        frame = node["callFrame"]
        within |= "/gradwright/" in frame["url"]
        if frame["functionName"] != "(idle)":
            busy.add(node["id"])
        if within:
            own.add(node["id"])
        for child in node.get("children", ()):
            walk(nodes[child], within)

    nodes = {node["id"]: node for node in profile["nodes"]}
    walk(profile["nodes"][0], False)
    spent = list(zip(profile["samples"], profile["timeDeltas"], strict=True))
    of = lambda which: sum(us for node, us in spent if node in which) / 1000  # noqa: E731
    return of(busy), of(own)


def main(pairs: int) -> None:
    """Print the times."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        without, server_without = started(Path(folder, "without"), extension=False)
        with_it, server_with = started(Path(folder, "with"), extension=True)
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        try:
            opened(browser, without), opened(browser, with_it)  # both servers are warm then
            rows = [(opened(browser, without), opened(browser, with_it)) for _ in range(pairs)]
            busy, own = ours(browser, with_it)
        finally:
            browser.close()
            without.stop()
            with_it.stop()
    bare, full = (statistics.median(column) for column in zip(*rows, strict=True))
    more = [1000 * (b - a) for a, b in rows]
    print(f"server  without {server_without:5.2f} s   with {server_with:5.2f} s")
    print(f"page    without {bare:5.2f} s   with {full:5.2f} s   ({pairs} pairs)")
    low, middle, high = statistics.quantiles(more, n=4)
    print(f"        more, pair by pair: {middle:+.0f} ms (quartiles {low:+.0f} and {high:+.0f})")
    print(f"        of {busy:.0f} ms that the page works, {own:.1f} ms are ours")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS)
