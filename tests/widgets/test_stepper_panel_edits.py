"""The stepper's panel: edits, what is typed, summaries of arrays."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError
from gradwright_widgets.drawing.values import ranges, thumbnail
from gradwright_widgets.host.typed import parse_index, parse_number, parse_value
from tests.widgets import stepper_panels
from tests.widgets.stepper_panels import press, tell

graph = pytest.fixture(stepper_panels.graph)
feeds = pytest.fixture(stepper_panels.feeds)
panel = pytest.fixture(stepper_panels.panel)


def test_edit_and_rerun_compare_before_and_after(panel, graph, feeds):
    panel.run()
    old = panel.stepper.value("hidden/relu")
    loss = float(panel.stepper.value("loss"))
    tell(panel, "stepper.edit", name="hidden/relu", how="element", index="0, 1:3", value="[2, 3]")
    assert panel.message == "" and panel.stepping["pending"] > 3
    assert panel.stepper.value("hidden/relu")[0, 1:3].tolist() == [2.0, 3.0]
    press(panel, "rerun")
    new = np.array(old)
    new[0, 1:3] = 2.0, 3.0
    expected = gw.Session(graph).run(["loss", "matmul"], {**feeds, graph["hidden/relu"]: new})
    assert float(panel.stepper.value("loss")) == pytest.approx(float(expected[0]), 1e-5)
    names = [n.name for n in panel.stepper.nodes()]
    before = {names[row[0]]: row for row in panel.reruns["before"]}
    assert before["hidden/relu"][2] == pytest.approx(old.max(), 1e-5)
    assert before["loss"][1] == pytest.approx(loss, 1e-5)
    assert "hidden/matmul" not in before and "grad/loss/loss/ones_like" not in before
    text = panel.reruns["text"]
    assert re.match(rf"\d+ nodes ran again · loss {loss:.6g} → ", text)
    assert panel.reruns["level"] == panel.stepping["level"] and panel.stepping["pending"] == 0
    assert graph.values["hidden/b"].sum() == 0


def test_ways_to_edit(panel):
    panel.run_to("hidden/relu")
    held = panel.stepper.value("hidden/matmul")
    panel.edit("hidden/matmul", scale=2.0)
    assert np.array_equal(panel.stepper.value("hidden/matmul"), held * 2)
    panel.edit("hidden/w", 0.25)
    assert np.unique(panel.stepper.value("hidden/w")).tolist() == [0.25]
    panel.edit("hidden/b", [1, 2, 3, 4, 5, 6])
    panel.edit("x", np.nan, index=(0, 0))
    assert np.isnan(panel.stepper.value("x")).sum() == 1
    assert panel.rerun() == 2  # the product again, though its edited value stays, and the sum
    assert np.array_equal(panel.stepper.value("hidden/matmul"), held * 2)
    for facts, message in (
        ({"how": "element", "index": "9, 9", "value": "1"}, "cannot change"),
        ({"how": "element", "index": "a", "value": "1"}, "cannot read the index"),
        ({"how": "literal", "value": "__import__('os')"}, "cannot read"),
        ({"how": "literal", "value": "[1, 2"}, "cannot read"),
        ({"how": "literal", "value": "[1, 2]"}, "another shape"),
        ({"how": "literal", "value": "['a', 'b']"}, "hidden/b"),
        ({"how": "scale", "value": "[2]"}, "not a number"),
    ):
        tell(panel, "stepper.edit", name="hidden/b", **facts)
        assert message in panel.message, facts
        assert panel.stepper.value("hidden/b").tolist() == [1, 2, 3, 4, 5, 6]
    tell(
        panel,
        "stepper.edit",
        name="hidden/b",
        how="literal",
        value="array([0., 0, 0, 0, -inf, nan])",
    )
    assert panel.message == "" and np.isinf(panel.stepper.value("hidden/b")[4])


def test_an_edit_inside_a_composite(panel):
    panel.run_to("ln")
    panel.into()
    panel.step()
    first = panel.stepper.nodes()[0].name
    fact = next(t for t in panel.stepping["focus"]["tensors"] if t["name"] == first)
    assert fact["path"] == f"ln::{first}" and not fact["fixed"]
    tell(panel, "stepper.edit", name=fact["path"], how="fill", value="0.5")
    assert panel.message == "" and panel.stepper.depth == 1
    panel.out()
    assert panel.stepper.depth == 0 and panel.stepper.current.name == "matmul"


def test_what_is_typed_is_read_and_never_run():
    assert parse_value("-1e-3") == -0.001
    assert parse_value(" [[1, nan], [True, 2]] ")[0][0] == 1
    assert parse_value("np.array([1, 2], dtype='float32')") == [1, 2]
    for text in (
        "open('x')",
        "[x for x in (1,)]",
        "1 if 2 else 3",
        "(" * 500,
        "",
        "a.b",
        "9" * 200_000,
    ):
        with pytest.raises(GraphError, match="cannot read"):
            parse_value(text)
    assert parse_index("[..., -1]") == (..., -1) and parse_index("") == ()
    assert np.arange(9)[parse_index("::3")].tolist() == [0, 3, 6]
    for text in ("x", "1.5", "0,,1", "1:2:3:4"):
        with pytest.raises(GraphError):
            np.arange(9)[parse_index(text)] if text != "0,,1" else parse_index("0,x,1")
    with pytest.raises(GraphError):
        parse_number(True)


def test_summaries_of_awkward_arrays():
    assert ranges(np.zeros((0, 3))) == [None, None, 0, 0]
    assert ranges(np.array([np.nan, np.inf], "f4")) == [None, None, 1, 1]
    assert ranges(np.array([True, False])) == [0.0, 1.0, 0, 0]
    assert ranges(np.array([3 + 4j])) == [5.0, 5.0, 0, 0]
    assert ranges(np.array([2**63], np.uint64)) == [2**63, 2**63, 0, 0]
    data, height, width = thumbnail(np.array([[-2.0, 0.0, 1.0], [np.nan, 2.0, np.inf]]))
    assert (list(data), height, width) == ([0, 127, 190, 255, 254, 255], 2, 3)
    assert thumbnail(np.zeros((100, 0)))[0] == b"" and thumbnail(np.zeros(()))[1:] == (1, 1)
    assert thumbnail(np.zeros((3, 1000, 1000)))[1:] == (24, 32)
