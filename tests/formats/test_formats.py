"""Formats: what a file is told by its content, and what its headers say without its arrays."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, GraphError
from gradwright.formats import foreign, registry, source
from gradwright.formats.registry import Format, TensorRange
from gradwright.spec import dtype as as_dtype
from tests.formats.archives import safetensors

onnx = pytest.importorskip("onnx")

BIG = 300_000
"""Elements of the largest array of each file: over a megabyte, which no header needs."""


# -- a file of each format -------------------------------------------------------------------------


def network() -> gw.Graph:
    g = gw.Graph("net")
    x = g.placeholder("x", ("B", 3))
    w = g.variable("w", init=np.arange(12.0, dtype="float32").reshape(3, 4))
    g.variable("big", init=np.linspace(0, 1, BIG, dtype="float32"))
    gw.exp(x @ w, name="y")
    return g


def make_archive(folder: Path) -> tuple[Path, Mapping[str, np.ndarray]]:
    path = folder / "net.gw"
    g = network()
    g.variable("z", init=np.array([1 + 2j, 3]), trainable=False)
    g.constant(np.array(["a", "", "bc"], np.dtypes.StringDType()), name="words")
    g.variable("four", init=np.array([1, -2], as_dtype("int4")), trainable=False)
    state = {"m": np.ones((2, 0)), "big": np.ones(3)}
    gw.save(g, path, state={"ema": state})
    read = dict(gw.load(path).values.items())
    return path, read | {f"ema:{n}": a for n, a in gw.load_state(path, "ema").items()}


def trained(folder: Path, *others: Any) -> gw.Trainer:
    g = network()
    loss = gw.mean(g["y"]) + 0.0 * gw.mean(g["big"])
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.Adam(0.01), callbacks=list(others))
    batch = {"x": np.ones((2, 3), "float32")}
    trainer.fit([batch, batch], epochs=2, progress=False)
    return trainer


def make_checkpoint(folder: Path) -> tuple[Path, Mapping[str, np.ndarray]]:
    kept = gw.Checkpoints(folder / "kept")
    trained(folder, kept)
    return _read_checkpoint(kept.list()[-1].path)


def _read_checkpoint(path: Path) -> tuple[Path, Mapping[str, np.ndarray]]:
    state = gw.load_state(path, "trainer")
    return path, dict(gw.load(path).values.items()) | {f"trainer:{n}": a for n, a in state.items()}


def make_run(folder: Path) -> tuple[Path, Mapping[str, np.ndarray]]:
    run = gw.Run(folder / "run", name="first", store=None)
    checkpoints = gw.Checkpoints(run)
    trained(folder, run, checkpoints)
    return run.folder, _read_checkpoint(checkpoints.list()[-1].path)[1]


def make_onnx(folder: Path) -> tuple[Path, Mapping[str, np.ndarray]]:
    path = folder / "net.onnx"
    g = network()
    gw.mean(g["big"], name="mean")
    model = gw.onnx.to_model(g, ["y", "mean"])
    rng = np.random.default_rng(0)
    extra: dict[str, np.ndarray] = {
        "half": rng.standard_normal((2, 3)).astype("float16"),
        "ids": np.arange(-3, 3),
        "empty": np.zeros((0, 4), "float32"),
        "nibbles": np.array([1, -2, 3], as_dtype("int4")),
    }
    for name, array in extra.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    typed = onnx.helper.make_tensor("typed", onnx.TensorProto.INT32, [3], [1, -1, 300])
    text = onnx.helper.make_tensor("text", onnx.TensorProto.STRING, [2], [b"a", b"bc"])
    floats = onnx.helper.make_tensor("floats", onnx.TensorProto.FLOAT, [2], [0.5, -1.0])
    model.graph.initializer.extend([typed, text, floats])
    path.write_bytes(model.SerializeToString())
    loaded = onnx.load(path)
    found = {t.name: onnx.numpy_helper.to_array(t) for t in loaded.graph.initializer}
    return path, found | {"text": np.array(["a", "bc"], np.dtypes.StringDType())}


def make_safetensors(folder: Path) -> tuple[Path, Mapping[str, np.ndarray]]:
    path = folder / "net.safetensors"
    arrays = {
        "w": np.arange(12.0, dtype="float32").reshape(3, 4),
        "a/b.c": np.arange(3, dtype="int64"),
        "../odd": np.array([True, False]),
        "none": np.zeros((0, 7), "float16"),
        "big": np.linspace(0, 1, BIG),
    }
    library = pytest.importorskip("safetensors.numpy")
    library.save_file(arrays, path, {"format": "np"})
    return path, library.load_file(path)


def make_safetensors_index(folder: Path) -> tuple[Path, Mapping[str, np.ndarray]]:
    """Write what a model of Hugging Face is saved as, if it is large."""
    library = pytest.importorskip("safetensors.numpy")
    path = folder / "net.safetensors.index.json"
    arrays = {
        "w": np.arange(12.0, dtype="float32").reshape(3, 4),
        "none": np.zeros((0, 7), "float16"),
        "big": np.linspace(0, 1, BIG),
        "steps": np.array(7),
    }
    files = {n: f"net-0000{1 + (n == 'big')}-of-00002.safetensors" for n in arrays}
    for file in set(files.values()):
        library.save_file({n: a for n, a in arrays.items() if files[n] == file}, folder / file)
    total = sum(a.nbytes for a in arrays.values())
    index = {"metadata": {"total_size": total, "total_parameters": BIG + 13}, "weight_map": files}
    path.write_text(json.dumps(index, indent=2))
    return path, arrays


MAKERS: dict[str, Callable[[Path], tuple[Path, Mapping[str, np.ndarray]]]] = {
    "safetensors-index": make_safetensors_index,
    "safetensors": make_safetensors,
    "onnx": make_onnx,
    "checkpoint": make_checkpoint,
    "gw": make_archive,
    "run": make_run,
}
FILES = [name for name in MAKERS if name != "run"]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Mapping[str, tuple[Path, Mapping[str, np.ndarray]]]:
    """Return a file of each format, and what a full read of it gives."""
    return {name: make(tmp_path_factory.mktemp(name)) for name, make in MAKERS.items()}


class Counted:
    """A source that counts the bytes that are read, and refuses to read past its end."""

    def __init__(self, held: source.Source, total: list[int] | None = None) -> None:
        self._held, self.total = held, [0] if total is None else total
        self.name, self.size = held.name, held.size

    def read(self, offset: int, n: int) -> bytes:
        assert offset >= 0 and n >= 0
        data = self._held.read(offset, n)
        self.total[0] += len(data)
        return data

    def names(self) -> list[str]:
        return self._held.names()

    def part(self, name: str) -> Counted:
        return Counted(self._held.part(name), self.total)

    def beside(self, name: str) -> Counted:
        return Counted(self._held.beside(name), self.total)


# -- what each format tells ------------------------------------------------------------------------


def test_every_format_is_told_by_its_content(made, tmp_path):
    assert list(MAKERS) == list(registry.FORMATS)
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
    assert forms == {"onnx": {"", "varints", "text", "packed"}, "gw": {"", "text"}}.get(name, {""})


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
        refuses(tmp_path / "m.onnx", "onnx", "'w'")


# -- what is no format, or damaged -----------------------------------------------------------------


def refuses(path: Path, name: str, match: str) -> None:
    for look in (registry.named(name).inspect, registry.named(name).tensors):
        with pytest.raises(ArchiveError, match=match) as caught:
            look(Counted(source.at(path)))
        assert str(caught.value).startswith(str(path))


def test_what_is_of_no_format_says_what_content_and_suffix_may_be(tmp_path):
    path = tmp_path / "net.safetensors"
    for data in (b"", b"hello\n", b"\x08", b"PK\5\6" + bytes(18), bytes(1000), b'{"a": 1}'):
        path.write_bytes(data)
        with pytest.raises(ArchiveError, match=r"no format[\s\S]*'\.safetensors' is that of") as e:
            registry.find(source.at(path))
        assert str(e.value).startswith(str(path))
        for name in FILES:
            refuses(path, name, ".")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "config.json").write_text('{"model_type": "bert"}')
    for folder in (tmp_path, tmp_path / "folder"):
        with pytest.raises(ArchiveError, match="no format"):
            registry.find(source.at(folder))
        with pytest.raises(ArchiveError):
            registry.named("run").tensors(source.at(folder))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", '{"id": "a", "name": "b"}')
    with pytest.raises(ArchiveError, match="no format"):
        registry.find(source.at(path))
    refuses(path, "gw", "not a graph archive")
    for inside in ("../net.safetensors", "/etc/passwd", "", "."):
        with pytest.raises(ArchiveError, match="no entry"):
            source.at(tmp_path).part(inside)
    with pytest.raises(FileNotFoundError):
        source.at(tmp_path / "nowhere")


def test_a_file_that_is_cut_off_is_what_its_suffix_says(made, tmp_path):
    for name, suffix in (("safetensors", ".safetensors"), ("onnx", ".onnx"), ("gw", ".gw")):
        data = made[name][0].read_bytes()
        for n in (200, len(data) // 2, len(data) - 1):
            path = tmp_path / f"cut{suffix}"
            path.write_bytes(data[:n])
            format = registry.find(source.at(path))
            assert suffix in format.suffixes
            refuses(path, name, ".")
            bare = tmp_path / "cut.bin"
            bare.write_bytes(data[:n])
            with pytest.raises(ArchiveError, match=format_title(name)):
                registry.find(source.at(bare))


def format_title(name: str) -> str:
    return f"its content may be[^\n]*{registry.named(name).title}"


F4 = {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "cut off"),
        (b"\1\2\3", "cut off"),
        ((2**63).to_bytes(8, "little") + b"{}", "header has 9,223,372"),
        ((10**8 + 1).to_bytes(8, "little") + b"{}", "header has 100,000,001"),
        ((50).to_bytes(8, "little") + b'{"a', "header has 50"),
        (safetensors(b"{nothing}"), "not valid JSON"),
        (safetensors(b"[]"), "is a list"),
        (safetensors({"w": F4, "v": F4}, bytes(12)), "overlaps"),
        (safetensors({"w": F4, "v": {**F4, "data_offsets": [8, 20]}}, bytes(20)), "overlaps"),
        (safetensors({"w": {**F4, "data_offsets": [4, 16]}}, bytes(16)), "gap"),
        (safetensors({"w": F4}, bytes(11)), "do not fill"),
        (safetensors({"w": {**F4, "shape": [2**62, 8]}}, bytes(12)), "'w' has"),
        (safetensors({"w": {**F4, "shape": [-3]}}, bytes(12)), "negative"),
        (safetensors({"w": {**F4, "dtype": "F33"}}, bytes(12)), "unknown dtype"),
        (safetensors({"w": {"dtype": "F32"}}, bytes(12)), "has no"),
    ],
)
def test_safetensors_that_lie_are_refused(tmp_path, data, match):
    path = tmp_path / "net.safetensors"
    path.write_bytes(data)
    refuses(path, "safetensors", match)


def test_complex_numbers_have_a_code_of_their_own(tmp_path):
    path = tmp_path / "c.safetensors"
    row = {"dtype": "C64", "shape": [2], "data_offsets": [0, 16]}
    path.write_bytes(safetensors({"c": row}, bytes(16)))
    assert str(registry.named("safetensors").tensors(source.at(path))["c"].spec) == "c64[2]"


def test_an_index_names_a_file_that_is_missing_cut_off_or_another_one(tmp_path):
    path, _ = make_safetensors_index(tmp_path)
    files = sorted(tmp_path.glob("*.safetensors"))
    data = [file.read_bytes() for file in files]
    name = "safetensors-index"
    files[1].unlink()
    refuses(path, name, f"{files[1].name}[\\s\\S]*missing")
    for cut in (0, 100, len(data[1]) - 1):
        files[1].write_bytes(data[1][:cut])
        refuses(path, name, f"{files[1].name}.*(cut off|header|do not fill)")
    files[1].write_bytes(data[0])
    refuses(path, name, f"{files[1].name}: the file (lacks|also holds)")
    files[1].write_bytes(data[1])
    held = json.loads(path.read_text())
    for change, match in (
        ({"weight_map": {"w": "../net.safetensors"}}, "no name of a file"),
        ({"weight_map": {"w": 3}}, "weight_map is an integer"),
        ({"weight_map": []}, "weight_map is a list"),
        ({"metadata": 3}, "metadata is an integer"),
        ({"metadata": {"total_size": 1}}, "the index says 1"),
        ({"metadata": {"total_size": "1"}}, "the index says 1"),
    ):
        path.write_text(json.dumps(held | change))
        refuses(path, name, match)
    path.write_text(json.dumps(held)[:-9])
    refuses(path, name, "not valid JSON")
    assert registry.find(source.at(path)).name == name


def test_a_run_shows_its_latest_whole_checkpoint(made, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(made["run"][0], folder)
    checkpoints = sorted((folder / "checkpoints").glob("*.gw"))
    checkpoints[-1].write_bytes(checkpoints[-1].read_bytes()[:100])
    found = registry.named("run").tensors(source.at(folder))
    assert {r.file for t in found.values() for r in t.ranges} == {
        f"checkpoints/{checkpoints[-2].name}"
    }
    shutil.rmtree(folder / "checkpoints")
    assert registry.find(source.at(folder)).name == "run"
    assert not registry.named("run").tensors(source.at(folder))
    (folder / "config.json").write_text("{")
    assert registry.named("run").recognise(source.at(folder)) is None
    refuses(folder, "run", "config.json: not valid JSON")


@pytest.mark.parametrize("name", FILES)
def test_damaged_bytes_never_surprise(made, tmp_path, name):
    """200 files with changed bytes, most in their headers, and cuts: an error, or an answer."""
    data = made[name][0].read_bytes()
    rng = np.random.default_rng(7)
    path = tmp_path / "damaged.bin"
    ends = np.r_[0 : min(2000, len(data)), max(0, len(data) - 2000) : len(data)]
    for i in range(200):
        changed = bytearray(data)
        for at in rng.choice(ends, int(rng.integers(1, 4))):
            changed[at] ^= int(rng.integers(1, 256))
        if i % 5 == 0:
            del changed[int(rng.integers(0, len(data))) :]
        path.write_bytes(changed)
        counted = Counted(source.at(path))
        for look in (registry.find, *looks(registry.named(name))):
            try:
                look(counted)
            except ArchiveError as error:
                assert str(error).startswith(str(path))
        assert counted.total[0] < 8 * len(data)


def looks(format: Format) -> list[Callable[[source.Source], Any]]:
    return [format.inspect, format.tensors]


# -- what users see --------------------------------------------------------------------------------


def test_loading_a_file_of_another_kind_says_what_it_is(made):
    for load in (gw.load, gw.inspect, lambda path: gw.load_state(path, "ema")):
        for name, match in {
            "safetensors": "this is a safetensors file, not a graph archive[\\s\\S]*load_file",
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
    from gradwright.formats.onnx.node import ONNX

    before = list(gw.onnx.operators()["", "Flatten"])
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
        ONNX.readers["", "Flatten"] = before


def test_json_of_a_run_is_read_strictly(made, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(made["run"][0], folder)
    held = json.loads((folder / "config.json").read_text())
    for change in ({"id": 3}, {"name": None}):
        (folder / "config.json").write_text(json.dumps(held | change))
        refuses(folder, "run", next(iter(change)))
