"""The property sheet, colours that are measured, bookmarks and code, as the kernel has them."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradwrightError, GraphError
from gradwright.op import Op
from gradwright_widgets import GraphView, Workbench
from gradwright_widgets.drawing.facts import node_facts
from tests.support.panels import sent, wait_for
from tests.widgets import benches
from tests.widgets.benches import data, network

bench = pytest.fixture(benches.bench)


def column(view):
    names = view.graph_spec["names"]
    values = np.frombuffer(view.measured["values"], "<f8")
    return dict(zip(names, values.tolist(), strict=True))


def example(n=4):
    return {k: v[:n] for k, v in data().items()}


# -- facts and values ------------------------------------------------------------------------------


def test_facts_say_what_is_known_of_nodes_without_a_kernel():
    g = network()
    facts = node_facts(g, {"B": 4})
    names = [n.name for n in g.nodes]
    flops = dict(zip(names, np.frombuffer(facts["flops"]), strict=True))
    assert flops["hidden/matmul"] == 2 * 4 * 4 * 3 and flops["hidden/relu"] == 12
    nbytes = dict(zip(names, np.frombuffer(facts["bytes"]), strict=True))
    assert (nbytes["x"], nbytes["t"], nbytes["loss"]) == (4 * 4 * 4, 4 * 8, 4)
    place = np.frombuffer(facts["place"], "<i4")
    assert {facts["places"][k].partition(":")[0] for k in place if k >= 0} == {"benches.py"}
    assert facts["ops"]["layer_norm"]["attributes"]["eps"]
    assert "Σ" in facts["ops"]["matmul"]["formula"]


def test_counts_of_sizes_that_lie_are_bounded():
    graph = gw.Graph()
    gw.exp(graph.placeholder("x", (2**62,) * 20))
    facts = node_facts(graph)
    for name in ("flops", "bytes"):
        assert np.frombuffer(facts[name])[-1] == np.finfo(float).max


class Uncounted(Op):
    """An op of somebody's own, whose count fails."""

    name = "uncounted"

    def infer(self, x):
        return x

    def forward(self, x):
        return x

    def flops(self, ins, outs):
        raise RuntimeError("no idea")


def test_an_op_whose_count_fails_is_unknown_alone():
    g = gw.Graph()
    y = gw.exp(g.placeholder("x", (3,)))
    gw.exp(Uncounted()(y))
    facts = node_facts(g)
    assert np.frombuffer(facts["flops"]).tolist() == pytest.approx([0, 3, np.nan, 3], nan_ok=True)
    assert list(facts["uncounted"]) == ["2"] and "no idea" in facts["uncounted"]["2"]
    view = GraphView(g, inspector=True)
    (content, _), *_ = view.new_view_messages(whole=True)
    assert content["uncounted"] == facts["uncounted"]


def test_the_sheet_shows_what_is_stored_and_where_the_stepper_stands(bench, monkeypatch):
    messages = sent(bench, monkeypatch)
    bench.inspector = True
    bench.selected = "hidden/w"
    bench._receive(bench, {"kind": "inspector.look"}, [])
    content, buffers = [m for m in messages if m[0]["kind"] == "inspector.values"][-1]
    (tensor,) = content["tensors"]
    w = bench.graph.values["hidden/w"]
    assert (content["name"], tensor["source"], tensor["thumb"]) == ("hidden/w", "stored", [4, 3])
    assert tensor["std"] == pytest.approx(float(w.std()), rel=1e-4) and len(buffers[0]) == 12
    bench.selected = "hidden/relu"
    bench._receive(bench, {"kind": "inspector.look"}, [])
    assert [m for m in messages if m[0]["kind"] == "inspector.values"][-1][0]["tensors"] == []
    bench.stepper.run_to("loss")
    bench._receive(bench, {"kind": "inspector.look"}, [])
    content, _ = [m for m in messages if m[0]["kind"] == "inspector.values"][-1]
    (tensor,) = content["tensors"]
    relu = bench.stepper.value("hidden/relu")
    assert tensor["source"] == "stepper" and tensor["high"] == pytest.approx(float(relu.max()))
    assert tensor["zeros"] == pytest.approx(100.0 * float((relu == 0).mean()), rel=1e-5)


def test_the_sheet_has_the_gradient_of_a_sampled_training(monkeypatch):
    g = network()
    watch = gw.ParameterStatistics(every=1)
    trainer = gw.Trainer(g, "loss", optimizer=gw.optim.SGD(0.05), callbacks=[watch])
    view = GraphView(g, trainer, inspector=True, selected="hidden/w")
    trainer.fit(data(), batch_size=8, progress=False)
    messages = sent(view, monkeypatch)
    view._receive(view, {"kind": "inspector.look"}, [])
    told = {m[0]["name"]: m[0]["gradient"] for m in messages if m[0]["kind"] == "inspector.values"}
    assert told == {"hidden/w": watch.last()["hidden/w"]["gradient_norm"]}
    view.selected = "x"
    view._receive(view, {"kind": "inspector.look"}, [])
    assert messages[-1][0]["gradient"] is None


def test_a_saved_page_has_the_facts():
    view = GraphView(network(), loss="loss", feeds=example())
    page = view.to_html()
    assert '"inspector.facts"' in page and "gw.nn.layer_norm" in page.replace("find_op", "gw.nn.")


