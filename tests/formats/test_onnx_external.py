"""Weights beside an ONNX model: mapped, written together with it, and nothing else read."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, GraphError
from gradwright.formats.onnx.external import saving
from gradwright.spec import dtype as as_dtype
from tests.formats.onnx_models import FLOAT, TensorProto, helper, model, onnx

RNG = np.random.default_rng(0)


def network(scale: float = 1.0) -> gw.Graph:
    g = gw.Graph("net")
    x = g.placeholder("x", ("B", 32))
    w = g.variable("w", init=np.float32(scale * RNG.standard_normal((32, 24))))
    b = g.constant(np.float32(RNG.standard_normal(24)), "b")
    table = g.constant(RNG.integers(-8, 8, (24, 16)).astype(as_dtype("int4")), "table")
    flags = g.constant(RNG.random((1030,)) > 0.5, "flags")
    y = gw.tanh(x @ w + b) @ gw.cast(table, "float32")
    gw.sum(gw.cast(flags, "float32"), name="count")
    g.rename(y, "y")
    return g


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def ran(path: Path, x: Any) -> dict[str, Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return dict(zip(["y", "count"], session.run(["y", "count"], {"x": x}), strict=True))


@pytest.mark.parametrize("threshold", [0, 200, 1024])
def test_written_beside_and_read_by_all(tmp_path: Path, threshold: int) -> None:
    g, path = network(), tmp_path / "model.onnx"
    gw.onnx.save(g, path, external=True, threshold=threshold)
    assert files(tmp_path) == ["model.onnx", "model.onnx.data"]
    proto = onnx.load(path, load_external_data=False)
    outside = [t for t in proto.graph.initializer if t.data_location == t.EXTERNAL]
    arrays = {t.name: onnx.numpy_helper.to_array(t, str(tmp_path)) for t in outside}
    assert {"w", "flags"} <= arrays.keys()
    assert ("table" in arrays) == (threshold < 1024) and ("b" in arrays) == (threshold == 0)
    for t in outside:
        assert int({e.key: e.value for e in t.external_data}["offset"]) % 64 == 0
        if t.name in g.values:
            np.testing.assert_array_equal(arrays[t.name], g.values[t.name])
    onnx.checker.check_model(path)
    x = np.float32(RNG.standard_normal((3, 32)))
    found, known = gw.onnx.load(path), g.output({"x": x}, "y", "count")
    for name, y in found.output({"x": x}, "y", "count").items():
        np.testing.assert_array_equal(y, known[name])
    for name, y in ran(path, x).items():
        np.testing.assert_allclose(y, known[name], rtol=1e-5, atol=1e-5)


def test_one_file_unless_asked(tmp_path: Path) -> None:
    gw.onnx.save(network(), tmp_path / "model.onnx")
    assert files(tmp_path) == ["model.onnx"]
    gw.onnx.save(network(), tmp_path / "model.onnx", external=True)
    gw.onnx.save(network(), tmp_path / "model.onnx", external=False)
    assert files(tmp_path) == ["model.onnx"]  # what it named is gone with it


def test_large_models_go_beside_on_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "MAX_BYTES", 3000)
    gw.onnx.save(network(), tmp_path / "model.onnx")
    assert files(tmp_path) == ["model.onnx", "model.onnx.data"]
    for how in ({"external": False}, {"threshold": 1 << 20}):
        with pytest.raises(GraphError, match="3,000 at most"):
            gw.onnx.save(network(), tmp_path / "other.onnx", **how)  # type: ignore[arg-type]
    assert files(tmp_path) == ["model.onnx", "model.onnx.data"]


def test_over_what_is_mapped(tmp_path: Path) -> None:
    """A model written over the one that it was read from; its name stays."""
    path, x = tmp_path / "model.onnx", np.ones((2, 32), np.float32)
    g = network()
    gw.onnx.save(g, path, external=True)
    for _ in range(3):
        g = gw.onnx.load(path)
        gw.onnx.save(g, path, external=True)
        assert files(tmp_path) == ["model.onnx", "model.onnx.data"]
    again = gw.onnx.load(path).output({"x": x}, "y")["y"]
    np.testing.assert_array_equal(g.output({"x": x}, "y")["y"], again)


@pytest.mark.parametrize("at", range(8))
def test_whatever_fails_one_of_both_models_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    path, x = tmp_path / "model.onnx", np.ones((2, 32), np.float32)
    old, new = network(), network(scale=2.0)
    gw.onnx.save(old, path, external=True)
    known = [g.output({"x": x}, "y")["y"] for g in (old, new)]
    calls = iter(range(99))

    def failing(real: Any) -> Any:
        def called(*args: Any, **kwargs: Any) -> Any:
            if next(calls) == at:
                raise OSError("the disk is full")
            return real(*args, **kwargs)

        return called

    for where, name in (
        (os, "open"), (os, "fsync"), (os, "link"), (Path, "replace"),
    ):  # fmt: skip
        monkeypatch.setattr(where, name, failing(getattr(where, name)))
    try:
        gw.onnx.save(new, path, external=True)
    except OSError as error:
        assert "full" in str(error)
    monkeypatch.undo()
    y = gw.onnx.load(path).output({"x": x}, "y")["y"]
    assert any(np.array_equal(y, k) for k in known)
    assert len(files(tmp_path)) == 2, files(tmp_path)


def test_writers_side_by_side(tmp_path: Path) -> None:
    """Whoever is last, model and data belong together."""
    path, x = tmp_path / "model.onnx", np.ones((2, 32), np.float32)
    graphs = [network(scale) for scale in (1.0, 2.0, 3.0)]

    def save(g: gw.Graph) -> None:
        for _ in range(5):
            gw.onnx.save(g, path, external=True)

    threads = [threading.Thread(target=save, args=(g,)) for g in graphs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    y = gw.onnx.load(path).output({"x": x}, "y")["y"]
    assert any(np.array_equal(y, g.output({"x": x}, "y")["y"]) for g in graphs)


def test_a_disk_without_links_keeps_both_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*args: Any) -> None:
        raise OSError("not supported")

    monkeypatch.setattr(os, "link", link)
    g, x = network(), np.ones((2, 32), np.float32)
    for _ in range(3):
        gw.onnx.save(g, tmp_path / "model.onnx", external=True)
        assert len(files(tmp_path)) == 2
    y = gw.onnx.load(tmp_path / "model.onnx").output({"x": x}, "y")["y"]
    np.testing.assert_array_equal(y, g.output({"x": x}, "y")["y"])


def test_files_of_others_stay(tmp_path: Path) -> None:
    """What is removed is called as the model's own, and named by the model that goes."""
    (tmp_path / "notes.data").write_text("mine")
    (tmp_path / "model.onnx-0123456789abcdef.data").write_text("mine, too")
    proto = external(tmp_path, 3, location="notes.data")
    (tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
    gw.onnx.save(network(), tmp_path / "model.onnx", external=True)
    assert (tmp_path / "notes.data").read_text() == "mine"
    assert (tmp_path / "model.onnx-0123456789abcdef.data").read_text() == "mine, too"


# -- reading ---------------------------------------------------------------------------------------


def external(folder: Path, n: int, dtype: int = FLOAT, **entries: Any) -> Any:
    """Return a model ``y = x + w`` whose weights lie outside."""
    proto = model([helper.make_node("Identity", ["w"], ["y"])], {"x": [n]}, ["y"])
    proto.graph.output[0].type.tensor_type.elem_type = dtype
    tensor = TensorProto(name="w", data_type=dtype, dims=[n], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    proto.graph.initializer.append(tensor)
    return proto


def test_3_gb_load_at_once_and_are_not_read(tmp_path: Path) -> None:
    """A file of holes: three gigabytes, of which the disk has none and memory little."""
    n, path = 1 << 28, tmp_path / "model.onnx"
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(3 * 4 * n)
        file.seek(8 * n + 4 * 5)
        file.write(np.float32(7.0).tobytes())
    nodes = [helper.make_node("Gather", [f"w{i}", "i"], [f"y{i}"]) for i in range(3)]
    proto = model(nodes, {"i": (TensorProto.INT64, [1])}, ["y0", "y1", "y2"])
    for i in range(3):
        tensor = TensorProto(name=f"w{i}", data_type=FLOAT, dims=[n], data_location=1)
        place = {"location": "w.bin", "offset": 4 * n * i, "length": 4 * n}
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        proto.graph.initializer.append(tensor)
    path.write_bytes(proto.SerializeToString())
    before = resident()
    g = gw.onnx.load(path)
    y = g.output({"i": np.int64([5])}, "y0", "y1", "y2")
    assert resident() - before < 200 << 20
    assert [v.tolist() for v in y.values()] == [[0.0], [0.0], [7.0]]
    assert not g.values["w0"].flags.writeable


def test_2_gb_are_written_beside_and_read_again(tmp_path: Path) -> None:
    """Zeros that memory has not been asked for yet; on disk they are holes."""
    n, g, path = 1 << 28, gw.Graph(), tmp_path / "model.onnx"
    i = g.placeholder("i", (1,), dtype="int64")
    for k in range(2):
        gw.gather(g.variable(f"w{k}", (n,)), i, name=f"y{k}")
    g.values.array("w1")[5] = 7.0
    before = resident()
    gw.onnx.save(g, path)
    assert (tmp_path / "model.onnx.data").stat().st_size == 8 * n >= 1 << 31
    assert (tmp_path / "model.onnx.data").stat().st_blocks * 512 < 16 << 20
    found = gw.onnx.load(path).output({"i": np.int64([5])}, "y0", "y1")
    assert resident() - before < 200 << 20
    assert [y.tolist() for y in found.values()] == [[0.0], [7.0]]


def resident() -> int:
    """Return the bytes of memory that are this process's alone; mapped files are not."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_elements_of_any_dtype_anywhere_in_the_file(tmp_path: Path) -> None:
    """Those that are not aligned are copied, bools become 0 or 1, narrow ones are unpacked."""
    data = bytes(RNG.integers(0, 256, 64).astype("u1"))
    (tmp_path / "w.bin").write_bytes(data)
    for dtype in ("float32", "int64", "bfloat16", "bool", "int4", "complex64", "float8_e4m3fn"):
        number = helper.np_dtype_to_tensor_dtype(as_dtype(dtype))
        for offset in (0, 8, 3):
            proto = external(tmp_path, 4, number, location="w.bin", offset=offset)
            (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
            w = gw.onnx.load(tmp_path / "m.onnx").values["w"]
            nbytes = 2 if dtype == "int4" else 4 * w.dtype.itemsize
            raw = data[offset : offset + nbytes]
            held = TensorProto(data_type=number, dims=[4], raw_data=raw)
            known = onnx.numpy_helper.to_array(held)
            expected = known.view(np.uint8) != 0 if dtype == "bool" else known
            assert w.dtype == as_dtype(dtype) and w.flags.aligned
            assert w.tobytes() == expected.tobytes()


def test_a_link_to_the_model_leads_to_its_data(tmp_path: Path) -> None:
    """As in the cache of a hub: the files have other names there, and links have theirs."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir(), snapshot.mkdir()
    gw.onnx.save(network(), blobs / "model.onnx", external=True)
    (snapshot / "model.onnx").symlink_to("../blobs/model.onnx")
    assert len(gw.onnx.load(snapshot / "model.onnx").values) >= 4  # only the model is linked
    (blobs / "model.onnx.data").rename(blobs / "1a2b")
    (snapshot / "model.onnx.data").symlink_to("../blobs/1a2b")
    assert len(gw.onnx.load(snapshot / "model.onnx").values) >= 4
    gw.onnx.save(network(), snapshot / "model.onnx", external=True)  # goes where the link leads
    assert files(blobs) == ["1a2b", "model.onnx", "model.onnx.data"]


@pytest.mark.parametrize(
    "location",
    ["pipe", "/dev/zero", "..", ".", "a\0b", "loop", "x" * 5000, "../model/../secret", "C:w.bin",
     "\\\\server\\w.bin", "sub/../../secret", "linked/secret"],
)  # fmt: skip
def test_nothing_else_is_opened(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(12))
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    (folder / "linked").symlink_to("..")
    proto = external(folder, 3, location=location)
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(ArchiveError, match="in the folder of the model"):
        gw.onnx.load(folder / "m.onnx")


@pytest.mark.parametrize(
    ("n", "entries", "match"),
    [
        (3, {"offset": 2**63 - 1}, "at most 12"),
        (3, {"offset": "9" * 30}, "a whole number"),
        (3, {"offset": "٣"}, "a whole number"),
        (3, {"length": 8}, "need: 12"),
        (2**62, {}, "no stored tensor"),
        (2**62, {"length": 2**63}, "no stored tensor"),
        (3, {"length": "-12"}, "a whole number"),
    ],
)
def test_places_that_are_none(tmp_path: Path, n: int, entries: Any, match: str) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(12))
    proto = external(tmp_path, n, location="w.bin", **entries)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(ArchiveError, match=match):
        gw.onnx.load(tmp_path / "m.onnx")


def test_training_what_is_mapped_leaves_the_file_alone(tmp_path: Path) -> None:
    """Variables are copies, be they asked for when it is loaded or later."""
    path = tmp_path / "model.onnx"
    gw.onnx.save(network(), path, external=True)
    data = (tmp_path / "model.onnx.data").read_bytes()
    for trainable in (True, False):
        g = gw.onnx.load(path, trainable=trainable)
        if not trainable:
            g.to_variable("w")
        trainer = gw.Trainer(g, gw.mean(g["y"] ** 2), optimizer=gw.optim.Adam(0.1))
        before = g.values["w"].copy()
        for _ in range(3):
            trainer.step({"x": np.ones((2, 32), np.float32)})
        assert np.abs(trainer.graph.values["w"] - before).max() > 0.1
    assert (tmp_path / "model.onnx.data").read_bytes() == data
