"""Gradients beside their nodes: what is sent about them, and the switch that draws them."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright_widgets import GraphView, Workbench
from gradwright_widgets.drawing.nodes import differentiated
from gradwright_widgets.drawing.spec import graph_spec


@pytest.fixture
def graph():
    g = gw.Graph("net")
    x = g.placeholder("x", ("B", 8))
    t = g.placeholder("t", ("B",), dtype="int64")
    with g.scope("hidden"):
        h = gw.nn.relu(x @ g.variable("w", (8, 6)) + g.variable("b", (6,)))
    y = h + gw.tanh(h)
    gw.loss.sparse_softmax_cross_entropy(t, y @ g.variable("w2", (6, 3)), name="loss")
    return g


def origins(graph):
    """Return {name: name of the node whose gradient it is} of the derived layer, as sent."""
    spec = graph_spec(graph, gradients=True)
    origin = np.frombuffer(spec["origin"], "<i4").tolist()
    derived = np.frombuffer(spec["derived"], np.uint8).tolist()
    assert len(origin) == len(derived) == len(spec["names"])
    assert [bool(flag) for flag in derived] == [n.derived for n in graph.all_nodes]
    names = [*spec["names"], None]
    return {n: names[o] for n, o, d in zip(spec["names"], origin, derived, strict=True) if d}


def test_the_spec_names_the_node_of_every_gradient(graph):
    gw.gradients(graph["loss"], graph.trainable)
    found = origins(graph)
    assert found["grad/loss/loss/ones_like"] == "loss"
    assert found["grad/loss/hidden/matmul/matmul"] == "hidden/matmul"
    assert set(found.values()) == {
        "loss", "matmul", "tanh", "hidden/relu", "hidden/add", "hidden/matmul"
    }  # fmt: skip


def test_a_sum_of_gradients_belongs_to_the_node_whose_result_is_used_twice(graph):
    gw.gradients(graph["loss"], graph.trainable)
    (total,) = [n for n in graph.derived if n.op.name == "add" and n.origin.name == "hidden/relu"]
    assert {t.node.origin.name for t in total.inputs} == {"tanh", "matmul"}
    g = gw.Graph()
    w = g.variable("w", (3, 3))
    (dw,) = gw.gradients(gw.sum(w @ w), [w])
    assert dw.node.origin is w.node
    assert origins(g)[dw.name] == "w"


def test_without_gradients_nothing_has_an_origin(graph):
    gw.gradients(graph["loss"], graph.trainable)
    spec = graph_spec(graph)
    assert set(np.frombuffer(spec["origin"], "<i4")) == {-1}
    assert not any(np.frombuffer(spec["derived"], np.uint8))


def test_second_order_gradients_belong_to_gradients(graph):
    w = graph["hidden/w"]
    (dw,) = gw.gradients(graph["loss"], [w])
    gw.gradients(gw.sum(dw * dw, name="penalty"), [w])
    found = origins(graph)
    assert found["grad/penalty/grad/loss/tanh/mul/mul"] == "grad/loss/tanh/mul"
    assert found["grad/penalty/matmul/matmul"] == "matmul"


def test_updates_are_the_gradient_of_nothing(graph):
    trainer = gw.Trainer(graph, "loss", optimizer=gw.optim.Adam(0.01))
    data = {"x": np.ones((4, 8), "f4"), "t": np.zeros(4, "i8")}
    trainer.fit(data, epochs=1, batch_size=4)
    found = origins(graph)
    updates = [n for n in graph.derived if n.name.startswith("optimizer/")]
    assert any(n.origin is graph["hidden/w"].node for n in updates)
    assert all(differentiated(n) is None for n in updates)
    assert {name for name, of in found.items() if of is None} == {n.name for n in updates}


def test_switching_on_builds_the_gradient_of_the_loss(graph):
    view = GraphView(graph, loss="loss")
    forward = view.graph_spec["names"]
    assert not view.gradients and not graph.derived
    view.gradients = True
    assert view.message == ""
    assert view.graph_spec["names"] == [n.name for n in graph.all_nodes]
    assert {n.origin.name for n in graph.derived} >= {"loss", "hidden/matmul"}
    view.gradients = False
    assert view.graph_spec["names"] == forward
    before = list(graph.derived)
    view.gradients = True
    assert graph.derived == before


def test_the_page_switches_too_and_a_new_view_starts_switched_on(graph):
    view = GraphView(graph, loss=graph["loss"])
    view.set_state({"gradients": True})
    assert "grad/loss/matmul/matmul" in view.graph_spec["names"]
    bench = Workbench(graph, gw.Trainer(graph, "loss", optimizer=gw.optim.SGD(0.1)), gradients=True)
    assert len(bench.graph_spec["names"]) == len(graph.all_nodes)


def test_what_is_built_is_shown_without_a_loss(graph):
    gw.gradients(graph["loss"], [graph["w2"]])
    view = GraphView(graph, gradients=True)
    assert view.message == "" and "grad/loss/matmul/matmul" in view.graph_spec["names"]


def test_without_a_loss_the_message_says_what_to_do(graph):
    view = GraphView(graph, gradients=True)
    assert "has no gradients to draw, and no loss is known" in view.message
    assert "gw.gradients(loss, g.trainable)" in view.message
    gw.gradients(graph["loss"], graph.trainable)
    view.refresh()
    assert len(view.graph_spec["names"]) == len(graph.all_nodes)


def test_a_loss_without_parameters_says_so(graph):
    graph.freeze("*")
    view = GraphView(graph, loss="loss", gradients=True)
    assert "depends on no parameter that is trained" in view.message
    assert not graph.derived


def test_gradients_come_back_after_an_edit(graph):
    view = GraphView(graph, loss="loss", gradients=True)
    count = len(graph.derived)
    with graph.edit() as edit:
        edit.insert_after(graph["w2"], gw.tanh)
    assert not graph.derived
    view.refresh()
    assert len(graph.derived) > count
    assert len(view.graph_spec["names"]) == len(graph.all_nodes)


def test_results_and_archives_do_not_change(graph, tmp_path):
    feeds = {"x": np.ones((4, 8), "f4"), "t": np.zeros(4, "i8")}
    before = graph.output(feeds, "loss")["loss"]
    GraphView(graph, loss="loss", gradients=True)
    assert graph.output(feeds, "loss")["loss"] == before
    gw.save(graph, tmp_path / "net")
    assert not gw.load(tmp_path / "net").derived


def test_a_selected_scope_stays_selected_when_gradients_are_switched_on(graph):
    view = GraphView(graph, loss="loss", selected="hidden/", expanded=["hidden"])
    view.gradients = True
    assert (view.selected, view.expanded) == ("hidden/", ["hidden"])
    view.selected = "grad/loss/hidden/relu/"
    graph.placeholder("more", ())
    view.refresh()
    assert view.selected == "grad/loss/hidden/relu/"


def test_gradients_can_be_opened_and_selected(graph):
    view = GraphView(graph, loss="loss", gradients=True)
    view.expanded = ["hidden", "grad/loss/hidden/relu"]
    view.selected = "grad/loss/hidden/relu/"
    view.selected = "grad/loss/hidden/"
    assert view.message == ""
