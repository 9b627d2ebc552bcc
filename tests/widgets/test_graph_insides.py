"""Opened nodes: what they enclose is sent when they are opened, joined to arguments and results."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

import gradwright as gw
from gradwright.debug.address import Address
from gradwright_widgets import GraphView, Workbench
from gradwright_widgets.host.insides import is_inside, parts_of
from gradwright_widgets.panels.graph.insides import inside_spec


@pytest.fixture
def graph():
    g = gw.Graph("nested")
    x, w = g.placeholder("x", ("B", 4)), g.variable("w", (4, 4), init=gw.init.zeros())

    @gw.function("block")
    def block(x, w):
        return gw.tanh(gw.nn.layer_norm(x) @ w)

    with g.scope("encoder"):
        y = block(x, w)

    def step(c, v):
        with c.graph.scope("cell"):
            return gw.nn.silu(c * 0.5 + v), gw.exp(c)

    c, ys = gw.scan(step, np.zeros(4, "f4"), y, name="loop")
    z = gw.cond(gw.sum(c) > 0, lambda: c * 2.0, lambda: gw.exp(c) - 1.0, name="choose")
    n = gw.while_loop(lambda c: gw.sum(c) < 10.0, lambda c: gw.cosh(c), z)
    gw.sum(n + gw.sum(ys, axis=0), name="loss")
    return g


def ints(column):
    return np.frombuffer(column, "<i4").tolist()


def feeds(spec):
    """Return which node reads which, by name, of what a node encloses."""
    first = np.array(ints(spec["first_tensor"]))
    names = spec["names"]
    edges = np.array(ints(spec["edges"])).reshape(-1, 3)
    return {
        (names[int(np.searchsorted(first, t, "right")) - 1], names[node]) for t, node, _ in edges
    }


def test_every_node_with_an_inside_opens_and_all_in_it_is_found_by_address(graph):
    view = GraphView(graph)
    table = dict(zip(view.graph_spec["calls"], view.graph_spec["opens"], strict=True))
    pending = [node.name for node in graph.nodes if table[repr(node.op)]]
    assert pending == ["encoder/block", "loop", "choose", "while"]
    seen = set()
    while pending:
        address = pending.pop()
        spec = inside_spec(graph, address)
        for name, call in zip(spec["names"], ints(spec["call"]), strict=True):
            node = Address.parse(name).find(graph).node
            assert repr(node.op) == spec["calls"][call]
            assert bool(parts_of(node)) == spec["opens"][call]
            seen.add(name)
            if spec["opens"][call]:
                pending.append(name)
    assert {
        "encoder/block::layer_norm::mean",
        "loop::cell/silu::sigmoid",
        "choose:else:exp",
    } <= seen


def test_arguments_lead_in_and_results_lead_out(graph):
    spec = inside_spec(graph, "encoder/block")
    names = spec["names"]
    entries = np.array(ints(spec["entries"])).reshape(-1, 2)
    assert [(p, names[k]) for p, k in entries] == [
        (0, "encoder/block::x_0"),
        (1, "encoder/block::x_1"),
    ]
    assert [names[t] for t, _ in np.array(ints(spec["exits"])).reshape(-1, 2)] == [
        "encoder/block::tanh"
    ]
    inner = graph["encoder/block"].node.op.body.nodes
    wanted = {
        (f"encoder/block::{t.node.name}", f"encoder/block::{n.name}")
        for n in inner
        for t in n.inputs
    }
    assert feeds(spec) == wanted


def test_carries_run_from_step_to_step(graph):
    assert ("loop::cell/silu", "loop::carry") in feeds(inside_spec(graph, "loop"))
    assert ("while::cosh", "while::carry") in feeds(inside_spec(graph, "while"))


def test_both_branches_read_the_arguments_and_the_node_chooses(graph):
    spec = inside_spec(graph, "choose")
    names = spec["names"]
    entries = np.array(ints(spec["entries"])).reshape(-1, 2)
    assert {p for p, _ in entries} == {1}, "the condition is read by the node itself"
    assert {names[k].split(":")[1] for _, k in entries} == {"then", "else"}
    exits = np.array(ints(spec["exits"])).reshape(-1, 2)
    assert [names[t] for t, _ in exits] == ["choose:then:mul", "choose:else:sub"]
    assert len({p for _, p in exits} | {0}) == 3, "no two arguments at one position"


def test_insides_are_sent_when_nodes_are_opened_and_not_before(graph):
    view = GraphView(graph)
    assert view.insides == {}
    view.expanded = ["encoder", "encoder/block::"]
    assert set(view.insides) == {"encoder/block"}
    kept = view.insides["encoder/block"]
    view.expanded = ["encoder", "choose::"]
    assert view.insides["encoder/block"] is kept, "it opens again at once"
    assert view.expanded == ["choose::", "choose:else:", "choose:then:", "encoder"]
    assert GraphView(graph, expanded=["loop::"]).insides.keys() == {"loop"}


@pytest.mark.parametrize(
    "path", ["x::", "nothing::", "loop:then:", "loop::nowhere", "choose:maybe:", "encoder/block:"]
)
def test_what_does_not_open_is_refused(graph, path):
    view = GraphView(graph, expanded=["encoder"])
    with pytest.raises(gw.errors.GraphError, match="no scope"):
        view.expanded = [path]
    assert view.expanded == ["encoder"]


def test_what_hangs_on_sizes_that_are_not_known_says_so():
    g = gw.Graph()
    q = g.placeholder("q", ("B", "T", "D"))
    gw.nn.scaled_dot_product_attention(q, q, q, name="attend")
    view = GraphView(g)
    with pytest.raises(gw.errors.GraphError, match="'attend' is made of cannot be told yet"):
        view.expanded = ["attend::"]
    assert (view.expanded, view.insides) == (None, {})


def test_what_is_inside_is_selected_by_its_address(graph):
    view = GraphView(graph)
    for name in ("loop::cell/silu", "loop:3:cell/silu", "choose:then:", "choose:then:mul"):
        if name.endswith(":"):
            view.selected = f"{name}/"  # a branch, as scopes are called
            continue
        view.selected = name
    with pytest.raises(gw.errors.GraphError, match="silo"):
        view.selected = "loop::cell/silo"
    assert view.selected == "choose:then:mul"
    assert is_inside(graph, "choose:then:")
    assert not is_inside(graph, "choose:then:deep")


def test_a_graph_that_changes_closes_what_is_gone_and_sends_the_rest_anew(graph):
    view = GraphView(graph, expanded=["loop::", "choose::"])
    view.selected = "choose:then:mul"
    before = view.insides
    with graph.edit() as edit:
        edit.remove(*(graph[name] for name in ("loss", "add", "while", "less", "sum_1", "choose")))
    view.refresh()
    assert view.expanded == ["loop::"]
    assert set(view.insides) == {"loop"}
    assert view.insides["loop"] is not before["loop"]
    assert view.selected == ""


def test_colours_of_what_is_inside_show_outside_too(graph):
    view = GraphView(graph)
    values = {
        "encoder/block::layer_norm::mean": 3.0,
        "encoder/block::tanh": -5.0,
        "loop:2:cell/exp": 1.0,
    }
    view.set_overlay("error", {**values, "loop": 9.0}, scale="diverging")
    assert view.overlay["inside"] == {
        "encoder/block::layer_norm::mean": 3.0,
        "encoder/block::layer_norm": 3.0,
        "encoder/block::tanh": -5.0,
        "loop::cell/exp": 1.0,
    }
    names = view.graph_spec["names"]
    own = dict(zip(names, np.frombuffer(view.overlay["values"], "<f8").tolist(), strict=True))
    assert own["encoder/block"] == -5.0
    assert own["loop"] == 9.0
    with pytest.raises(gw.errors.GraphError, match="expo"):
        view.set_overlay("error", {"loop::cell/expo": 1.0})


def test_stills_show_opened_nodes(graph):
    closed, view = GraphView(graph), GraphView(graph, expanded=["encoder/block::"])

    def titles(svg):
        return [t.text for t in ElementTree.fromstring(svg).iter() if t.tag.endswith("text")]

    more = [t for t in titles(view.to_svg()) if t not in titles(closed.to_svg())]
    assert {"x_0", "x_1", "layer_norm", "tanh", "in block · B×4"} <= set(more)
    edges = view.to_svg().count("<path"), closed.to_svg().count("<path")
    # x and w lead to inputs instead of to the call, and five edges are new: two marks each
    assert edges[0] - edges[1] >= 2 * 5
    many = GraphView(graph, expanded=["encoder/block::", "loop::", "choose::", "while::"])
    assert titles(many.to_svg())


def test_pictures_of_large_graphs_are_of_their_cards_whatever_is_opened():
    g = gw.Graph("deep")
    h = g.placeholder("x", (3,))
    for _ in range(60):
        h = gw.nn.silu(h)
    view = GraphView(g, expanded=["silu::"])
    assert view.to_svg() == GraphView(g).to_svg()
    assert "silu × 8 × 7" in view.to_svg() and "silu × 4" in view.to_svg()
    assert set(view.insides) == {"silu"}


def test_insides_cost_nothing_until_they_are_opened(graph, monkeypatch):
    def fail(*_):
        raise AssertionError("an expansion was made for the drawing")

    monkeypatch.setattr("gradwright.debug.address.expansion", fail)
    view = GraphView(graph)
    assert all(a < b for a, b in pairwise(ints(view.graph_spec["first_tensor"])))


def test_other_panels_live_with_a_selection_inside(graph):
    bench = Workbench(graph, loss="loss", feeds={"x": np.ones((2, 4), "f4")})
    for tab in ("tensor", "step", "parameters", "check", "train"):
        bench.tab = tab
        for name in ("encoder/block::layer_norm", "choose:then:mul", "loop::cell/silu"):
            bench.selected = name
            assert bench.selected == name
