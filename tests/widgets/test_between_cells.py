"""A page joins in the midst of a cell's imports, in a real kernel: nothing is imported beside."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

OURS = {f"gradwright_widgets.bridge.{name}" for name in ("facts", "living", "places", "session")}
"""What threads of pages may import: no cell does."""

SPY = """
import importlib.abc, json, sys, threading, time
import gradwright_widgets

beside = []

def spy(event, args):
    if event == "import" and threading.current_thread() is not threading.main_thread():
        beside.append(args[0])

class Halting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in HALTS:
            print("halting", flush=True)
            time.sleep(0.5)

HALTS = {"gradwright.graph", "gradwright.train.trainer", "ipywidgets.widgets.widget_box", "plotly"}
sys.meta_path.insert(0, Halting())
sys.addaudithook(spy)
"""
"""A cell that has later imports halt in their midst, longer than any page waits for."""

CELL = """
import gradwright as gw
g = gw.Graph("parabola")
w = g.variable("w", (2, 3))
trainer = gw.Trainer(g, (w * w).sum(name="loss"))
import ipywidgets, plotly
bench = gradwright_widgets.Workbench(g, trainer)
trainer.fit([{}], progress=False)
"""

ASKED = (
    {"kind": "hello", "page": "p"},
    {"kind": "explain", "id": "explain"},
    *({"kind": "open", "view": view, "key": key, "id": view} for view, key in {
        "graph": "g", "parameters": "g", "training": "trainer", "curves": "trainer",
    }.items()),
    {"kind": "where", "graph": "parabola", "node": "w", "id": "where"},
    {"kind": "select", "cell": "c", "id": "select"},
)  # fmt: skip

EARLY = "no graph 'parabola' has a node 'w'"


class Kernel:
    """A kernel, and a page beside its notebook, which is heard by a thread of its own."""

    def __init__(self) -> None:
        manager = pytest.importorskip("jupyter_client").KernelManager(kernel_name="python3")
        manager.start_kernel()
        self.manager, self.client = manager, manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        self.heard: list[dict[str, Any]] = []
        self.subshell = self._asked("create_subshell_request")["subshell_id"]

    def _asked(self, kind: str) -> dict[str, Any]:
        self.client.control_channel.send(self.client.session.msg(kind, {}))
        return self.client.get_control_msg(timeout=60)["content"]

    def run(self, code: str) -> str:
        """Begin a cell; return the request."""
        return self.client.execute(code)

    def told(self, cell: str, until: str = "") -> str:
        """Return what a cell prints, to its end or to a word; pages are heard meanwhile."""
        text = ""
        while not (until and until in text):
            message = self.client.get_iopub_msg(timeout=60)
            content, kind = message["content"], message["msg_type"]
            if kind == "comm_msg" and content["comm_id"] == "page":
                self.heard.append(content["data"])
            elif message["parent_header"].get("msg_id") == cell:
                assert kind != "error", "\n".join(content["traceback"])
                text += content["text"] if kind == "stream" else ""
                if kind == "status" and content["execution_state"] == "idle":
                    break
        return text

    def page(self, kind: str, **content: Any) -> None:
        message = self.client.session.msg(kind, {"comm_id": "page", **content})
        message["header"]["subshell_id"] = self.subshell
        self.client.shell_channel.send(message)

    def ask(self, message: dict[str, Any], name: str = "") -> None:
        self.page("comm_msg", data=message)


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    kernel = Kernel()
    yield kernel
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel(now=True)


@pytest.mark.parametrize("comes", ["before", "amidst"])
def test_no_thread_of_a_page_imports_what_a_cell_may(kernel, comes):
    kernel.told(kernel.run(SPY))
    opening = {"target_name": "gradwright.panel", "data": {}}
    if comes == "before":
        kernel.page("comm_open", **opening)
    cell = kernel.run(CELL)
    kernel.told(
        cell, until="halting"
    )  # asked before it begins, the page would import between cells
    if comes == "amidst":
        kernel.page("comm_open", **opening)
    for message in ASKED:
        kernel.ask(message)
    kernel.told(cell)
    for message in ASKED:  # again, now that all is there
        kernel.ask({**message, "id": f"{message.get('id')} again"})
    answers: dict[str, Any] = {}
    end = time.monotonic() + 60
    while not {f"{m.get('id')} again" for m in ASKED} <= set(answers):
        assert time.monotonic() < end, answers
        kernel.told(kernel.run("1"))
        answers = {m["id"]: m for m in kernel.heard if m["kind"] == "answer"}
    wrong = {name: answer["error"] for name, answer in answers.items() if "error" in answer}
    early = wrong.pop("where", EARLY)  # answered at once, perhaps before the cell has made it
    assert (early, wrong) == (EARLY, {})
    names = json.loads(kernel.told(kernel.run("print(json.dumps(beside))")))
    beside = {name for name in names if not name.startswith("zmq.")}  # a leaf; sending needs it
    assert "gradwright_widgets.bridge.session" in beside, "a page joined while the cell ran"
    assert beside <= OURS
