"""The tensor view: what is shown, what is sent, views that last."""

from __future__ import annotations

import json
import math
from xml.etree import ElementTree

import numpy as np
import pytest

import gradwright as gw
import gradwright_widgets as gww
from gradwright.errors import GraphError
from gradwright_widgets.host.host import Host
from gradwright_widgets.panels.tensor.panel import TensorPanel, TensorView
from gradwright_widgets.panels.tensor.slicing import SliceError
from tests.support.panels import EVIL, sent
from tests.widgets.tensor_views import ask, looked_at, picture, tensor_message

# -- what is shown ---------------------------------------------------------------------------------


@pytest.fixture
def graph():
    g = gw.Graph("net")
    x = g.placeholder("x", ("B", 8))
    with g.scope("hidden"):
        h = gw.nn.relu(x @ g.variable("w", (8, 6), init=gw.init.he_normal(seed=0)))
    a, b = gw.split(h, 2, axis=1, name="parts")
    gw.mean((a - b) ** 2, name="loss")
    return g


def test_it_follows_the_selection(graph):
    panel = TensorPanelOnly(graph)
    assert "Select a node" in tensor_message(panel)[0]["note"]
    panel.selected = "hidden/w"
    content, _ = message = tensor_message(panel)
    assert content["name"] == "hidden/w"
    np.testing.assert_array_equal(picture(message)[0, 0], graph.values["hidden/w"])
    panel.selected = "hidden/"  # a scope has no value; the last one stays
    assert panel.tensor == "hidden/w"
    panel.selected = "loss"
    assert "run the stepper" in tensor_message(panel)[0]["note"]
    panel.tensor_follows = False
    panel.show_tensor("hidden/w", "[0, ::2]")
    panel.selected = "parts"
    assert panel.tensor == "hidden/w"
    assert tensor_message(panel)[0]["code"] == "g.values['hidden/w'][0, ::2]"
    panel.tensor_follows = True
    assert panel.tensor == "parts"
    assert tensor_message(panel)[0]["outputs"] == ["parts", "parts:1"]


def test_a_shown_array_gives_way_to_the_next_selection(graph):
    panel = TensorPanelOnly(graph)
    panel.selected = "loss"
    panel.show_tensor(np.eye(3), name="hidden/w")  # called like a tensor, but is none
    assert panel.tensor == "hidden/w" and tensor_message(panel)[0]["shape"] == [3, 3]
    panel.selected = "hidden/w"
    assert tensor_message(panel)[0]["shape"] == list(graph["hidden/w"].shape)
    panel.show_tensor("parts:1")
    panel.selected = "parts"  # as the stepper selects the node of a tensor it shows
    assert panel.tensor == "parts:1"


def test_values_come_from_the_stepper(graph):
    stepper = gw.Stepper(graph, fetches=["loss"], feeds={"x": np.ones((2, 8), "f4")})
    stepper.run()
    panel = TensorPanelOnly(graph, stepper=stepper)
    panel.selected = "hidden/relu"
    content, _ = message = tensor_message(panel)
    assert (content["origin"], content["code"]) == ("stepper", "stepper.value('hidden/relu')")
    np.testing.assert_array_equal(picture(message)[0, 0], stepper.value("hidden/relu"))


def test_a_step_that_changes_nothing_sends_nothing(graph, monkeypatch):
    feeds = {"x": np.ones((2, 8), "f4")}
    bench = gww.Workbench(graph, loss="loss", feeds=feeds)
    bench.show_tensor("hidden/relu")
    messages = looked_at(bench, monkeypatch)
    bench.stepper.run_to("hidden/relu")
    bench.stepper.step()
    pictures = [content for content, _ in messages if content["kind"] == "tensor.picture"]
    assert pictures[-1]["origin"] == "stepper"
    bench.stepper.step()
    assert [content for content, _ in messages if content["kind"] == "tensor.picture"] == pictures
    bench.stepper.edit("hidden/relu", np.full((2, 6), 7.0, "f4"))
    bench.stepper.rerun()
    assert messages[-1][0]["low"] == 7


def test_a_slice_that_does_not_fit_is_refused_and_nothing_changes(graph, monkeypatch):
    view = TensorView(graph["hidden/w"], "[0]")
    messages = looked_at(view, monkeypatch)
    with pytest.raises(GraphError, match="outside of axis 0"):
        view.tensor_index = "[99]"
    ask(view, "tensor.index", text="[1, 99]")
    problem = messages[-1][0]
    assert (problem["kind"], problem["at"], problem["length"]) == ("tensor.problem", 4, 2)
    assert view.tensor_index == "[0, :]"
    ask(view, "tensor.index", text="[:2, ::3]")
    assert [m[0]["kind"] for m in messages[-2:]] == ["tensor.picture", "tensor.fits"]
    assert messages[-2][0]["slice"] == [2, 2]
    with pytest.raises(GraphError, match="no tensor 'nope'"):
        view.show_tensor("nope")
    assert view.tensor == "hidden/w"
    with pytest.raises(SliceError):
        view.show_tensor(np.zeros(3), "[0, 0]")
    assert view.tensor == "hidden/w"


