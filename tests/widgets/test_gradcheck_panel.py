"""The gradient check panel without a browser: what it finds, says, sends and leaves alone."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import FeedError, GradientError, GradwrightError, GraphError
from gradwright_widgets.panels.check.panel import CheckPanel, GradCheckPanel
from tests.support import check_panels
from tests.support.check_panels import model, opened, whole
from tests.support.panels import sent, wait_for

bad_cap = pytest.fixture(scope="module", autouse=True)(check_panels.bad_cap)


class Slow(gw.Op):
    """The input, late where many elements are differenced at once.

    y = x
    """

    gate = threading.Event()
    calls = 0

    def infer(self, x: Any) -> Any:
        return x.with_shape(x.shape)

    def forward(self, x: Any) -> Any:
        cls = type(self)
        if x.ndim > 2:
            cls.calls += 1
            cls.gate.wait(30)
        return 1.0 * x

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return (gs[0],)


class Noisy(gw.Op):
    """A forward whose rounding errors are larger than what it computes.

    y = x / 1e8
    """

    def infer(self, x: Any) -> Any:
        return x.with_shape(x.shape)

    def forward(self, x: Any) -> Any:
        return 1e-8 * x + 1e-6 * np.sin(1e17 * x)

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return (gs[0] * 1e-8,)


# -- what is found ---------------------------------------------------------------------------------


def test_a_right_network_passes_in_words():
    panel = opened(*model())
    report = panel.check(wait=True)
    assert report is not None and report.passed
    assert (panel.check_state, panel.blamed, panel.check_overlay) == ("done", [], False)
    told = whole(panel)
    assert [f["verdict"] for f in told["findings"]] == ["ok"]
    assert told["findings"][0]["text"].startswith("All gradients agree with finite differences: 21")
    assert [row["name"] for row in told["parameters"]] == ["hidden/w", "hidden/b", "w2"]
    assert {row["verdict"] for row in told["nodes"]} == {"ok"}
    assert told["feeds"] == "x 5 × 4, t 5"


def test_a_broken_op_is_blamed_and_shown(bad_cap):
    panel = opened(*model(bad_cap()))
    panel.check(wait=True)
    assert panel.blamed == ["cap"] and panel.check_overlay
    first, rest = whole(panel)["findings"]
    assert first["text"].startswith("test/bad_cap 'cap' (check_panels.py:")
    assert first["text"].endswith("is wrong: its vjp for x is 0.5 times what it should be")
    assert rest["nodes"] == ["hidden/w", "hidden/b"]
    (row,) = [row for row in whole(panel)["nodes"] if row["verdict"] == "fail"]
    assert (row["name"], row["op"]) == ("cap", "test/bad_cap")
    assert row["error"] == pytest.approx(0.5, rel=1e-4) and row["seconds"] > 0
    rows = {row["name"]: row for row in whole(panel)["parameters"]}
    assert rows["hidden/w"]["verdict"] == "fail" and rows["w2"]["verdict"] == "ok"
    assert rows["hidden/w"]["error"] == pytest.approx(0.5, rel=1e-4)
    assert len(rows["hidden/w"]["troubles"]) == 12
    panel.graph["cap"].node.op = bad_cap(share=1.0)
    assert panel.check(wait=True).passed
    assert panel.blamed == [] and not panel.check_overlay


def test_relu_at_exactly_zero_is_a_kink():
    g = gw.Graph()
    w = g.variable("w", init=[0.0, 1.0, -1.0])
    gw.nn.relu(w).sum(name="loss")
    panel = opened(g)
    panel.check(wait=True)
    told = whole(panel)
    assert [f["verdict"] for f in told["findings"]] == ["kink", "ok"]
    assert "1 element sits on a kink (relu 'relu')" in told["findings"][0]["text"]
    (row,) = told["parameters"]
    assert (row["verdict"], row["kinks"], row["error"] < 1e-6) == ("kink", 1, True)
    curve = panel.curve("w", 0)
    assert (curve.left, curve.right) == (0.0, pytest.approx(1.0))
    assert curve.text == (
        "A kink of 'relu': slope 0 on the left, 1 on the right; the gradient is 0"
    )


def test_noise_is_called_noise():
    g = gw.Graph()
    w = g.variable("w", init=[1.0, 2.0])
    Noisy()(w, name="y").sum(name="loss")
    panel = opened(g)
    assert panel.check(wait=True).outcome == "unclear"
    found = whole(panel)["findings"]
    assert found[0]["verdict"] == "unclear" and "too noisy to tell" in found[0]["text"]
    assert panel.curve("w", 1).text.startswith("Too noisy to tell: the gradient is 1e-08")


# -- options ---------------------------------------------------------------------------------------


def test_options_of_the_panel_are_those_of_the_check():
    g, feeds = model()
    panel = opened(g, feeds, check_limit=2, check_training=True)
    report = panel.check(wait=True)
    assert [p.checked for p in report.parameters.values()] == [2, 2, 2]
    assert report.occasion.training and whole(panel)["training"]
    report = panel.check(max_per_param=None, training=False, wait=True)
    assert [p.checked for p in report.parameters.values()] == [12, 3, 6]
    assert (panel.check_limit, panel.check_training) == (None, False)
    assert panel.check(max_per_param=0, wait=True).worst is None


def test_what_is_checked_can_be_chosen():
    g, feeds = model()
    panel = opened(g, feeds, check_which="selected")
    with pytest.raises(GraphError, match="nothing is selected to check"):
        panel.check()
    assert panel.check_state == ""
    panel.selected = "hidden/"
    assert list(panel.check(wait=True).parameters) == ["hidden/w", "hidden/b"]
    panel.selected = "hidden/softplus"
    assert list(panel.check(wait=True).parameters) == ["hidden/softplus"]
    assert list(panel.check(["x", g["w2"]], wait=True).parameters) == ["x", "w2"]
    with pytest.raises(GraphError, match="no trainable parameter is in 'head/'"):
        panel.check(["head/"])


def test_what_is_missing_is_said():
    g, feeds = model()
    panel = GradCheckPanel(g)
    assert "no loss of graph 'small' is known here" in panel.check_hint
    with pytest.raises(GraphError, match="no loss"):
        panel.check()
    panel._receive(panel, {"kind": "check.start"}, [])
    assert panel.check_state == "" and panel.message.startswith("no loss")
    trainer = gw.Trainer(g, "loss", optimizer=gw.optim.SGD(0.1))
    panel = GradCheckPanel(g, trainer)
    assert "has nothing to run on here" in panel.check_hint
    trainer.fit([feeds], epochs=1, progress=False)
    assert panel.check_hint == ""
    assert panel.check(wait=True).passed


def test_errors_stay_in_the_panel():
    g, feeds = model()
    feeds["x"][1, 2] = np.nan
    panel = opened(g, feeds)
    with pytest.raises(GradientError, match="the loss 'loss' is nan"):
        panel.check(wait=True)
    assert (panel.check_state, panel.message) == ("failed", "")
    assert "x: " in whole(panel)["error"] and "1 NaN of 20" in whole(panel)["error"]
    assert whole(panel)["findings"] == []
    panel = opened(g, {"x": feeds["x"]})
    with pytest.raises(FeedError, match="placeholder 't' is not fed"):
        panel.check(wait=True)
    feeds["x"][1, 2] = 0
    panel = opened(g, feeds)
    assert panel.check(wait=True).passed and panel.check_state == "done"


def test_where_the_first_infinity_begins_is_said():
    g = gw.Graph()
    w = g.variable("w", init=[800.0])
    gw.exp(w, name="blown").sum(name="loss")
    panel = opened(g)
    panel.check()
    panel.part(CheckPanel)._check_work.join()
    assert "it begins at exp 'blown' (test_gradcheck_panel.py:" in whole(panel)["error"]


# -- in the background -----------------------------------------------------------------------------


@pytest.fixture
def held_check():
    """A check that waits in its middle until its gate opens."""
    Slow.calls, Slow.gate = 0, threading.Event()
    g, feeds = model(Slow())
    panel = opened(g, feeds, check_limit=None)
    panel.check()
    wait_for(lambda: Slow.calls)
    yield panel
    Slow.gate.set()
    panel.stop()
    panel.part(CheckPanel)._check_work.join()


def test_rows_appear_while_it_runs_and_stop_keeps_them(held_check):
    panel = held_check
    assert panel.check_state == "running"
    told = whole(panel)
    assert 0 < told["done"] < told["total"] and told["name"] in ("hidden/w", "hidden/b")
    assert [row["name"] for row in told["parameters"]] == ["hidden/w", "hidden/b", "w2"]
    assert told["parameters"][2]["verdict"] == "unchecked" and len(told["nodes"]) == 6
    assert all(f["verdict"] != "ok" for f in told["findings"])
    assert panel.report is not panel.part(CheckPanel)._check.report and not panel.report.stopped
    with pytest.raises(GradwrightError, match="is running already"):
        panel.check()
    with pytest.raises(GradwrightError, match="is running"):
        panel.report = None
    panel.stop()
    Slow.gate.set()
    panel.part(CheckPanel)._check_work.join()
    assert panel.check_state == "stopped" and panel.report.stopped
    assert whole(panel)["findings"][-1]["text"].startswith("Stopped early, after ")


def test_closing_ends_it(held_check):
    thread = held_check.part(CheckPanel)._check_work._thread
    held_check.close()
    Slow.gate.set()
    thread.join(30)
    assert not thread.is_alive()


def test_training_goes_on_as_if_there_were_no_check():
    def train(check: bool) -> dict[str, bytes]:
        g, feeds = model()
        settled = gw.Session(g, seed=3, deterministic=True)
        trainer = gw.Trainer(g, "loss", optimizer=gw.optim.Adam(0.01), seed=3, session=settled)
        panel = GradCheckPanel(g, trainer, feeds=feeds)
        reports = []
        for _ in range(5):
            if check:
                panel.check(max_per_param=None)
            trainer.fit([feeds] * 30, epochs=1, progress=False)
            panel.part(CheckPanel)._check_work.join()
            reports.append(panel.report)
        assert not check or all(r.passed for r in reports)
        assert not check or len({r.value for r in reports}) == 5
        return {name: g.values[name].tobytes() for name in ("hidden/w", "hidden/b", "w2")}

    assert train(check=True) == train(check=False)


def test_few_messages_leave_while_it_runs(monkeypatch):
    g, feeds = model()
    panel = opened(g, feeds, check_limit=None)
    messages = sent(panel, monkeypatch)
    began = time.monotonic()
    panel.check(wait=True)
    seconds = time.monotonic() - began
    assert 2 <= len(messages) <= 10 * seconds + 4
    rows: dict[str, Any] = {}
    nodes: list[Any] = []
    for content, buffers in messages:
        assert content["kind"] == "check.rows" and not buffers
        rows.update({row["name"]: row for row in content["parameters"]})
        assert content["first"] == len(nodes)
        nodes += content["nodes"]
    assert list(rows.values()) == whole(panel)["parameters"] and nodes == whole(panel)["nodes"]
