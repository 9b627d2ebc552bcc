"""``gw.inspect``: what files say of themselves before they are loaded, and what to beware of."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, GradwrightError, GraphError
from gradwright.formats import source
from gradwright.formats.language import LanguageShape
from gradwright.formats.onnx import format as onnx_format
from gradwright.formats.report import Packed
from gradwright.shared import machine_bytes
from gradwright.words.tables import size
from tests.formats import every_format
from tests.formats.every_format import Counted
from tests.formats.onnx_models import FLOAT, TensorProto, X, helper, model, numpy_helper, onnx

made = pytest.fixture(scope="module")(every_format.made)


def written(folder: Path, proto: Any) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def network() -> Any:
    """Return a model of two layers, a sub-graph, and operators that nobody knows."""
    inner = helper.make_graph(
        [helper.make_node("Odd", ["h"], ["o"], "leaf", domain="mine")], "b", [], []
    )
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], "first"),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["y"]),
        helper.make_node("If", ["c"], ["z"], "which", then_branch=inner, else_branch=inner),
        helper.make_node("Strange", ["y"], ["s"]),
    ]  # fmt: skip
    stored = {"w": np.ones((3, 100), "float32"), "v": np.ones((100, 4), "float16")}
    inputs: Any = {"x": ["batch", 3], "c": (TensorProto.BOOL, [])}
    proto = model(nodes, inputs, ["y", "s"], stored=stored, domains=["mine"])
    proto.producer_name, proto.producer_version = "somebody", "1.2"
    return proto


# -- what is told ----------------------------------------------------------------------------------


def test_a_model_says_what_it_is_and_what_cannot_run(tmp_path: Path) -> None:
    path = written(tmp_path, network())
    info = gw.inspect(path)
    assert info.producer == "somebody 1.2" and info.name == "test"
    assert info.versions == {"IR": network().ir_version, "ai.onnx": 18, "mine": 1}
    assert info.inputs == {"x": "f32[batch, 3]", "c": "bool[]"}
    assert info.outputs == {"y": "f32[...]", "s": "f32[...]"}
    assert info.ops == {"MatMul": 2, "mine:Odd": 2, "If": 1, "Relu": 1, "Strange": 1}
    assert info.unknown_nodes == {
        "mine:Odd": ("which/leaf", "which/leaf"), "Strange": ("Strange:s",)
    }  # fmt: skip
    assert info.parameters == 700 and info.dtypes == {"float32": 1200, "float16": 800}
    assert [name for name, _ in info.largest(1)] == ["w"]
    with pytest.raises(GradwrightError, match="not known") as caught:
        gw.onnx.load(path)
    for name, nodes in info.unknown_nodes.items():  # the same that loading says
        assert any(name.rpartition(":")[2] in f and nodes[0] in f for f in caught.value.facts)


def test_a_users_reader_makes_an_operator_known(tmp_path: Path) -> None:
    path = written(tmp_path, network())
    gw.onnx.reads("Strange")(lambda node, x: x)
    gw.onnx.maps("Odd", "neg", domain="mine")
    try:
        assert not gw.inspect(path).unknown_ops
    finally:
        gw.onnx.forget("Strange")
        gw.onnx.forget("Odd", domain="mine")


def test_types_of_inputs_of_all_kinds(tmp_path: Path) -> None:
    make = helper.make_tensor_type_proto
    seq = helper.make_sequence_type_proto(make(TensorProto.INT64, None))
    ends = {
        "seq": (seq, "seq(i64[...])"),
        "opt": (helper.make_optional_type_proto(seq), "opt(seq(i64[...]))"),
        "map": (helper.make_map_type_proto(8, make(FLOAT, ["N"])), "map(str, f32[N])"),
        "negative": (make(FLOAT, [-1, None, 2]), "f32[?, ?, 2]"),
        "none": (onnx.TypeProto(), "?"),
    }
    graph = helper.make_graph(
        [], "g", [helper.make_value_info(n, t) for n, (t, _) in ends.items()], []
    )
    info = gw.inspect(written(tmp_path, helper.make_model(graph)))
    assert info.inputs == {name: text for name, (_, text) in ends.items()}


def test_every_format_prints_shows_and_goes_to_json(made: Any, tmp_path: Path) -> None:
    for name, (path, arrays) in made.items():
        info = gw.inspect(path)
        text, html = str(info), info._repr_html_()
        assert text == repr(info) and text.startswith(f"{path.name}: ") and info.format in text
        said = json.loads(info.to_json())
        assert said == info.as_dict() and said["bytes"] == info.nbytes, name
        assert set(said["tensors"]) == set(arrays)
        assert said["parameters"] == sum(a.size for a in arrays.values())
        assert html.count("<table>") >= 2 and "<script" not in html
        assert max(map(len, text.splitlines())) < 400


def test_names_are_never_html(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    node = helper.make_node(evil, ["x"], ["y"], evil, domain=evil)
    proto = model([node], {"x": [evil]}, ["y"], stored={evil: np.ones(3, "float32")})
    proto.producer_name = evil
    info = gw.inspect(written(tmp_path, proto))
    assert evil in str(info) and "<img" not in info._repr_html_()
    assert info._repr_html_().count("&lt;img") >= 6


# -- no tensor is read -----------------------------------------------------------------------------


def test_three_gigabytes_beside_a_model_are_not_read(tmp_path: Path) -> None:
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[1024, 768 * 1024])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", "offset": "0", "length": str(3 << 30)}.items():
        tensor.external_data.add(key=key, value=value)
    proto = model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": ["B", 1024]}, ["y"])
    proto.graph.initializer.append(tensor)
    path = written(tmp_path, proto)
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(3 << 30)  # a hole: no block of the disk is taken
    counted = Counted(source.at(path))
    info = onnx_format.inspect(counted)
    assert counted.total[0] < 10_000 and not info.findings
    assert info.dtypes == {"float32": 3 << 30}
    memory = gw.inspect(path, sizes={"B": 2}).memory
    assert memory is not None
    assert memory.weights == 3 << 30 and memory.results == 2 * 768 * 1024 * 4
    (tmp_path / "w.bin").unlink()
    (finding,) = gw.inspect(path).findings
    assert finding.grave and "'w.bin', which is missing" in finding.what


# -- memory ----------------------------------------------------------------------------------------


def layers(graph: gw.Graph, weights: Any) -> None:
    h = graph.placeholder("x", ("B", 64))
    for i, w in enumerate(weights):
        h = gw.nn.relu(h @ graph.variable(f"w{i}", init=w))
    gw.exp(h, name="y")


def test_memory_is_that_of_all_results_and_of_those_that_lie_at_once(tmp_path: Path) -> None:
    g = gw.Graph("net")
    layers(g, [np.ones((64, 512), "float32"), np.ones((512, 64), "float32")])
    g.save(tmp_path / "net.gw")
    gw.onnx.save(g, tmp_path / "net.onnx")
    row = 8 * 4 * (512 + 512 + 64 + 64 + 64)
    for name in ("net.gw", "net.onnx"):
        memory = gw.inspect(tmp_path / name, sizes={"B": 8}).memory
        assert memory is not None and not memory.unknown
        assert memory.weights == memory.floating == 2 * 64 * 512 * 4
        assert memory.results == row and memory.peak == 8 * 4 * (512 + 512)
        assert memory.inputs == 8 * 64 * 4
        assert memory.run == memory.weights + memory.inputs + memory.peak
        assert memory.train == 4 * memory.weights + memory.inputs + row
        text = str(gw.inspect(tmp_path / name, sizes={"B": 8}))
        assert f"{size(memory.run)} to run, {size(memory.train)} to train at B = 8" in text
        assert "Not counted: what an op needs inside" in " ".join(text.split())
    assert gw.inspect(tmp_path / "net.gw").memory is None


def test_memory_bounds_what_a_plan_takes(tmp_path: Path) -> None:
    """Its arena is laid out over the same lifetimes, after rewrites that need less."""
    g = gw.Graph("net")
    layers(g, [np.ones((64, 512), "float32"), np.ones((512, 64), "float32")])
    g.save(tmp_path / "net.gw")
    found = gw.inspect(tmp_path / "net.gw", sizes={"B": 32}).memory
    assert found is not None
    with gw.Session(g) as session:
        taken = session.plan("y", {"x": (32, 64)}).memory()
    assert taken.arena + taken.results <= found.peak
    assert (taken.variables, taken.feeds) == (found.weights, found.inputs)
    assert taken.peak <= found.run <= 1.5 * taken.peak


def test_sizes_of_a_model_may_be_called_as_in_the_file(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    path = written(tmp_path, model([node], {"x": ["the batch", 3]}, ["y"]))
    memory = gw.inspect(path, sizes={"the batch": 5}).memory
    assert memory is not None and memory.results == 60 and memory.sizes == {"the batch": 5}
    for sizes, match in {
        (): "is not given", (("bath", 5),): "no input has a size 'bath'",
        (("the batch", -1),): "need: an integer", (("the batch", 2.0),): "need: an integer",
    }.items():  # fmt: skip
        with pytest.raises(GraphError, match=match):
            gw.inspect(path, sizes=dict(sizes))


def test_results_whose_sizes_only_a_run_knows_are_counted_out(tmp_path: Path) -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["n"]), helper.make_node("Relu", ["x"], ["y"])]
    memory = gw.inspect(written(tmp_path, model(nodes, {"x": [2, 3]}, ["n", "y"])), sizes={}).memory
    assert memory is not None and memory.unknown and memory.results == 24
    assert "results of sizes that only a run knows are left out" in memory.counts


def test_large_constants_are_weights_and_small_ones_tell_shapes(tmp_path: Path) -> None:
    large = numpy_helper.from_array(np.ones((100, 200), "float32"))
    nodes = [
        helper.make_node("Constant", [], ["w"], value=large),
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Reshape", ["h", "to"], ["y"]),
    ]
    path = written(
        tmp_path, model(nodes, {"x": ["B", 100]}, ["y"], stored={"to": np.int64([0, 4, 50])})
    )
    memory = gw.inspect(path, sizes={"B": 3}).memory
    assert memory is not None and memory.results == 2 * 3 * 200 * 4 and not memory.unknown


def test_memory_is_not_told_where_nothing_tells_it(made: Any, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="holds no graph"):
        gw.inspect(made["safetensors"][0], sizes={})
    with pytest.raises(ArchiveError, match=r"operators that are not known[\s\S]*mine:Odd"):
        gw.inspect(written(tmp_path, network()), sizes={"batch": 1})
    for name in ("gw", "checkpoint", "run", "onnx"):
        memory = gw.inspect(made[name][0], sizes={"B": 4}).memory
        assert memory is not None and memory.results >= 4 * 4 * 4


# -- findings --------------------------------------------------------------------------------------


def found_in(folder: Path, proto: Any) -> list[str]:
    return [str(f) for f in gw.inspect(written(folder, proto)).findings if f.grave]


def test_functions_that_call_themselves(tmp_path: Path) -> None:
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)]

    def calling(name: str, other: str) -> Any:
        body = [helper.make_node(other, ["a"], ["b"], domain="mine")]
        return helper.make_function("mine", name, ["a"], ["b"], body, imports)

    node = helper.make_node("A", ["x"], ["y"], domain="mine")
    functions = [calling("A", "B"), calling("B", "C"), calling("C", "B"), calling("D", "D")]
    proto = model([node], {"x": [2]}, ["y"], functions=functions, domains=["mine"])
    assert found_in(tmp_path, proto) == [
        f"the function {name!r}: it calls itself" for name in "BCD"
    ]
    info = gw.inspect(tmp_path / "m.onnx")
    assert "5 nodes of a domain of its own, 4 functions of it" in str(info)


def test_names_that_are_doubled_or_no_text(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["y"])]
    proto = model(nodes, {"x": [2]}, ["y"], stored={"w": np.ones(1, "float32")})
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(2, "float32"), "w"))
    assert found_in(tmp_path, proto) == [
        "'w': it is the name of 2 stored tensors", "'y': it is the name of 2 tensors"
    ]  # fmt: skip
    data = model([helper.make_node("Relu", ["x"], ["y"], "QQQQ")], {"x": [2]}, ["y"])
    path = tmp_path / "bytes.onnx"
    path.write_bytes(data.SerializeToString().replace(b"QQQQ", b"Q\xff\xfeQ"))
    (finding,) = gw.inspect(path).findings
    assert finding.grave and "no UTF-8" in finding.what
    with pytest.raises(ArchiveError):
        gw.onnx.load(path)


def test_sizes_that_nobody_has_and_links_that_lead_out(tmp_path: Path) -> None:
    huge = model([helper.make_node("Relu", ["x"], ["y"])], {"x": [1 << 40, 2]}, ["y"])
    assert found_in(tmp_path, huge) == ["'x': its type is f32[1099511627776, 2]"]
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(12))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "short.bin").write_bytes(bytes(8))
    for location, match in {"link.bin": "leads out", "short.bin": "ends at byte 12"}.items():
        proto = model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": [3]}, ["y"])
        tensor = proto.graph.initializer.add(name="w", data_type=FLOAT, dims=[3])
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)
        (text,) = found_in(folder, proto)
        assert match in text
        with pytest.raises(ArchiveError):
            gw.onnx.load(folder / "m.onnx")


def test_a_good_model_has_no_findings(tmp_path: Path) -> None:
    proto = model([helper.make_node("Relu", ["x"], ["y"])], {"x": ["B", 3]}, ["y"])
    info = gw.inspect(written(tmp_path, proto))
    assert not info.findings and not info.unknown_ops and "findings" not in str(info)
    np.testing.assert_allclose(
        gw.onnx.load(tmp_path / "m.onnx").output({"x": X}, "y")["y"], X.clip(0)
    )


# -- language models -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "cap"), [((1000, 64, 2, 4, 2, 128), None), ((8000, 256, 4, 8, 8, 688), 50.0)]
)
def test_memory_of_a_language_model_is_that_of_its_plans(
    sizes: tuple[int, ...], cap: float | None
) -> None:
    """What is told by formula, beside the arenas of reading a prompt and of a training step."""
    vocabulary, width, layers, heads, kv, inner = sizes
    config = gw.models.DecoderConfig(
        **{"vocabulary": vocabulary, "width": width, "layers": layers, "heads": heads},
        **{"kv_heads": kv, "inner": inner, "attention_cap": cap},
    )
    shape = replace(
        LanguageShape(layers, width, heads, kv, width // heads, inner, vocabulary, 2048),
        capped=cap is not None,
    )
    model, g = gw.models.Decoder(config), gw.models.generation_graph(config)
    slopes = gw.gradients(model.loss, list(model.graph.variables))
    for b, t in ((1, 32), (2, 256), (1, 1024)):
        room = (layers, 2, b, kv, 0, width // heads)
        feeds = {"ids": (b, t), "position": (b,), "last": (b,), "past": room}
        with gw.Session(g) as session:
            taken = session.plan(["logits", "present"], feeds).memory()
        found = shape.memory(taken.variables, taken.variables, {"batch": b, "length": t})
        assert found.weights == taken.variables and found.inputs == b * t * 8
        assert found.cache == b * t * layers * 2 * width * kv // heads * 4
        assert 0.8 < found.peak / (taken.arena + taken.results) < 1.1
        with gw.Session(model.graph) as session:
            arena = session.plan([model.loss, *slopes], {"ids": (b, t), "labels": (b, t)}).memory()
        assert 0.8 < found.results / arena.arena < 1.7


def test_what_a_language_model_tells(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    gw.safetensors.save({"w": np.ones((4, 8), "float16"), "blocks": np.zeros((4, 32), "f4")}, path)
    shape = LanguageShape(2, 64, 4, 2, 16, 128, 1000, 512)
    info = replace(
        gw.inspect(path),
        architecture="llama",
        language=shape,
        tokenizer="byte BPE, 1,000 tokens",
        metadata={"general.name": "<b>tiny"},
        packed={"blocks": Packed("q4_0", 72)},
    )
    info = replace(info, memory=info.at_sizes({"length": 100}))
    assert info.parameters == 4 * 8 + 4 * 32
    assert info.dtypes == {"float16": 64, "q4_0": 72}
    assert info.memory is not None and info.memory.weights == 136 and info.memory.floating == 64
    assert info.memory.cache == 2 * 2 * 2 * 100 * 16 * 4 == shape.cache(1, 100)
    assert info.memory.run == 136 + 800 + info.memory.peak + info.memory.cache
    text, said = str(info), json.loads(info.to_json())
    for line in (
        "architecture  llama", "tokenizer     byte BPE, 1,000 tokens",
        "blocks  f32[4, 32]  q4_0  72",
        "at batch = 1, length = 100",
        f"this machine  {size(machine_bytes())}: enough to run and to train it",
    ):  # fmt: skip
        assert line in text, line
    assert "keys and values of all positions" in " ".join(text.split())
    assert said["tensors"]["blocks"] == {"dtype": "q4_0", "shape": [4, 32], "bytes": 72}
    assert said["language"]["kv_heads"] == 2 and said["memory"]["fits"]["train"] is True
    assert said["architecture"] == "llama" and "<b>tiny" not in info._repr_html_()
    for sizes, match in {
        (("lenght", 5),): "no size 'lenght'[\\s\\S]*did you mean 'length'",
        (("length", 0),): "need: an integer", (("batch", 1.5),): "need: an integer",
    }.items():  # fmt: skip
        with pytest.raises(GraphError, match=match):
            info.at_sizes(dict(sizes))


def test_what_does_not_fit_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = LanguageShape(2, 64, 4, 2, 16, 128, 1000, 512).memory(10_000_000, 10_000_000, {})
    small = LanguageShape(1, 64, 4, 2, 16, 128, 20, 512, capped=True)
    light = small.memory(1000, 1000, {})
    assert found.sizes == {"batch": 1, "length": 512}
    assert found.run < found.train
    # Of a prompt, scores lie beside themselves before they were capped, and there is a cache.
    assert light.train < light.run
    for of, held, said in (
        (found, found.run - 1, "not enough to run it"),
        (found, found.run, "enough to run it"),
        (found, found.train, "enough to run and to train it"),
        (light, light.train, "enough to train it"),
    ):
        monkeypatch.setattr("gradwright.formats.memory.machine_bytes", lambda held=held: held)
        assert of.beside_machine() == f"{size(held)}: {said}"
