"""The workbench in a real JupyterLab: what an open widget costs kernel, wire, file and page.

    python -m tests.benchmarks.page [--minutes 10]

Kernel time per training step is a ratio of turns of one training, with the Workbench following and
without. Memory is read after garbage collection in kernel and page.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.browser.lab import FLAGS, NOTE, Lab, Page, chromium, wait_for

ROOT = Path(__file__).parents[2]

SETUP = f"""
{NOTE}
import ctypes, gc, json, os, sys, threading, time
sys.path.insert(0, {str(ROOT)!r})
from gradwright_widgets import Workbench
from tests.support import digits
from tests.benchmarks.widgets import Turns

data, _ = digits.load()
trainer = digits.build(hidden=64)

def rss():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what was given back and not yet returned is no growth
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
"""

SHOW = """
bench = Workbench(trainer.graph, trainer, data=data)
bench
"""

COUNT = """
sent = {"messages": 0, "bytes": 0}
publish = type(bench.comm).publish_msg
def counted(self, msg_type, data=None, metadata=None, buffers=None, **keys):
    sent["messages"] += 1
    sent["bytes"] += len(json.dumps(data, default=str))
    sent["bytes"] += sum(memoryview(b).nbytes for b in buffers or ())
    return publish(self, msg_type, data=data, metadata=metadata, buffers=buffers, **keys)
type(bench.comm).publish_msg = counted
base64 = lambda b: "x" * (4 * memoryview(b).nbytes // 3)
note("state", bytes=len(json.dumps(bench.get_state(), default=base64)))
"""

COST = """
turns = Turns(trainer)
trainer.add_callback(turns)
def work():
    trainer.fit(data, epochs=10**6, batch_size=64, progress=False)
    trainer.remove_callback(turns)
    note("cost", text=str(turns))
    before, began = dict(sent), time.perf_counter()
    trainer.fit(data, epochs=10**6, batch_size=64, steps=20_000, progress=False)
    seconds = time.perf_counter() - began
    note("traffic", **{kind: (sent[kind] - before[kind]) / seconds for kind in sent})
threading.Thread(target=work).start()
"""

LONG = """
def long():
    end = time.monotonic() + 60 * MINUTES
    while time.monotonic() < end:
        trainer.fit(data, epochs=10**6, batch_size=64, steps=20_000, progress=False)
        used, tables = rss(), (trainer.history.steps, trainer.history.epochs)
        note("memory", rss=used, steps=trainer.steps_done,
             history=sum(8 * table.rows * len(table) for table in tables))
    note("long done")
threading.Thread(target=long).start()
"""


def heap(page: Page) -> float:
    """Return the page's live JavaScript heap in MB."""
    session = page.page.context.new_cdp_session(page.page)
    session.send("HeapProfiler.collectGarbage")
    used = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return float(used) / 1e6


def first_paint(page: Page, cell: int) -> float:
    """Run a cell and return the milliseconds until its drawing has been painted."""
    return float(
        page.page.evaluate(
            """(k) => new Promise((resolve) => {
              const notebook = window.jupyterapp.shell.currentWidget.content;
              notebook.activeCellIndex = k;
              const began = performance.now();
              const look = () => {
                if (document.querySelector('.gw-graph[data-ready]')) {
                  requestAnimationFrame(() => resolve(performance.now() - began));
                } else requestAnimationFrame(look);
              };
              look();
              window.jupyterapp.commands.execute('notebook:run-cell');
            })""",
            cell,
        )
    )


def measure(page: Page, lab: Lab, minutes: float) -> None:
    """Print all numbers."""
    long = LONG.replace("MINUTES", str(minutes))
    lab.write_notebook("bench.ipynb", [SETUP, SHOW, COUNT, COST, long])
    page.open_notebook("bench.ipynb")
    page.run_cell(0)
    print(f"first paint, from running the cell     {first_paint(page, 1):8.0f} ms")
    page.run_cell(2)
    print(f"saved state of one Workbench           {lab.event('state')['bytes'] / 1e3:8.0f} kB")
    page.command("docmanager:save")
    notebook = lab.root / "bench.ipynb"
    wait_for(lambda: notebook.stat().st_size > 5000, "the notebook to be saved")
    print(f"notebook with its still view           {notebook.stat().st_size / 1e3:8.0f} kB")

    page.run_cell(3)
    wait_for(lambda: lab.events("traffic"), "the training to end", patience=600)
    traffic = lab.event("traffic")
    print(f"kernel CPU per step                  {lab.event('cost')['text']}")
    print(f"messages                               {traffic['messages']:8.1f} /s")
    print(f"traffic                                {traffic['bytes'] / 1e3:8.1f} kB/s")

    page.run_cell(4)
    began = time.monotonic()
    seen = 0
    while not lab.events("long done"):
        time.sleep(5)
        events = lab.events("memory")
        if time.monotonic() - began < 30 * (seen + 1) or not events:
            continue
        seen += 1
        last = events[-1]
        print(
            f"after {time.monotonic() - began:4.0f} s: kernel {last['rss'] / 1e6:6.0f} MB "
            f"(of it history {last['history'] / 1e6:.1f}), page {heap(page):6.1f} MB, "
            f"{last['steps']:,} steps",
            flush=True,
        )


def main() -> None:
    """Start JupyterLab and Chromium, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="length of the memory run")
    minutes = parser.parse_args().minutes
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        lab = Lab(Path(folder))
        lab.start()
        try:
            browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            measure(Page(context, lab), lab, minutes)
            browser.close()
        finally:
            lab.stop()


if __name__ == "__main__":
    main()
