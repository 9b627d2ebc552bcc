"""What is told of files, without a server: held against the widgets and against numpy."""

from __future__ import annotations

import base64
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gradwright as gw
from gradwright.formats import registry, stored
from gradwright.formats.language import LanguageShape
from gradwright.formats.safetensors.format import FORMAT
from gradwright_widgets import GraphView, TensorView
from gradwright_widgets.drawing.buffers import storable
from gradwright_widgets.drawing.spec import graph_spec
from gradwright_widgets.drawing.values import thumbnail
from gradwright_widgets.host.base import ANYWIDGET
from gradwright_widgets.server.answers import asked as asking
from gradwright_widgets.server.answers import tensor as tensors
from gradwright_widgets.server.answers import values as asking_values
from gradwright_widgets.server.answers import window as windows
from gradwright_widgets.server.answers.model import available_bytes
from gradwright_widgets.server.paths import file_of, stamp_of
from tests.formats import every_format
from tests.support.panels import sent

safetensors = pytest.importorskip("safetensors.numpy")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A root with a folder for each format, and where the file is in it."""
    root = tmp_path_factory.mktemp("root")
    found = {}
    for name, make in every_format.MAKERS.items():
        (root / name).mkdir()
        found[name] = str(make(root / name)[0].relative_to(root))
    return root, found


def ask(root: Path, task: str, *paths: str, **arguments: object):
    files = [file_of(path, str(root)) for path in paths]
    request = asking.Asked(
        task, str(root), False, paths, tuple(files),
        tuple(stamp_of(file)["stamp"] for file in files),
        {name: str(value) for name, value in arguments.items()},
    )  # fmt: skip
    status, data = asking.answered(request)
    return status, json.loads(data)


def got(root: Path, task: str, *paths: str, **arguments: object):
    status, found = ask(root, task, *paths, **arguments)
    assert status == 200, found
    return found


def test_a_language_model_is_told_by_its_sizes(made, monkeypatch):
    """Its format has no graph; lengths up to its context take the place of batches."""
    root, paths = made
    shape = LanguageShape(2, 64, 4, 2, 16, 128, 1000, context=5000)

    def inspect(source):
        return replace(FORMAT.inspect(source), architecture="llama", language=shape)

    monkeypatch.setattr(
        "gradwright.formats.safetensors.format.FORMAT", replace(FORMAT, inspect=inspect)
    )
    path = paths["safetensors"]
    told = got(root, "inspect", path)
    assert told["language"] and not told["graph"] and ["architecture", "llama"] in told["facts"]
    assert dict(told["facts"])["memory"] == str(gw.inspect(root / path).memory)
    found = got(root, "fits", path)
    assert list(found["sizes"]) == ["batch", "length"] and "5,000" in found["sizes"]["length"]
    assert [row["sizes"]["length"] for row in found["rows"]] == [512, 2048, 5000]
    assert found["rows"][1]["run"] == gw.inspect(root / path).memory.run
    (row,) = got(root, "fits", path, sizes='{"batch": 3, "length": 100}')["rows"]
    assert row["memory"]["cache"] == shape.cache(3, 100)
    assert ask(root, "fits", path, sizes='{"batch": 0}')[0] == 400


def test_every_format_is_inspected_and_its_tensors_are_listed(made):
    root, paths = made
    assert [row["name"] for row in got(root, "formats")["formats"]] == list(registry.FORMATS)
    for name, path in paths.items():
        told = got(root, "inspect", path)
        info = gw.inspect(root / path)
        expected = {**info.as_dict(), "path": path}
        assert told["count"] == len(expected.pop("tensors")) and told["format"] == name
        assert told["info"] == json.loads(json.dumps(expected)) and str(root) not in str(told)
        rows = got(root, "tensors", path, n=1000)
        assert {r["name"]: r["spec"] for r in rows["tensors"]} == {
            n: str(s) for n, s in info.tensors.items()
        }
        ((largest, _),) = info.largest(1)
        with_big = got(root, "tensors", path, filter=f"{largest.upper()} float", sort="-bytes", n=1)
        assert with_big["tensors"][0]["name"] == largest
        assert with_big["found"] < rows["found"] == rows["total"]


def test_names_sort_as_one_counts(tmp_path):
    arrays = {f"layer{i}.w": np.zeros(i) for i in (10, 9, 1)}
    safetensors.save_file(arrays, tmp_path / "n")
    for sort in ("name", "bytes", "shape"):
        rows = got(tmp_path, "tensors", "n", sort=sort)["tensors"]
        assert [r["name"] for r in rows] == ["layer1.w", "layer9.w", "layer10.w"]
    assert got(tmp_path, "tensors", "n", start=5)["tensors"] == []


# -- drawings --------------------------------------------------------------------------------------


def test_a_drawing_is_the_state_of_a_view(made):
    root, paths = made
    for name, load in (("gw", gw.load), ("onnx", gw.onnx.load), ("checkpoint", gw.load)):
        told = got(root, "drawing", paths[name])
        graph = load(root / paths[name])
        view = GraphView(graph)
        traits = {k for k in view.keys if k not in ANYWIDGET and not k.startswith("_")}
        assert told["state"].keys() == traits and told["nodes"] == len(graph.nodes)
        own = {k: storable(getattr(view, k)) for k in traits - {"graph_spec", "outputs"}}
        assert {k: told["state"][k] for k in own} == own
        (message,) = told["messages"]
        ((content, buffers),) = view.new_view_messages(whole=True)
        assert message["content"] == {**json.loads(json.dumps(content)), "places": []}
        assert message["buffers"][1:] == storable(list(buffers))[1:]
        assert told["state"]["graph_spec"] == json.loads(json.dumps(storable(graph_spec(graph))))


def test_what_a_node_encloses_comes_with_it_or_is_asked_for(tmp_path, monkeypatch):
    g = gw.Graph("calls")
    x = g.placeholder("x", (3,))
    gw.nn.silu(gw.scan(lambda c, v: (c + gw.nn.silu(v),) * 2, x[0], x)[1], name="y")
    g.save(tmp_path / "c.gw")
    inner = got(tmp_path, "drawing", "c.gw")["state"]["insides"]
    assert {"y", "scan"} < inner.keys() and any(a.startswith("scan::") for a in inner)
    view = GraphView(g, expanded=["scan::", "y::"])
    assert inner["y"] == json.loads(json.dumps(storable(view.insides["y"])))
    asked = got(tmp_path, "inside", "c.gw", node="scan::")["insides"]
    assert asked["scan"] == inner["scan"]
    assert ask(tmp_path, "inside", "c.gw", node="nothing::")[0] == 404
    monkeypatch.setattr("gradwright_widgets.server.answers.drawing.INSIDE", 0)
    assert got(tmp_path, "drawing", "c.gw")["state"]["insides"] == {}


def test_what_holds_no_graph_says_so(made):
    root, paths = made
    for task in ("drawing", "fits"):
        status, told = ask(root, task, paths["safetensors"])
        assert (status, told["code"]) == (422, "no-graph")


def test_what_would_fit(made):
    root, paths = made
    for name in ("gw", "onnx"):
        told = got(root, "fits", paths[name])
        first = told["rows"][3]
        info = gw.inspect(root / paths[name], sizes=first["sizes"])
        assert told["sizes"] == {"B": "x f32[B, 3]"} and first["sizes"] == {"B": 8}
        if name == "gw":
            assert first["memory"] == info.memory.as_dict()
        assert first["runs"] is (first["run"] <= told["machine"]["available"])
    asked = got(root, "fits", paths["gw"], sizes='{"B": 1000000000000}')["rows"]
    assert [row["runs"] for row in asked] == [False] and available_bytes() > 1 << 20
    for wrong in ('{"B": -1}', "[", '{"B": true}', '{"C": 1}', "{" * 9000):
        assert ask(root, "fits", paths["gw"], sizes=wrong)[0] == 400


# -- tensors ---------------------------------------------------------------------------------------


def picture(told):
    (message,) = told["messages"]
    return message["content"], message["buffers"]


def test_a_tensor_is_the_state_of_a_view(tmp_path):
    array = np.random.default_rng(0).standard_normal((4, 30, 5)).astype("f4")
    array[1, 2, 2] = np.nan
    safetensors.save_file({"w": array}, tmp_path / "w")
    told = got(tmp_path, "tensor", "w", name="w", index="[1, :, ::2]", scope="slice")
    view = TensorView(array, index="[1, :, ::2]", name="w", tensor_scope="slice")
    traits = {k for k in view.keys if k not in ANYWIDGET and not k.startswith("_")}
    assert told["state"] == {k: storable(getattr(view, k)) for k in traits}
    ((content, buffers),) = view.new_view_messages(whole=True)
    found, sent = picture(told)
    own = {"serial": 0, "code": "", "name": "w"}
    assert {**found, **own} == json.loads(json.dumps({**storable(content), **own}))
    assert sent == storable(list(buffers))
    assert told["statistics"]["bad"]["NaN"] == 1 and told["every"] == 1


@pytest.mark.parametrize("exact", [0, 1])
def test_a_large_tensor_is_read_in_part_and_says_so(tmp_path, monkeypatch, exact):
    monkeypatch.setattr(tensors, "HELD", 8000)
    monkeypatch.setattr(tensors, "PASSED", 40_000)
    monkeypatch.setattr("gradwright.formats.stored.PIECE", 800)
    array = np.arange(80_000, dtype="f4").reshape(200, 400)
    array[150, 7] = np.inf
    safetensors.save_file({"w": array}, tmp_path / "w")
    told = got(tmp_path, "tensor", "w", name="w", exact=exact)
    found, _ = picture(told)
    assert (found["shape"], found["slice"]) == ([200, 400], [200, 400])
    assert found["part"]["window"] == [0, 1, 0, 1, 0, 200, 0, 400] and found["part"]["every"] > 50
    numbers, good = told["statistics"], array[np.isfinite(array)].astype("f8")
    if exact:
        assert told["every"] == 1 and found["about"] == "80,000 values"
        assert numbers["mean"] == pytest.approx(good.mean())
        assert numbers["std"] == pytest.approx(good.std())
        assert found["bad"] == [{"kind": "+Inf", "count": 1, "at": [150, 7]}]
        assert sum(told["histogram"]["counts"]) == good.size
    else:
        assert told["every"] == 8 and found["about"] == "1 of 8 values"
        assert numbers["mean"] == pytest.approx(good.mean(), rel=0.1)
        assert numbers["read"] == 10_000
    monkeypatch.setattr(tensors, "summarize", None)  # what is known of the tensor is known
    part, _ = picture(got(tmp_path, "tensor", "w", name="w", index="[148:152, 5:9]", exact=exact))
    assert part["about"] == found["about"]
    assert part["part"]["fields"] == ["value"] and "inf" in part["literal"]


def test_planes_of_a_large_slice_are_left_out_by_its_index(tmp_path, monkeypatch):
    monkeypatch.setattr(tensors, "HELD", 8000)
    array = np.arange(64_000, dtype="f4").reshape(640, 10, 10)
    array[:, 0, 0] = np.inf
    safetensors.save_file({"w": array}, tmp_path / "w")
    told = got(tmp_path, "tensor", "w", name="w", index="[:, :, :]", scope="slice")
    found, _ = picture(told)
    (start, step, _), *_ = found["axes"]
    assert found["index"] == f"[0:640:{step}, :, :]" and found["tiles"] == len(array[::step])
    assert found["bad"][0]["at"] == [start, 0, 0]


def answered(messages, kind):
    """Return what a kernel answered last: content and buffers of a message of a kind."""
    content, buffers = next((c, b) for c, b in reversed(messages) if c["kind"] == kind)
    return content, [bytes(b) for b in buffers or ()]


@pytest.mark.parametrize(
    ("index", "plane"),
    [("", []), ("[:, 1, ::2]", []), ("[:, :, ::-1]", [0, 2]), ("[3, 1]", []),
     ("[1:, ::-1]", [2, 1]), ("[:, :, None, 4]", [])],
)  # fmt: skip
def test_a_closer_look_is_that_of_a_view(tmp_path, monkeypatch, index, plane):
    array = np.random.default_rng(1).standard_normal((5, 300, 7)).astype("f8")
    array[2, 50:, 3] = np.nan
    safetensors.save_file({"w": array}, tmp_path / "w")
    view = TensorView(array, index=index, name="w", tensor_plane=plane)
    messages = sent(view, monkeypatch)
    shown = {"name": "w", "index": view.tensor_index, "plane": ",".join(map(str, plane))}
    ((whole, _),) = view.new_view_messages()
    down, across = whole["grid"]
    height, width = whole["height"], whole["width"]
    for window in (
        [0, down, 0, across, 0, height, 0, width],
        [0, 1, 0, 1, 1, max(2, height // 2), 0, max(1, width - 1)],
    ):
        view._receive(view, {"kind": "tensor.window", "window": window}, [])
        content, buffers = answered(messages, "tensor.window")
        told = got(tmp_path, "window", "w", window=",".join(map(str, window)), **shown)
        assert told["part"] == content["part"]
        assert [base64.b64decode(b["$bytes"]) for b in told["buffers"]] == buffers
    for at in (
        [0, 0, whole["height"], 0, whole["width"]],
        [0, 0, 1, 0, 1],
        [99_999_999, 0, 1, 0, 1],
    ):
        at[0] = min(at[0], whole["shown"] - 1)
        view._receive(view, {"kind": "tensor.value", "at": at}, [])
        content, _ = answered(messages, "tensor.value")
        told = got(tmp_path, "element", "w", at=",".join(map(str, at)), **shown)
        assert (told["where"], told["text"]) == (content["where"], content["text"])


def test_a_closer_look_at_a_large_tensor_reads_a_part(tmp_path, monkeypatch):
    monkeypatch.setattr(windows, "HELD", 80_000)
    monkeypatch.setattr(windows, "PASSED", 400_000)
    array = np.arange(4_000_000, dtype="f4").reshape(2000, 2000)
    safetensors.save_file({"w": array}, tmp_path / "w")
    read = []
    held = stored.Files.read
    monkeypatch.setattr(stored.Files, "read", lambda f, r: read.append(r.nbytes) or held(f, r))
    told = got(tmp_path, "window", "w", name="w", window="0,1,0,1,0,1000,0,2000")
    assert told["part"]["every"] > 100 and sum(read) < 500_000
    block = got(tmp_path, "element", "w", name="w", at="0,0,1000,0,2000")
    assert "2,000,000 values, 1 of" in block["where"] and "min 0.0 at [0, 0]" in block["text"]
    assert float(block["text"].partition("max ")[2].split()[0]) < 2_000_000
    read.clear()
    near = got(tmp_path, "window", "w", name="w", window="0,1,0,1,1998,2000,1990,2000")
    data = base64.b64decode(near["buffers"][0]["$bytes"])
    assert np.frombuffer(data, "<f4").tolist() == array[1998:, 1990:].ravel().tolist()
    assert near["part"]["fields"] == ["value"] and sum(read) < 10_000


@pytest.mark.parametrize(
    ("task", "arguments"),
    [("window", {"window": "1,2"}), ("window", {"window": "a" * 4000}),
     ("window", {"window": "-1" * 8}), ("element", {"at": "0"}), ("element", {"at": "9,0,1,0,1"}),
     ("window", {"window": "0,1,0,1,0,9,0,9", "index": "[0:0]"}),
     ("element", {"at": "0,0,1,0,1", "index": "[x]"})],
)  # fmt: skip
def test_a_closer_look_that_fits_nothing_is_refused(made, task, arguments):
    root, paths = made
    status, told = ask(root, task, paths["safetensors"], name="w", **arguments)
    assert status == 400 and told["message"]
    good = {"window": "0,1,0,1,0,1,0,1", "at": "0,0,1,0,1"}
    assert ask(root, task, paths["safetensors"], name="v", **good)[0] == 404
    assert ask(root, task, paths["gw"], name="words", **good)[0] == 422


# -- values of nodes -------------------------------------------------------------------------------


def test_the_values_of_a_node_are_those_of_a_sheet(made, monkeypatch):
    root, paths = made
    for name, load in (("gw", gw.load), ("onnx", gw.onnx.load), ("checkpoint", gw.load)):
        graph = load(root / paths[name])
        view = GraphView(graph, inspector=True)
        messages = sent(view, monkeypatch)
        for node in graph.nodes:
            view.selected = node.name
            view._receive(view, {"kind": "inspector.look"}, [])
            content, buffers = answered(messages, "inspector.values")
            (message,) = got(root, "values", paths[name], node=node.name)["messages"]
            theirs = [
                {**t, "source": "file"} for t in content["tensors"] if t["source"] == "stored"
            ]
            assert message["content"]["tensors"] == json.loads(json.dumps(theirs))
            assert [base64.b64decode(b["$bytes"]) for b in message["buffers"]] == buffers[
                : len(theirs)
            ]
    none = got(root, "values", paths["gw"], node="nothing/")["messages"][0]["content"]
    assert none["tensors"] == []


def test_the_values_of_a_node_that_the_file_calls_otherwise(tmp_path):
    onnx = pytest.importorskip("onnx")
    helper, ones = onnx.helper, np.full((4, 4), 3.0, "f4")
    node = helper.make_node("MatMul", ["x", "onnx::MatMul_1"], ["y"])
    value = helper.make_tensor_value_info
    made = helper.make_graph(
        [node], "g", [value("x", 1, ["B", 4])], [value("y", 1, ["B", 4])],
        [onnx.numpy_helper.from_array(ones, "onnx::MatMul_1")],
    )  # fmt: skip
    onnx.save(helper.make_model(made), tmp_path / "m.onnx")
    (message,) = got(tmp_path, "values", "m.onnx", node="onnx__MatMul_1")["messages"]
    (told,) = message["content"]["tensors"]
    assert (told["low"], told["high"], told["bars"]) == (3.0, 3.0, [16])


def test_the_values_of_a_large_node_are_read_in_part(tmp_path, monkeypatch):
    for room in (tensors, asking_values):
        monkeypatch.setattr(room, "HELD", 8000)
    monkeypatch.setattr(tensors, "PASSED", 40_000)
    monkeypatch.setattr("gradwright.formats.stored.PIECE", 800)
    monkeypatch.setattr(asking_values, "ROW", 100)
    g = gw.Graph("large")
    array = np.linspace(-1, 1, 80_000, dtype="f4").reshape(200, 400)
    array[150, 7] = np.nan
    g.variable("w", init=array)
    g.save(tmp_path / "w.gw")
    (message,) = got(tmp_path, "values", "w.gw", node="w")["messages"]
    (told,) = message["content"]["tensors"]
    assert told["every"] == 8 and told["mean"] == pytest.approx(0, abs=0.1) and told["zeros"] == 0
    assert told["low"] == -1.0 and told["std"] == pytest.approx(array[:149].std() * 4 / 3, rel=0.1)
    picture = base64.b64decode(message["buffers"][0]["$bytes"])
    assert picture == thumbnail(array)[0] and sum(told["bars"]) <= 10_000


def test_text_is_text_and_complex_numbers_have_parts(made):
    root, paths = made
    told = got(root, "tensor", paths["gw"], name="words")
    assert told["texts"] == ["a", "", "bc"] and told["state"] is None
    told = got(root, "tensor", paths["gw"], name="z", part="abs")
    assert told["statistics"]["high"] == pytest.approx(3.0)
    assert got(root, "tensor", paths["gw"], name="four")["statistics"]["low"] == -2


@pytest.mark.parametrize(
    "arguments",
    [
        {"index": "[99]"}, {"index": "[" * 4000}, {"index": "[0, 0, 0, 0]"}, {"index": "[::0]"},
        {"plane": "1"}, {"plane": "a,b"}, {"part": "soul"}, {"scope": "all"}, {"exact": "yes"},
        {"index": "__import__('os')"}, {"index": "[9999999999999999999999]"},
    ],
)  # fmt: skip
def test_what_cannot_be_shown_is_refused(made, arguments):
    root, paths = made
    status, told = ask(root, "tensor", paths["safetensors"], name="w", **arguments)
    assert status == 400 and told["message"]
    assert ask(root, "tensor", paths["safetensors"], name="v")[0] == 404


# -- two files -------------------------------------------------------------------------------------


def test_two_files_are_compared_page_by_page(made, tmp_path, monkeypatch):
    root, paths = made
    expected = gw.compare_files(root / paths["gw"], root / paths["onnx"]).as_dict()
    monkeypatch.setattr("gradwright_widgets.server.answers.compare.MOST", 1 << 20)
    rows, start, pages = [], 0, 0
    while start is not None:
        told = got(root, "compare", paths["gw"], paths["onnx"], start=start, n=3)
        assert ("structure" in told) is (start == 0)
        rows, start, pages = rows + told["tensors"], told["next"], pages + 1
    assert pages > 2 and len(rows) == told["total"]
    assert [r["name"] for r in rows] == [t["name"] for t in expected["tensors"]]
    assert [r["status"] for r in rows] == [t["status"] for t in expected["tensors"]]
    only = got(root, "compare", paths["gw"], paths["safetensors"], filter="big")
    assert only["structure"] is None and only["total"] == 2


# -- runs ------------------------------------------------------------------------------------------


def test_runs_are_listed_and_their_curves_come_in_parts(tmp_path):
    for rate in (0.1, 0.25):
        g = gw.Graph("parabola")
        w = g.variable("w", (), init=2.0)
        run = gw.Run(tmp_path / f"rate {rate}", name=f"rate {rate}", store=None)
        trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(rate), callbacks=[run])
        trainer.fit([{}], epochs=3, progress=False)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/config.json").write_text("{")
    told = got(tmp_path, "runs", "")
    assert {row["path"] for row in told["runs"]} == {"rate 0.1", "rate 0.25"}
    assert told["columns"] == ["loss"] and "broken" in told["problems"][0]
    assert str(tmp_path) not in str(told)
    assert got(tmp_path, "runs", "rate 0.1")["runs"][0]["epochs"] == 3
    whole = got(tmp_path, "curves", "rate 0.25")
    assert whole["epochs"]["loss"] == [4.0, 1.0, 0.25] and not whole["more"]
    rows = got(tmp_path, "difference", "rate 0.1", "rate 0.25")["rows"]
    assert ["training.optimizer.learning_rate", 0.1, 0.25] in rows
    events = tmp_path / "rate 0.25/events.jsonl"
    lines = events.read_bytes().splitlines(keepends=True)
    first = sum(map(len, lines[:3]))
    later = got(tmp_path, "curves", "rate 0.25", since=first)
    assert later["epochs"]["epoch"] == [2, 3] and later["cut"] is None
    assert later["next"] == whole["next"] == events.stat().st_size
    resumed = {"event": "fit_started", "time": 1.0, "step": 1, "epoch": 1}
    events.write_bytes(b"".join(lines) + json.dumps(resumed).encode() + b"\n" + b'{"torn')
    cut = got(tmp_path, "curves", "rate 0.25", since=whole["next"])
    assert cut["cut"] == {"step": 1, "epoch": 1} and cut["steps"] == {}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["broken", "rate 0.1", "rate 0.25"]


# -- files that lie --------------------------------------------------------------------------------


def test_files_that_change_while_they_are_read_are_told_from_damaged_ones(made, tmp_path):
    root, paths = made
    shutil.copy(root / paths["safetensors"], tmp_path / "w")
    held = stamp_of(tmp_path / "w")["stamp"]
    request = asking.Asked("inspect", str(tmp_path), False, ("w",), (tmp_path / "w",), (held,), {})
    assert asking.answered(request)[0] == 200
    (tmp_path / "w").write_bytes(b"cut off")
    status, data = asking.answered(request)
    assert (status, json.loads(data)["code"]) == (409, "changed")
    status, told = ask(tmp_path, "inspect", "w")
    assert (status, told["code"]) == (415, "format") and str(tmp_path) not in str(told)


def test_data_beside_a_model_is_read_within_the_root_alone(tmp_path):
    onnx = pytest.importorskip("onnx")
    inside = tmp_path / "root"
    inside.mkdir()
    (tmp_path / "secret").write_bytes(np.float32([1, 2]).tobytes())
    w = onnx.numpy_helper.from_array(np.zeros(2, "f4"), "w")
    w.ClearField("raw_data")
    w.data_location = onnx.TensorProto.EXTERNAL
    entry = w.external_data.add()
    entry.key, entry.value = "location", "w.bin"
    model = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], [w]))
    onnx.save(model, inside / "m.onnx")
    (inside / "w.bin").symlink_to(tmp_path / "secret")
    status, told = ask(inside, "tensor", "m.onnx", name="w")
    assert (status, told["code"]) == (403, "outside")
    (inside / "w.bin").unlink()
    shutil.copy(tmp_path / "secret", inside / "w.bin")
    assert got(inside, "tensor", "m.onnx", name="w")["statistics"]["high"] == 2.0