def test_the_cursor_brings_its_slice_with_it():
    view = TensorView(np.zeros((4, 5, 6, 7)), "[0, ::2, 1, :]")
    view.point_at(3, 4, 2, 6)
    assert (view.tensor_index, view.tensor_cursor) == ("[3, ::2, 2, :]", [3, 4, 2, 6])
    view.point_at(3, 3, 2, 0)
    assert view.tensor_index == "[3, :, 2, :]"
    with pytest.raises(GraphError, match="no element"):
        view.point_at(4, 0, 0, 0)


def test_a_jump_from_the_page_finds_the_nan(monkeypatch):
    array = np.zeros((3, 4, 5))
    array[2, 1, 3] = math.nan
    view = TensorView(array)
    sent(view, monkeypatch)
    ask(view, "tensor.jump", at=tensor_message(view)[0]["bad"][0]["at"])
    assert (view.tensor_index, view.tensor_cursor) == ("[2, :, :]", [2, 1, 3])
    ask(view, "tensor.jump", at=[9])
    assert "no element [9]" in view.message


def test_pictures_of_a_training_are_sent_only_while_somebody_looks(graph, monkeypatch):
    trainer = gw.Trainer(graph, "loss", optimizer=gw.optim.SGD(0.1))
    view = TensorView(graph["hidden/w"], trainer=trainer)
    messages = sent(view, monkeypatch)
    data = {"x": np.random.default_rng(0).standard_normal((64, 8)).astype("f4")}
    trainer.fit(data, epochs=2, batch_size=8, progress=False)
    assert messages == []
    ask(view, "tensor.look", view="v", shown=True, fresh=True)
    np.testing.assert_array_equal(picture(messages[-1])[0, 0], graph.values["hidden/w"])
    messages.clear()
    steps = 40
    trainer.fit(data, epochs=5, batch_size=8, progress=False)
    pictures = [content for content, _ in messages if content["kind"] == "tensor.picture"]
    assert 2 <= len(pictures) < steps
    np.testing.assert_array_equal(picture(messages[-1])[0, 0], graph.values["hidden/w"])
    ask(view, "tensor.look", view="v", shown=False)
    messages.clear()
    trainer.fit(data, epochs=1, batch_size=8, progress=False)
    assert messages == []


def test_an_array_changed_in_place_is_read_anew(monkeypatch):
    array = np.zeros((3, 3))
    view = TensorView(array)
    messages = looked_at(view, monkeypatch)
    array[1, 1] = 5
    view.refresh_tensor()
    content, _ = messages[-1]
    assert (content["high"], content["slice"]) == (5, [3, 3])


def test_one_binary_buffer_and_little_else():
    content, buffers = tensor_message(TensorView(np.zeros((2000, 2000), "f4")))
    assert [b.nbytes for b in buffers] == [3 * 256 * 256 * 4]
    assert len(json.dumps(content)) < 3000


# -- views that last -------------------------------------------------------------------------------


def test_a_saved_page_holds_every_value_below_a_megabyte():
    small = TensorView(np.random.default_rng(0).standard_normal((300, 300)))
    assert tensor_message(small)[0]["part"]["fields"] != ["value"]
    (message,) = small.new_view_messages()
    np.testing.assert_array_equal(picture(message)[0, 0], small.tensor_value())
    deep = np.arange(24, dtype="f4").reshape(2, 3, 4)
    content, buffers = TensorView(deep, "[1]").new_view_messages()[0]
    assert content["whole"] == "f4"
    assert buffers[1].tobytes() == deep.tobytes()
    large = TensorView(np.zeros((500, 500)))
    assert large.new_view_messages()[0][0]["part"]["fields"] == ["min", "max", "mean"]


@pytest.mark.parametrize("index", ["", "[0, 0]", "[0, 0, 0]", "[...]"])
def test_stills_are_xml_and_tables(index):
    array = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("f4")
    array[0, 0, 0] = math.nan
    view = TensorView(array, index, name=EVIL)
    ElementTree.fromstring(view.to_svg())
    for text in (view.to_svg(), view.to_table(), view.to_html()):
        assert "<img src=x" not in text
    assert "<td>1</td>" in view.to_table()  # one NaN


def test_nothing_to_show_has_no_still(graph):
    panel = TensorPanelOnly(graph)
    assert (panel.to_svg(), panel.to_table()) == ("", "")


class TensorPanelOnly(Host):
    """The panel as a workbench has it, with a stepper's values."""

    module = "tensor_view"
    panels = (TensorPanel,)

    def __init__(self, graph, trainer=None, *, stepper=None, **options):
        super().__init__(graph, trainer, **options)
        self.desk.on("value", lambda name: None if stepper is None else stepper.value(name))