def test_a_sheet_that_is_closed_costs_nothing(bench, monkeypatch):
    messages = sent(bench, monkeypatch)
    bench.selected = "hidden/w"
    assert not [m for m in messages if m[0]["kind"].startswith("inspector")]


# -- colours ---------------------------------------------------------------------------------------


def test_gradient_norms_are_those_of_the_loss():
    g = network()
    view = GraphView(g, loss="loss", feeds=example())
    view.measure("gradient", wait=True)
    (dw,) = gw.gradients(g["loss"], [g["hidden/w"]])
    expected = np.linalg.norm(g.output(example(), dw)[dw.name])
    shown = column(view)
    assert shown["hidden/w"] == pytest.approx(float(expected), rel=1e-3)
    assert np.isnan(shown["t"]) and view.measured["join"] == "max"


def test_shares_of_values_are_counted():
    g = gw.Graph()
    x = g.placeholder("x", (4,))
    y = gw.nn.relu(x, name="relu")
    z = gw.nn.sigmoid(x * 100.0, name="gate")
    gw.log(x, name="log")
    feeds = {"x": np.array([-1.0, 0.0, 0.001, 2.0], "f4")}
    view = GraphView(g, feeds=feeds)
    view.measure("zero", wait=True)
    assert column(view)["relu"] == 50.0 and column(view)["x"] == 25.0
    view.measure("nan", wait=True)
    assert column(view)["log"] == 50.0 and column(view)["relu"] == 0.0
    view.measure("saturated", wait=True)
    shown = column(view)
    assert shown[z.name] == 50.0 and np.isnan(shown[y.name])
    assert view.measured["unit"] == "%"


def test_time_and_what_runs_nodes_are_those_of_the_plan(bench):
    bench.color_by = "time"
    wait_for(lambda: "values" in bench.measured or "problem" in bench.measured)
    shown = column(bench)
    assert bench.measured["unit"] == "µs" and shown["hidden/matmul"] > 0 and np.isnan(shown["x"])
    bench.measure("device", wait=True)
    kinds = bench.measured["kinds"]
    how = {"kernel", "product", "copy", "machine code", "numpy"}
    assert kinds and {kind.removeprefix("cpu: ") for kind in kinds} <= how
    assert kinds[int(column(bench)["hidden/matmul"])] in kinds and bench.measured["join"] == "kind"


def test_what_cannot_be_measured_says_why():
    view = GraphView(network())
    with pytest.raises(GraphError, match="no loss"):
        view.measure("gradient", wait=True)
    assert "no loss" in view.measured["problem"]
    with pytest.raises(GraphError, match="nothing to run on"):
        view.measure("zero", wait=True)
    with pytest.raises(GraphError, match="is not measured"):
        view.measure("flops")


def test_measurements_fit_the_nodes_that_are_drawn():
    g = network()
    view = GraphView(g, loss="loss", feeds=example())
    view.measure("zero", wait=True)
    view.gradients = True
    wait_for(lambda: len(view.graph_spec["names"]) > len(g.nodes) - 1)
    wait_for(lambda: len(view.measured.get("values", b"")) == 8 * len(view.graph_spec["names"]))
    assert column(view)["hidden/relu"] >= 0.0


# -- code and bookmarks ----------------------------------------------------------------------------


def test_what_is_selected_is_copied_as_code(bench, monkeypatch):
    messages = sent(bench, monkeypatch)
    bench._receive(bench, {"kind": "inspector.code", "name": "hidden/", "id": 3}, [])
    (content,) = [m[0] for m in messages if m[0]["kind"] == "inspector.code"]
    names: dict[str, object] = {}
    exec(content["code"], names)
    made = names["g"]
    assert [n.op.name for n in made.nodes] == ["variable", "placeholder", "matmul", "relu"]
    bench.selected = "loss"
    assert "sparse_softmax_cross_entropy" in bench.to_code()
    with pytest.raises(GraphError, match="nothing is called"):
        bench.to_code("nothing")


def test_a_card_is_copied_with_all_its_nodes():
    g = gw.Graph("deep")
    x = g.placeholder("x", ("B", 8))
    for k in range(30):
        x = gw.nn.relu(gw.nn.linear(x, g.variable(f"w{k}", (8, 8))))
    view = GraphView(g)
    groups = view.graph_spec["groups"]
    name = groups["names"][1] + "/"
    names: dict[str, object] = {}
    exec(view.to_code(name), names)
    assert {"linear", "relu"} <= {n.op.name for n in names["g"].nodes}
    assert len(names["g"].nodes) < len(g.nodes)


def test_bookmarks_are_checked_and_kept(bench):
    bench.selected = "hidden/w"
    bench.bookmark("weights")
    bench.bookmark("weights")
    assert [v["name"] for v in bench.views] == ["weights"]
    several, one = [{"name": str(k)} for k in range(99)], {"name": "a", "place": ["1", 2, 3]}
    for wrong in ([{}], [{"name": ""}], [{"name": "a", "place": [1, 2]}], [one], several):
        with pytest.raises(GradwrightError):
            bench.views = wrong
    assert [v["name"] for v in bench.views] == ["weights"]
    assert '"weights"' in bench.to_html()


def test_a_workbench_takes_over_what_a_drawing_measures():
    assert {p.name for p in GraphView.panels} <= {p.name for p in Workbench.panels}
