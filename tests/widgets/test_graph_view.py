"""The drawing without a browser: overlays, paths, the language of Graphviz, still pictures."""

from __future__ import annotations

import re
import shutil
import subprocess
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

import gradwright as gw
from gradwright_widgets import GraphView, Workbench
from gradwright_widgets.still.tables import MOST_BOXES
from tests.support.panels import EVIL

AWKWARD = ["node", "ünïcödé", "tail\\", 'quo"te', "<b>", "{x|y}", EVIL]


@pytest.fixture
def graph():
    g = gw.Graph("digits")
    x = g.placeholder("x", ("B", 8))
    with g.scope("hidden"):
        w = g.variable("w", (8, 6), init=gw.init.he_normal(seed=0))
        with g.scope("inner"):
            h = gw.nn.relu(x @ w)
    logits = gw.matmul(h, g.variable("w2", (6, 3)), name="logits")
    gw.sum(logits * logits, name="loss")
    return g


def values(view):
    names = view.graph_spec["names"]
    return dict(zip(names, np.frombuffer(view.overlay["values"], "<f8").tolist(), strict=True))


# -- overlays ----------------------------------------------------------------------------------


def test_an_overlay_travels_as_one_number_per_node(graph):
    view = GraphView(graph)
    view.set_overlay("norm", {"hidden/w": 2, graph["w2"]: np.float32(0.5)}, scale="log", unit="µ")
    found = values(view)
    assert {name: v for name, v in found.items() if not np.isnan(v)} == {"hidden/w": 2, "w2": 0.5}
    assert {k: v for k, v in view.overlay.items() if k != "values"} == {
        "title": "norm",
        "unit": "µ",
        "scale": "log",
        "inside": {},
    }
    assert view.color_by == "overlay"
    view.clear_overlay()
    assert (view.overlay, view.color_by) == ({}, "category")


def test_an_overlay_follows_the_graph(graph):
    view = GraphView(graph)
    view.set_overlay("norm", {"loss": 3.0})
    gw.exp(graph["logits"], name="p")
    view.refresh()
    assert len(values(view)) == len(graph.nodes)
    assert values(view)["loss"] == 3.0
    assert np.isnan(values(view)["p"])


def test_an_overlay_may_name_gradients_that_are_not_drawn(graph):
    (dw,) = gw.gradients(graph["loss"], [graph["w2"]])
    view = GraphView(graph)
    view.set_overlay("norm", {dw: 1.0, "w2": 2.0})
    assert [v for v in values(view).values() if not np.isnan(v)] == [2.0]


def test_an_overlay_that_makes_no_sense_changes_nothing(graph):
    view = GraphView(graph)
    view.set_overlay("first", {"w2": 1.0})
    before = view.overlay
    with pytest.raises(gw.errors.GraphError, match="no node 'w3' to colour"):
        view.set_overlay("second", {"w3": 1.0})
    with pytest.raises(gw.errors.GraphError, match=r"'cubic'[\s\S]*linear, log, diverging"):
        view.set_overlay("second", {"w2": 1.0}, scale="cubic")
    with pytest.raises((TypeError, ValueError)):
        view.set_overlay("second", {"w2": "high"})
    assert view.overlay == before
    assert values(view)["w2"] == 1.0


def test_a_saved_page_keeps_overlay_and_paths(graph, tmp_path):
    view = Workbench(graph, selected="loss", path_to="hidden/w", color_by="parameters")
    view.set_overlay("norm", {"w2": 1.0})
    page = view.to_html(tmp_path / "page.html")
    assert '"path_to": "hidden/w"' in page
    assert re.search(
        r'"overlay": {"title": "norm", "unit": "", "scale": "linear", "values": {"\$b', page
    )


# -- paths -------------------------------------------------------------------------------------


def test_the_ends_of_a_path_are_checked(graph):
    view = GraphView(graph, selected="loss")
    for end in ("hidden/w", "hidden/", ""):
        view.path_to = end
    with pytest.raises(gw.errors.GraphError, match="nothing is called 'nowhere'"):
        view.path_to = "nowhere"
    with pytest.raises(Exception, match="paths"):
        view.paths = "sideways"
    with pytest.raises(Exception, match="color_by"):
        view.color_by = "mood"


# -- DOT ---------------------------------------------------------------------------------------


def awkward_graph():
    g = gw.Graph("graph")  # a word of the language
    x = g.placeholder("x", (2,))
    for name in AWKWARD:
        with g.scope("{sub graph}"):
            x = gw.exp(x, name=name)
    return g


def test_dot_has_every_node_edge_and_scope(graph):
    source = GraphView(graph).to_dot()
    assert source.count("->") == sum(len(n.inputs) for n in graph.nodes)
    assert len(re.findall(r"^ *n\d+ \[", source, re.M)) == len(graph.nodes)
    assert source.count("subgraph") == 2
    inner = source[source.index("label=inner") :]
    assert "label=relu" in inner[: inner.index("}")]
    assert Workbench(graph).to_dot() == source


def test_dot_draws_gradients_when_they_are_drawn(graph):
    gw.gradients(graph["loss"], [graph["w2"]])
    plain, whole = GraphView(graph).to_dot(), GraphView(graph, gradients=True).to_dot()
    assert plain.count("->") < whole.count("->")
    assert len(re.findall(r"^ *n\d+ \[", whole, re.M)) == len(graph.all_nodes)


