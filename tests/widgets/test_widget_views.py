"""Graphs on the wire, saved pages and still views; the TypeScript tests."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import zlib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import gradwright as gw
from gradwright_widgets import GraphView, LivePlot, ParameterTable, Workbench
from gradwright_widgets.drawing.spec import category, graph_spec
from gradwright_widgets.host.base import STATIC
from tests.support.panels import EVIL
from tests.widgets import digit_widgets

data = pytest.fixture(digit_widgets.data)
graph = pytest.fixture(digit_widgets.graph)

FRONTEND = Path(__file__).parents[2] / "widgets/frontend"


def int32(buffer):
    return np.frombuffer(buffer, "<i4")


# -- the graph on the wire -------------------------------------------------------------------------


def test_spec_lists_every_node_and_edge(graph):
    spec = graph_spec(graph)
    assert spec["names"] == [node.name for node in graph.nodes]
    assert [spec["ops"][k] for k in int32(spec["call"])] == [n.op.name for n in graph.nodes]
    tensors = [t for node in graph.nodes for t in node.outputs]
    assert [spec["specs"][k] for k in int32(spec["spec"])] == [str(t.spec) for t in tensors]
    edges = int32(spec["edges"]).reshape(-1, 3)
    found = [(tensors[t].name, spec["names"][i], k) for t, i, k in edges.tolist()]
    assert found == [
        (t.name, n.name, k) for n in graph.nodes for k, t in enumerate(n.inputs) if t is not None
    ]


def test_spec_keeps_outputs_and_missing_inputs_apart():
    g = gw.Graph()
    x = g.placeholder("x", (4, 4))
    a, b = gw.split(x, 2, name="parts")
    _ = (a - b).node
    spec = graph_spec(g)
    first = int32(spec["first_tensor"])
    parts = spec["names"].index("parts")
    edges = int32(spec["edges"]).reshape(-1, 3).tolist()
    last = [(t - first[parts], k) for t, i, k in edges if spec["names"][i] == "sub"]
    assert last == [(0, 0), (1, 1)]


def test_spec_leaves_gradients_out_unless_asked_for(graph):
    gw.gradients(graph["loss"], [graph["hidden/w"]])
    assert len(graph_spec(graph)["names"]) == len(graph.nodes)
    assert len(graph_spec(graph, gradients=True)["names"]) == len(graph.all_nodes)


def test_every_op_has_a_colour(graph):
    known = set(re.findall(r"--gw-c-(\w+)", (FRONTEND / "src/core/style.css").read_text()))
    assert {category(node) for node in graph.nodes} <= known
    assert category(graph.node("hidden/relu")) == "activation"
    assert category(graph.node("loss")) == "loss"


# -- views that last -------------------------------------------------------------------------------


def evil_graph():
    g = gw.Graph(EVIL)
    with g.scope("<"):
        x = g.variable("script>alert(2)<", (2,))
    gw.exp(x, name=EVIL)
    return g


def test_a_saved_page_is_whole_and_its_names_are_text(tmp_path):
    g = evil_graph()
    bench = Workbench(g, selected=EVIL)
    bench.append(1, {EVIL: 0.5})
    page = bench.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == page
    code = re.search(r'import\("data:text/javascript;base64,([\w+/=]+)"\)', page)
    assert base64.b64decode(code[1]) == (STATIC / "workbench.js").read_bytes()
    rest = page.replace(code[1], "")
    assert EVIL not in rest
    assert rest.count("<script") == rest.count("</script") == 2
    assert not re.search(r"""(src|href)=["']|https?:|@import|url\(""", rest)
    saved = json.loads(re.search(r'id="saved">(.*?)</script>', rest)[1])
    assert saved["state"]["graph_spec"]["names"] == [node.name for node in g.nodes]
    assert saved["state"]["selected"] == EVIL
    (plot,) = [m for m in saved["messages"] if m["content"]["kind"] == "plot.points"]
    ys = base64.b64decode(plot["buffers"][1]["$bytes"])
    assert np.frombuffer(ys, "<f8").tolist() == [0.5]


@pytest.mark.parametrize("module", sorted(path.stem for path in STATIC.glob("*.js")))
def test_modules_are_small_and_ask_for_nothing(module):
    packed = (STATIC / f"{module}.js").read_text("utf-8")
    assert len(packed) < 180_000
    text = np.frombuffer(re.search(r'const text = "([^"]+)"', packed)[1].encode(), np.uint8)
    digits = text.astype("u4") - 40 - (text > 60) - (text > 92)
    words = (digits.reshape(-1, 5) @ 85 ** np.arange(4, -1, -1, dtype="u4")).astype(">u4")
    source = zlib.decompressobj(-15).decompress(words.tobytes()).decode()
    assert "export" in source
    hosts = set(re.findall(r"https?://([\w.]+)", source))
    assert hosts <= {"www.w3.org"}, "a namespace, which nobody fetches"


def test_still_views_are_well_formed_and_escaped():
    g = evil_graph()
    bench = Workbench(g)
    for step in range(10):
        bench.append(step, {EVIL: step * 1.0, "nan": float("nan")})
    pictures = [bench.to_svg(), LivePlot.to_svg(bench)]
    for svg in pictures:
        texts = [e.text for e in ElementTree.fromstring(svg).iter() if e.text]
        assert any(text.startswith("<img src=x") for text in texts)
    table = bench.to_table()
    assert "<img" not in table
    assert table.count("&lt;img src=x") == 1 + 1


def test_the_notebook_keeps_a_still_view(graph):
    bench = Workbench(graph)
    data, _ = bench._repr_mimebundle_()
    assert data["text/plain"] == f"Workbench of {bench.graph.name!r}", "without trust"
    assert set(data) >= {"application/vnd.jupyter.widget-view+json", "image/svg+xml", "text/html"}
    assert set(bench.static()._repr_mimebundle_()) == {"image/svg+xml", "text/html"}
    assert "<td>48</td>" in ParameterTable(graph).to_table()
    assert "<td>48</td>" in bench.to_table(), "parameters"
    assert "<td>relu</td>" in bench.to_table(), "nodes"
    assert LivePlot()._repr_mimebundle_()[0].keys().isdisjoint({"image/svg+xml", "text/html"})


def test_a_large_graph_is_drawn_by_its_scopes():
    g = gw.Graph("deep")
    x = g.placeholder("x", (2,))
    for block in range(12):
        with g.scope(f"block{block}"):
            for _ in range(10):
                x = gw.exp(x)
    texts = [e.text for e in ElementTree.fromstring(GraphView(g).to_svg()).iter() if e.text]
    assert texts.count("10 nodes") == 12
    wide = gw.Graph("wide")
    for i in range(60):
        wide.placeholder(f"x{i}", ())
    assert GraphView(wide).to_svg() == ""
    assert "60" in GraphView(wide).to_table()


def test_an_empty_graph_is_shown():
    bench = Workbench(gw.Graph("empty"))
    assert bench.to_svg() == ""
    assert "<table>" in bench.to_table()
    assert bench.to_html()


# -- the browser side ------------------------------------------------------------------------------


def test_the_typescript_tests_pass():
    """Types, layout against Graphviz, curves, SVG: `npm run check` and `npm test`."""
    npm = shutil.which("npm")
    if not npm or not (FRONTEND / "node_modules").is_dir():
        why = "no Node, or no `npm ci` in widgets/frontend"
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(f"CI runs the TypeScript tests, but there is {why}")
        pytest.skip(why)
    for script in ("check", "test"):
        run = subprocess.run(
            [npm, "run", "--silent", script], cwd=FRONTEND, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
