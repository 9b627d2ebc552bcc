"""Formats: what a file is told by its content, and what its headers say without its arrays."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, GraphError
from gradwright.formats import foreign, registry, source
from gradwright.formats.registry import TensorRange
from gradwright.spec import dtype as as_dtype
from tests.formats import every_format
from tests.formats.every_format import BIG, MAKERS, Counted, onnx, refuses

made = pytest.fixture(scope="module")(every_format.made)
FORMS = {
    "onnx": {"", "varints", "text", "packed"},
    "gw": {"", "texts"},
    "gguf": {"", "ggml:q4_0", "ggml:q8_0"},
}
"""Format -> how bytes of its file stand for elements."""


# -- what each format tells ------------------------------------------------------------------------


def test_every_format_is_told_by_its_content(made, tmp_path):
    assert [*MAKERS, "pickle"] == list(registry.FORMATS)  # of which no tensor is read
    for name, (path, _) in made.items():
        for other in ("file", "file.bin", "file.onnx", "file.gw", "file.safetensors"):
            copy = tmp_path / name / other
            copy.parent.mkdir(exist_ok=True)
            shutil.copytree(path, copy) if path.is_dir() else shutil.copy(path, copy)
            assert registry.find(source.at(copy)).name == name


@pytest.mark.parametrize("name", MAKERS)
def test_headers_say_what_a_full_read_gives(made, name):
    path, read = made[name]
    counted = Counted(source.at(path))
    format = registry.named(name)
    found, info = format.tensors(counted), format.inspect(counted)
    size = sum(p.stat().st_size for p in (path if path.is_dir() else path.parent).rglob("*"))
    assert counted.total[0] < 70_000 < BIG * 4 < size
    assert {n: str(t.spec) for n, t in found.items()} == {
        n: str(gw.TensorSpec(a.shape, as_dtype(a.dtype))) for n, a in read.items()
    }
    assert {n: str(s) for n, s in info.tensors.items()} == {
        n: str(t.spec) for n, t in found.items()
    }
    assert info.path == path and info.name in {"net", "first"} and not info.unknown_ops
    for key, tensor in found.items():
        if not tensor.form:
            assert fetched(path, tensor).tobytes() == read[key].tobytes(), key
    forms = {tensor.form for tensor in found.values()}
    assert forms == FORMS.get(name, {""})


def fetched(path: Path, tensor: TensorRange) -> np.ndarray:
    """Read a tensor by its ranges, as whoever maps or sends it would."""
    data = b""
    for r in tensor.ranges:
        folder = path if path.is_dir() else path.parent
        with (folder / r.file if r.file else path).open("rb") as file:
            file.seek(r.start)
            data += file.read(r.nbytes)
    return np.frombuffer(data, tensor.dtype).reshape(tensor.shape)


def test_ops_are_counted_and_unknown_ones_named(made, tmp_path):
    path, _ = made["onnx"]
    model = onnx.load(path)
    counts = gw.formats.onnx.format.inspect(source.at(path)).ops
    assert counts == {"MatMul": 1, "Exp": 1, "ReduceMean": 1}
    model.graph.node.append(onnx.helper.make_node("Odd", ["y"], ["odd"], domain="mine"))
    inner = onnx.helper.make_graph([onnx.helper.make_node("Strange", [], ["s"])], "i", [], [])
    model.graph.node.append(onnx.helper.make_node("If", ["y"], ["if"], then_branch=inner))
    odd = tmp_path / "odd.onnx"
    odd.write_bytes(model.SerializeToString())
    info = registry.find(source.at(odd)).inspect(source.at(odd))
    assert info.ops["mine:Odd"] == 1 and info.ops["Strange"] == 1 and info.ops["If"] == 1
    assert info.unknown_ops == {
        "mine:Odd": "of opset not stated is not known",
        "Strange": "of opset 23 is not known",
    }
    assert dict(gw.inspect(made["gw"][0]).ops) == {"exp": 1, "matmul": 1}


def test_sparse_and_lying_tensors_of_a_model(tmp_path):
    path = tmp_path / "m.onnx"
    values = onnx.helper.make_tensor("s", onnx.TensorProto.FLOAT, [2], [1.0, 2.0])
    indices = onnx.helper.make_tensor("i", onnx.TensorProto.INT64, [2], [1, 5])
    graph = onnx.helper.make_graph([], "g", [], [])
    graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, [2, 3]))
    path.write_bytes(onnx.helper.make_model(graph).SerializeToString())
    found = registry.named("onnx").tensors(source.at(path))["s"]
    assert (str(found.spec), found.form) == ("f32[2, 3]", "sparse")
    proto = onnx.TensorProto
    for lie in (
        proto(name="w", data_type=1, dims=[3], raw_data=bytes(8)),
        proto(name="w", data_type=1, dims=[-1], raw_data=bytes(8)),
        proto(name="w", data_type=99, dims=[2], raw_data=bytes(8)),
        proto(name="w", data_type=1, dims=[2**62], float_data=[1.0]),
        proto(name="w", data_type=7, dims=[2**62], int64_data=[1]),
        proto(name="w", data_type=8, dims=[2**62], string_data=[b"a"]),
        proto(name="w", data_type=1, dims=[1], float_data=[1.0], raw_data=bytes(4)),
    ):
        del graph.initializer[:]
        graph.initializer.append(lie)
        path.write_bytes(onnx.helper.make_model(graph).SerializeToString())
        refuses(path, "onnx", "'w'")


def test_external_data_lies_beside_the_model(tmp_path):
    array = np.arange(6, dtype="float32").reshape(2, 3)
    tensor = onnx.numpy_helper.from_array(array, "w")
    graph = onnx.helper.make_graph([], "g", [], [], [tensor])
    model = onnx.helper.make_model(graph)
    onnx.save(
        model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0
    )
    found = registry.named("onnx").tensors(source.at(tmp_path / "m.onnx"))["w"]
    (r,) = found.ranges
    assert r.file == "m.data"
    assert (tmp_path / r.file).read_bytes()[r.start : r.start + r.nbytes] == array.tobytes()
    for location in ("../m.data", "/etc/passwd", "a/../../b", "C:\\m", "..\\m", ""):
        del tensor.external_data[:]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)
        del model.graph.initializer[:]
        model.graph.initializer.append(tensor)
        (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
        with pytest.raises(ArchiveError, match="'w'"):
            registry.named("onnx").tensors(source.at(tmp_path / "m.onnx"))
        (finding,) = gw.inspect(tmp_path / "m.onnx").findings
        assert finding.grave and finding.where == "tensor 'w'" and repr(location) in finding.what


# -- what users see --------------------------------------------------------------------------------


def test_loading_a_file_of_another_kind_says_what_it_is(made):
    for load in (gw.load, lambda path: gw.load_state(path, "ema")):
        for name, match in {
            "safetensors": "this is a safetensors file, not a graph archive[\\s\\S]*gw.open",
            "onnx": "this is an ONNX model, not a graph archive[\\s\\S]*gw.onnx.load",
            "run": "this is the folder of a run, not a graph archive[\\s\\S]*gw.resume",
        }.items():
            path = made[name][0]
            with pytest.raises(ArchiveError, match=match) as caught:
                load(path)
            assert str(caught.value).startswith(f"{path}: this is")
    for name, match in {
        "safetensors": "this is a safetensors file, not an ONNX model",
        "gw": "this is a graph archive, not an ONNX model[\\s\\S]*gw.load",
    }.items():
        with pytest.raises(ArchiveError, match=match):
            gw.onnx.load(made[name][0])


def test_a_folder_that_is_no_run_cannot_be_opened(tmp_path):
    with pytest.raises(OSError):
        gw.load(tmp_path)


# -- dialects --------------------------------------------------------------------------------------


def test_a_reader_serves_from_its_version_on_and_is_replaced_by_name():
    dialect = foreign.Dialect()
    opened: list[int] = []
    dialect.openers.append(lambda: opened.append(1))
    dialect.declared.append(lambda: {("", "Rule"): [foreign.Reader(len, 2)]})
    for since in (5, 1, 5):
        dialect.reads("Op", since=since)(lambda node, since=since: since)
    found = [dialect.find(foreign.Foreign("Op", version)) for version in (0, 1, 4, 5, 9)]
    assert [r and r.since for r in found] == [None, 1, 1, 5, 5] and opened == [1]
    assert dialect.find(foreign.Foreign("Rule", 2)) == foreign.Reader(len, 2)
    assert dialect.find(foreign.Foreign("Op", 9, domain="mine")) is None
    assert len(dialect.known()["", "Op"]) == 2


def test_a_reader_of_a_user_takes_the_place_of_one_that_is_there():
    node = onnx.helper.make_node("Flatten", ["x"], ["y"])
    ends = [onnx.helper.make_tensor_value_info(n, 1, [2, 3]) for n in "xy"]
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", ends[:1], ends[1:]))
    try:
        gw.onnx.reads("Flatten")(lambda node, x: x + 1.0)
        found = gw.onnx.load(model).output({"x": np.zeros((2, 3), "float32")}, "y")["y"]
        assert found.tolist() == np.ones((2, 3)).tolist()
        gw.onnx.reads("Flatten", since=2)(lambda node, x: 1 / 0)
        with pytest.raises((ArchiveError, GraphError), match="Flatten"):
            gw.onnx.load(model)
    finally:
        gw.onnx.forget("Flatten")
