"""Why a gradient is what it is: asked for in a panel, told in words and lit by address."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradwrightError, GraphError
from gradwright_widgets import GraphView, ParameterTable, Workbench
from gradwright_widgets.panels.graph.why import WhyPanel
from tests.support.panels import wait_for


@pytest.fixture
def net():
    """A net whose first weight gets no gradient, through a loop."""
    g = gw.Graph("net")
    x = g.placeholder("x", (None, 4))
    with g.scope("hidden"):
        h = gw.nn.relu(x @ g.variable("w", (4, 3), init=gw.init.he_normal(seed=0)) - 50.0)
    c, _ = gw.scan(lambda c, v: (gw.tanh(c + v), None), np.ones(3, "f4"), h, name="loop")
    gw.mean(gw.square(c * g.variable("w2", (3,), init=1.0)), name="loss")
    return g


FEEDS = {"x": np.random.default_rng(0).standard_normal((5, 4)).astype("f4")}


def colours(view):
    names = view.graph_spec["names"]
    found = dict(zip(names, np.frombuffer(view.overlay["values"], "<f8").tolist(), strict=True))
    return {k: v for k, v in found.items() if not np.isnan(v)} | view.overlay["inside"]


def test_the_path_is_told_and_lit(net):
    view = GraphView(net, loss="loss", feeds=FEEDS)
    found = view.explain_gradient("hidden/w", wait=True)
    assert found.verdict == "zero"
    assert view.explanation is found
    assert view.why["text"] == found.text.splitlines()
    assert view.why["culprits"] == ["hidden/relu"]
    assert "loop::tanh" in view.why["nodes"], "a body is drawn once for all turns"
    assert not any(":0:" in name for name in view.why["nodes"])
    assert view.color_by == "overlay"
    shown = colours(view)
    assert shown["hidden/w"] == 0.0
    assert shown["loss"] == 1.0
    assert shown["loop::tanh"] == max(
        s.norm_in for s in found.steps if str(s.address.anywhere) == "loop::tanh"
    )
    view.clear_explanation()
    assert (view.why, view.overlay, view.color_by) == ({}, {}, "category")


def test_the_page_asks_and_clears(net):
    bench = Workbench(net, loss="loss", feeds=FEEDS)
    bench._receive(bench, {"kind": "why.ask", "name": "w2"}, [])
    wait_for(lambda: bench.why.get("parameter") == "w2")
    bench._receive(bench, {"kind": "why.clear"}, [])
    assert bench.why == {}
    assert bench.overlay == {}


def test_what_cannot_be_explained_is_refused_and_leaves_nothing(net):
    view = GraphView(net)
    with pytest.raises(GraphError, match="no loss"):
        view.explain_gradient("w2")
    view = GraphView(net, loss="loss", feeds=FEEDS)
    with pytest.raises(GradwrightError, match="w3"):
        view.explain_gradient("w3")
    assert view.why == {}


def test_an_explanation_goes_with_its_node(net):
    view = GraphView(net, loss="loss", feeds=FEEDS)
    view.explain_gradient("w2", wait=True)
    assert "w2" in view.part(WhyPanel).to_table()
    with net.edit() as edit:
        edit.remove(*(net[name] for name in ("loss", "square", "mul", "w2")))
    view.refresh()
    assert view.explanation is None
    assert view.why == {}


def test_a_table_alone_offers_none(net):
    assert not hasattr(ParameterTable(net), "why")
