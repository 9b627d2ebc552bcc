"""The comparison with ONNX Runtime without a browser: what it finds, colours, sends and refuses."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradwrightError, GraphError
from gradwright.op import find_op
from gradwright_widgets import RuntimeComparison, Workbench
from gradwright_widgets.panels.compare.panel import ComparePanel
from tests.support.panels import EVIL, sent, wait_for

pytest.importorskip("onnxruntime", reason="no onnxruntime: pip install -e '.[onnxruntime]'")

X = np.random.default_rng(0).standard_normal((4, 3)).astype("f")


def net(name: str = "gain") -> tuple[gw.Graph, dict[str, Any]]:
    g = gw.Graph("net")
    x = g.placeholder("x", ("B", 3))
    t = g.placeholder("t", ("B", 2))
    with g.scope("hidden"):
        h = gw.tanh(x @ g.variable("w", init=X[:3].copy()))
    last, _ = gw.scan(
        lambda c, row: (gw.sin(c + row), None), g.variable(name, (3,)), h, name="loop"
    )
    gw.exp(last, name="y")
    gw.loss.mean_squared_error(t, h @ g.variable("v", (3, 2)), name="loss")
    return g, {"x": X, "t": np.zeros((4, 2), "f")}


@pytest.fixture
def wrong(monkeypatch):
    cls = find_op("sin")
    right = cls.forward
    monkeypatch.setattr(cls, "forward", lambda self, x: (right(self, x) * 1.01).astype(x.dtype))


def told(panel: Any) -> dict[str, Any]:
    ((content, buffers),) = panel.part(ComparePanel).new_view_messages()
    assert not buffers
    return content


def test_a_right_graph_agrees_in_words():
    g, feeds = net()
    panel = RuntimeComparison(g, feeds=feeds)
    assert (panel.onnx_state, panel.onnx_hint) == ("", "")
    found = panel.compare(wait=True)
    assert found.agrees and panel.comparison is found
    assert (panel.onnx_state, panel.onnx_overlay) == ("done", True)
    facts = told(panel)
    assert facts["first"] is None and facts["finding"] == repr(found)[1:-1]
    assert facts["feeds"] == "x 4 × 3, t 4 × 2"
    assert [row["name"] for row in facts["rows"]] == [row.name for row in found]
    assert {row["verdict"] for row in facts["rows"]} == {"ok"}
    assert "hidden/tanh" in panel.to_table()


def test_the_first_that_differs_is_told_and_coloured(wrong):
    g, feeds = net()
    bench = Workbench(g, feeds=feeds, tab="onnx")
    found = bench.compare_onnx(wait=True)
    facts = told(bench)
    assert facts["first"]["name"] == found.first.name == "loop:0:sin"
    assert facts["first"]["lit"] == "loop::sin" and "onnx.reference" in facts["first"]["second"]
    assert "test_runtime_comparison.py" in facts["first"]["where"]
    assert bench.color_by == "overlay" and bench.overlay["title"] == "of rounding"
    values = np.frombuffer(bench.overlay["values"])
    names = bench.graph_spec["names"]
    shown = dict(zip(names, values, strict=True))
    assert shown["loop"] > 100 > 1 > shown["hidden/tanh"]
    assert np.isnan(shown["x"])
    bench.onnx_overlay = False
    assert bench.color_by == "category"
    bench.selected = facts["first"]["lit"]
    assert bench.desk.check_name("loop::sin") == "loop::sin"


def test_one_that_was_made_before_is_shown(wrong):
    g, feeds = net()
    found = gw.onnx.compare(gw.onnx.to_model(g), feeds)
    panel = RuntimeComparison(found.graph, comparison=found)
    assert panel.comparison is found and panel.onnx_state == "done"
    assert told(panel)["first"]["op"] == "sin"
    assert found.first.name.split(":")[-1] in panel.to_html()
    with pytest.raises(GraphError, match="of another graph"):
        RuntimeComparison(g, feeds=feeds, comparison=found)
    panel.comparison = None
    assert panel.onnx_state == "" and told(panel)["rows"] == []


def test_what_is_missing_is_said(monkeypatch):
    g, feeds = net()
    assert "nothing to run on" in RuntimeComparison(g).onnx_hint
    bare = RuntimeComparison(g)
    with pytest.raises(GraphError, match="nothing to run on"):
        bare.compare()
    assert bare.onnx_state == ""
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n, *a: None if n == "onnxruntime" else real(n, *a)
    )
    panel = RuntimeComparison(g, feeds=feeds)
    assert panel.onnx_hint == "pip install 'gradwright[onnxruntime]'"
    panel.onnx_by = "reference"
    assert panel.onnx_hint == ""
    assert panel.compare(wait=True).by == "onnx.reference"


def test_what_fails_is_told():
    g = gw.Graph("nothing to write")
    g.placeholder("x", (3,))
    panel = RuntimeComparison(g, feeds={"x": [1.0, 2.0, 3.0]})
    with pytest.raises(GraphError, match="no output to write"):
        panel.compare(wait=True)
    assert panel.onnx_state == "failed" and told(panel)["error"]
    assert not panel.onnx_overlay and panel.comparison is None


def test_it_stops_with_what_it_has(monkeypatch):
    g, feeds = net()
    panel = RuntimeComparison(g, feeds=feeds)
    cls = find_op("tanh")
    right, gate, reached = cls.forward, threading.Event(), threading.Event()

    def forward(self, x):
        reached.set()
        gate.wait(30)
        return right(self, x)

    monkeypatch.setattr(cls, "forward", forward)
    messages = sent(panel, monkeypatch)
    panel.compare()
    assert reached.wait(30) and panel.onnx_state == "running"
    with pytest.raises(GradwrightError, match="running already"):
        panel.compare()
    with pytest.raises(GradwrightError, match="is running"):
        panel.comparison = None
    panel.stop()
    gate.set()
    wait_for(lambda: panel.onnx_state == "stopped")
    assert panel.comparison.stopped and "hidden/tanh" in [r.name for r in panel.comparison]
    assert "y" not in [r.name for r in panel.comparison]
    assert "stopped early" in told(panel)["finding"]
    assert any(c["kind"] == "compare.rows" and c["total"] and c["name"] for c, _ in messages)


def test_names_are_text():
    g, feeds = net(EVIL.replace("/", "-").replace(":", "-"))
    panel = RuntimeComparison(g, feeds=feeds)
    panel.compare(wait=True)
    assert "<script" not in panel.to_table().replace("&lt;script", "")