def test_dot_closes_deep_scopes_without_recursion():
    g = gw.Graph("deep")
    with g.scope("/".join(["s"] * 3000)):
        g.placeholder("x", ())
    source = GraphView(g).to_dot()
    assert source.count("{") == source.count("}") == 3001


def test_graphviz_reads_every_name_as_a_name():
    dot = shutil.which("dot")
    if not dot:
        pytest.skip("no Graphviz: apt-get install graphviz")
    g = awkward_graph()
    run = subprocess.run(
        [dot, "-Tsvg"], input=GraphView(g).to_dot(), capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    assert "Warning" not in run.stderr
    texts = {e.text for e in ElementTree.fromstring(run.stdout).iter() if e.tag.endswith("text")}
    assert {node.name.rpartition("/")[2] for node in g.nodes} | {"{sub graph}"} <= texts


def test_mermaid_has_every_node_edge_and_scope_and_no_markup(graph):
    source = GraphView(graph).to_mermaid()
    assert source.count("-->|") == sum(len(n.inputs) for n in graph.nodes)
    assert source.count("subgraph ") == len(re.findall(r"^ *end$", source, re.M)) == 2
    for line in GraphView(awkward_graph()).to_mermaid().splitlines():
        assert line.count('"') in (0, 2)
        for label in re.findall('"(.*)"', line):
            assert not set("<>`%&") & set(label.replace("<br/>", "")), line


def test_pdf_is_laid_out_by_graphviz(graph, tmp_path, monkeypatch):
    tool = tmp_path / "dot"
    tool.write_text("#!/bin/sh\ncat >$0.seen; echo %PDF $*\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    page = GraphView(graph).to_pdf(tmp_path / "g.pdf")
    assert page.startswith(b"%PDF") and (tmp_path / "g.pdf").read_bytes() == page
    assert (tmp_path / "dot.seen").read_text() == GraphView(graph).to_dot()
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(gw.errors.GradwrightError, match="not installed"):
        GraphView(graph).to_pdf(tmp_path / "h.pdf")
    assert not (tmp_path / "h.pdf").exists()


# -- still pictures ----------------------------------------------------------------------------


def numbers(svg, tag, *names):
    elements = [e for e in ElementTree.fromstring(svg).iter() if e.tag.endswith(tag)]
    return [[float(e.get(name)) for name in names] for e in elements if e.get(names[0])]


def deep_graph(blocks):
    g = gw.Graph("deep")
    x = start = g.placeholder("x", (2,))
    for block in range(blocks):
        with g.scope(f"block{block}"):
            for _ in range(10):
                x = gw.exp(x)
    gw.add(x, start, name="skip")
    return g


@pytest.mark.parametrize("blocks", [1, 12])
def test_boxes_of_the_still_drawing_stand_apart_and_inside(blocks):
    svg = GraphView(deep_graph(blocks)).to_svg()
    width, height = (float(v) for v in re.search(r'viewBox="0 0 (\S+) (\S+)"', svg).groups())
    boxes = [tuple(b) for b in numbers(svg, "rect", "x", "y", "width", "height")]
    boxes = sorted({b for b in boxes if b[2] > 20})
    assert len(boxes) >= 12
    for x, y, w, h in boxes:
        assert x >= 0
        assert y >= 0
        assert x + w <= width
        assert y + h <= height
    for i, (x, y, w, h) in enumerate(boxes):
        for other in boxes[i + 1 :]:
            apart_x = x + w <= other[0] or other[0] + other[2] <= x
            apart_y = y + h <= other[1] or other[1] + other[3] <= y
            assert apart_x or apart_y, "two boxes overlap"


def points_along(path):
    """Points on a path of absolute M, C and L commands."""
    at = None
    for numbers in re.findall(r"[MCL]([^MCL]*)", path):
        values = [float(v) for v in re.findall(r"-?[\d.]+", numbers)]
        corners = [at, *zip(values[::2], values[1::2], strict=True)]
        for t in np.linspace(0, 1, 30) if at else ():
            near = [np.array(corner) for corner in corners]
            while len(near) > 1:  # de Casteljau
                near = [(1 - t) * p + t * q for p, q in pairwise(near)]
            yield tuple(near[0])
        at = corners[-1]


def test_lines_of_the_still_drawing_keep_clear_of_boxes():
    svg = GraphView(deep_graph(1)).to_svg()
    boxes = [b for b in numbers(svg, "rect", "x", "y", "width", "height") if b[2] > 20]
    paths = re.findall(r'<path d="(M[^"]+)" fill="none"', svg)
    assert len(paths) == 12
    for path in paths:  # one of them leads past ten boxes
        for x, y in points_along(path):
            for left, top, w, h in boxes:
                assert not (left < x < left + w and top + 1 < y < top + h - 1)


def test_more_boxes_than_a_picture_can_hold_become_a_table():
    g = gw.Graph("wide")
    for i in range(MOST_BOXES + 1):
        g.placeholder(f"x{i}", ())
    assert GraphView(g).to_svg() == ""
    assert GraphView(g).to_table()


def test_names_in_still_drawings_are_text():
    svg = GraphView(awkward_graph()).to_svg()
    texts = [e.text for e in ElementTree.fromstring(svg).iter() if e.text]
    assert "<b>" in texts
    assert "<img" not in svg
