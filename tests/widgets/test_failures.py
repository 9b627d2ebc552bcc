"""Errors of a graph as drawings: what is drawn, and that a kernel shows it below the traceback."""

from __future__ import annotations

import pickle
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import gradwright as gw
from gradwright_widgets.bridge.failure import MOST, Failure
from tests.support.panels import EVIL

SVG = "{http://www.w3.org/2000/svg}"


def network() -> tuple[gw.Graph, gw.Tensor]:
    graph = gw.Graph("net")
    x = graph.placeholder("x", ("B", 64))
    with graph.scope("hidden"):
        h = gw.nn.relu(x @ graph.variable("w", (64, 32)))
    return graph, h


def refused(action) -> Failure:
    """Return the drawing of what an action raises."""
    with pytest.raises(gw.errors.GradwrightError) as caught:
        action()
    failure = Failure.of(caught.value)
    assert failure is not None
    return failure


def texts(failure: Failure) -> list[str]:
    return [node.text or "" for node in ET.fromstring(failure.svg()).iter(f"{SVG}text")]


@pytest.mark.parametrize("name", [5, "\ud800", "a\0b", "\u202eevil", "a::b"])
def test_a_name_that_was_refused_is_not_what_the_drawing_calls_the_node(name):
    _, h = network()
    failure = refused(lambda: gw.tanh(h, name=name))
    assert "tanh" in texts(failure) or "a::b" in texts(failure)
    assert failure.facts()["node"].isprintable()


def test_a_node_that_was_refused_is_drawn_after_what_it_reads():
    graph, h = network()
    w = graph.variable("w2", (10, 32))
    failure = refused(lambda: h @ w)
    facts = failure.facts()
    assert (facts["kind"], facts["node"], facts["graph"]) == ("ShapeError", "matmul", "net")
    assert facts["place"]["code"][2][1].strip() == "failure = refused(lambda: h @ w)"
    assert facts["about"].startswith("Matrix product")
    shown = texts(failure)
    assert {"x", "w", "relu", "w2", "f32[B, 64]", "f32[B, 32]", "f32[10, 32]"} <= {*shown}
    assert "  need: a.shape[-1] == b.shape[-2], got 32 and 10" in shown
    dashed = [
        r for r in ET.fromstring(failure.svg()).iter(f"{SVG}rect") if "stroke-dasharray" in r.attrib
    ]
    lowest = max(
        float(r.get("y", 0))
        for r in ET.fromstring(failure.svg()).iter(f"{SVG}rect")
        if r.get("height") == "36"
    )
    assert [float(r.get("y", 0)) for r in dashed] == [lowest]
    assert len(graph.nodes) == 5, "the graph is as it was"


@pytest.mark.parametrize(
    ("feeds", "problem"),
    [({}, "is not fed"), ({"x": np.zeros((2, 3))}, "size 3"), ({"x": np.zeros(2)}, "rank 1"),
     ({"x": [["a"] * 64]}, "")],
)  # fmt: skip
def test_what_is_fed_wrong_is_drawn_at_its_placeholder(feeds, problem):
    graph, h = network()
    failure = refused(lambda: gw.Session(graph).run(h, feeds))
    assert failure.node is graph["x"].node and problem in failure.error.problem
    assert "matmul" in texts(failure), "and what reads it"


def test_shapes_that_a_run_tells_are_drawn_at_the_user_s_node():
    graph = gw.Graph("late")
    x, y = graph.placeholder("x", ("B", "T")), graph.placeholder("y", ("C", 4))
    z = gw.nn.softmax(x, name="p") @ y
    failure = refused(
        lambda: gw.Session(graph).run(z, {"x": np.ones((2, 3)), "y": np.ones((5, 4))})
    )
    assert failure.node is z.node


def test_calls_that_never_become_a_node_are_drawn_too():
    graph, h = network()
    taken = refused(lambda: gw.exp(h, name="x"))
    assert taken.node.name == "x" and len(graph.nodes) == 4
    other = gw.Graph("other").placeholder("z", (3,))
    mixed = refused(lambda: h + other)
    assert {"relu", "z", "add"} <= {*texts(mixed)}
    dtypes = refused(lambda: gw.math.sqrt(gw.cast(h, "bool")))
    assert dtypes.node.graph is graph


def test_a_body_s_error_is_drawn_in_the_body():
    graph = gw.Graph("loop")
    x = graph.placeholder("x", (3, 4))
    failure = refused(lambda: gw.while_loop(lambda i: (i < 3.0).all(), lambda i: i @ x, x))
    assert failure.graph.parent is graph and {"matmul", "f32[3, 4]"} <= {*texts(failure)}


def test_what_is_about_no_node_is_not_drawn():
    assert Failure.of(None) is None and Failure.of(ValueError("no")) is None
    with pytest.raises(gw.errors.GraphError) as caught:
        gw.Graph("a")["nothing"]
    assert Failure.of(caught.value) is None


def test_a_large_graph_is_drawn_around_the_node():
    graph = gw.Graph("deep")
    h = graph.placeholder("x", (4,))
    for _ in range(1000):
        h = h + 1.0
    failure = refused(lambda: h + graph.variable("w", (5,)))
    boxes = [r for r in ET.fromstring(failure.svg()).iter(f"{SVG}rect") if r.get("height") == "36"]
    assert len({r.get("x", "") + r.get("y", "") for r in boxes}) <= MOST


def test_names_are_text():
    graph = gw.Graph(EVIL)
    x = graph.placeholder(EVIL, (2,))
    svg = refused(lambda: x + graph.variable("w", (3,))).svg()
    ET.fromstring(svg)
    assert "<img" not in svg


def test_an_error_travels_without_its_graph():
    graph, h = network()
    error = refused(lambda: h @ graph.variable("w2", (10, 32))).error
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert copy.node is None and str(copy) == str(error)


CELLS = [
    "import gradwright as gw",
    "g = gw.Graph('net')\nx = g.placeholder('x', (None, 3))\nw = g.variable('w', (4, 2))\nx @ w",
    "1 / 0",
    "x * 2.0",
]


def test_a_kernel_draws_it_below_the_traceback(tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    announced = tmp_path / "announced-0.dist-info"  # as the wheel announces it
    announced.mkdir()
    (announced / "METADATA").write_text("Metadata-Version: 2.1\nName: announced\nVersion: 0\n")
    entry = "[gradwright.notebooks]\nwidgets = gradwright_widgets.bridge.hook:failed\n"
    (announced / "entry_points.txt").write_text(entry)
    here = [str(tmp_path), *map(str, filter(None, sys.path))]
    monkeypatch.setenv("PYTHONPATH", ":".join(here))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS])
    nbclient.NotebookClient(book, kernel_name="python3", allow_errors=True, timeout=120).execute()
    first, failed, other, last = (cell["outputs"] for cell in book["cells"])
    assert not first
    assert [output["output_type"] for output in failed] == ["error", "display_data"]
    assert "matmul" in "".join(failed[0]["traceback"]), "it is there as it always was"
    assert set(failed[1]["data"]) == {"image/svg+xml", "text/plain"}
    assert "cell 2, line 4" in failed[1]["data"]["image/svg+xml"]
    assert [output["output_type"] for output in other] == ["error"]
    assert [output["output_type"] for output in last] == ["execute_result"]
