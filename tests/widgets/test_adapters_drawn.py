"""Adapters in the drawing: a scope of their own beside the weight, with a switch."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.models import Decoder, DecoderConfig
from gradwright_widgets import GraphView
from gradwright_widgets.drawing.grouping import Groups, groups_of, scope_paths
from gradwright_widgets.drawing.spec import graph_spec


def adapted() -> tuple[gw.Graph, gw.adapters.Adapted]:
    g = gw.Graph("net")
    x = g.placeholder("x", ("B", 3))
    with g.scope("hidden"):
        y = gw.nn.relu(x @ g.variable("w", (3, 4), init=gw.init.normal(seed=0)))
    gw.mean(y, name="loss")
    return g, gw.adapters.add(g, gw.adapters.LoRA(r=2, init=False), where="hidden/w")


def test_the_drawing_is_told_which_scopes_are_adapters():
    g, one = adapted()
    assert graph_spec(g)["adapters"] == [
        {"name": "default", "method": "LoRA", "on": True, "scopes": ["hidden/w/default", "default"]}
    ]
    assert "hidden/w/default" in scope_paths(g)
    one.remove()
    assert graph_spec(g)["adapters"] == []


@pytest.mark.parametrize("layers", [1, 5])
def test_the_scopes_of_adapters_are_drawn_in_folded_layers_too(layers):
    config = DecoderConfig(vocabulary=16, width=8, layers=layers, heads=2, context=32)
    model = Decoder(config)
    gw.adapters.add(model, gw.adapters.LoRA(r=2), where="q|v")
    ((*places, last),) = (a["scopes"] for a in graph_spec(model.graph)["adapters"])
    assert len({*places, last}) == 2 * layers
    assert {*places, last} <= scope_paths(model.graph)
    groups = groups_of(model.graph)
    top = [groups.title(k) for k, around in enumerate(groups.parent) if around < 0]
    assert layers == 1 or f"layer0 … layer{layers - 1}" in top
    for node in model.graph.nodes:
        if "/default/" in node.name and node.kind == "array":
            assert any(is_within(groups, node, path) for path in (*places, last))


def is_within(groups: Groups, node: gw.Node, path: str) -> bool:
    group = groups.of(node)
    while group >= 0 and groups.names[group] != path:
        group = groups.parent[group]
    return group >= 0


def test_a_click_switches_an_adapter_and_can_be_taken_back():
    g, one = adapted()
    view = GraphView(g)
    x = {"x": np.ones((2, 3), "f")}
    on = g.output(x, "loss")["loss"]
    view._receive(view, {"kind": "graph.adapter", "id": 1, "name": "default", "on": False}, [])
    assert not one.is_enabled and view.graph_spec["adapters"][0]["on"] is False
    assert g.output(x, "loss")["loss"] != on
    assert [edit["text"] for edit in view.edits] == ["adapter default on → off"]
    view.undo_edits()
    assert one.is_enabled and view.graph_spec["adapters"][0]["on"] is True
    assert g.output(x, "loss")["loss"] == on
    view._receive(view, {"kind": "graph.adapter", "id": 2, "name": "other", "on": True}, [])
    assert "no adapter 'other'" in view.message


def test_a_training_is_not_disturbed():
    g, one = adapted()
    trainer = gw.Trainer(g, "loss", optimizer=gw.optim.SGD(0.1))
    view = GraphView(g, trainer)

    class Click(gw.Callback):
        def on_step_end(self, trainer, record):
            view._receive(view, {"kind": "graph.adapter", "name": "default", "on": False}, [])

    trainer.add_callback(Click())
    trainer.fit([{"x": np.ones((2, 3), "f")}] * 3, progress=False)
    assert one.is_enabled and trainer.progress.outcome == "finished"
    assert "is being trained" in view.message
