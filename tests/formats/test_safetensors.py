"""Safetensors, read and written: dtypes, views, slices, several files; beside the library."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, GraphError
from gradwright.formats.safetensors.header import PACKED, PLAIN
from gradwright.spec import dtype as as_dtype

library = pytest.importorskip("safetensors.numpy")


def drawn(name: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Return any bits as numbers of a dtype, so that none is lost on the way."""
    rng, dtype = np.random.default_rng(seed), as_dtype(name)
    if name == "bool":
        return rng.random(shape) < 0.5
    if name in PACKED:
        return rng.integers(0, 16, shape, dtype=np.uint8).view(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    return rng.integers(0, 256, size, dtype=np.uint8).view(dtype).reshape(shape)


def same(a: Any, b: Any) -> bool:
    """Tell whether arrays are equal to the bit, NaN included."""
    a, b = np.asarray(a), np.asarray(b)
    return (a.shape, a.dtype, a.tobytes()) == (b.shape, b.dtype, b.tobytes())


@pytest.mark.parametrize("name", [*PLAIN, *PACKED])
def test_every_dtype_comes_back_bit_for_bit(name, tmp_path):
    arrays = {
        "matrix": drawn(name, (6, 4)), "scalar": drawn(name, (2,)), "none": drawn(name, (0, 2))
    }  # fmt: skip
    path = tmp_path / "net.safetensors"
    gw.safetensors.save(arrays, path)
    found = gw.open(path)
    assert set(found) == set(arrays) and len(found) == 3 and "matrix" in found
    for key, array in arrays.items():
        assert same(found[key], array), key
        assert found.specs[key] == gw.TensorSpec(array.shape, array.dtype)
        with pytest.raises(ValueError, match="read-only"):
            found[key][...] = 0
    info = gw.inspect(path)
    assert info.parameters == 26 and info.nbytes == path.stat().st_size


def test_what_torch_writes_is_read_and_torch_reads_what_we_write(tmp_path):
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("safetensors.torch")
    kinds = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
    kinds += ("float8_e8m0fnu", "complex64", "float16", "bool")
    bits = {k: drawn(k, (4, 8), i) for i, k in enumerate(kinds)}
    tensors = {
        k: torch.from_numpy(a.view(np.uint8).copy()).view(getattr(torch, k))
        for k, a in bits.items()
    }
    theirs.save_file(tensors, tmp_path / "theirs.safetensors")
    found = gw.open(tmp_path / "theirs.safetensors")
    assert all(same(found[k], a) for k, a in bits.items())
    gw.safetensors.save(bits, tmp_path / "ours.safetensors")
    for k, tensor in theirs.load_file(tmp_path / "ours.safetensors").items():
        assert str(tensor.dtype) == f"torch.{k}" and tuple(tensor.shape) == (4, 8)
        assert tensor.view(torch.uint8).numpy().tobytes() == bits[k].tobytes()


def test_bytes_are_those_of_the_library(tmp_path):
    kinds = [k for k in PLAIN if as_dtype(k).isbuiltin == 1]  # that the library takes from numpy
    arrays = {k: drawn(k, (2, 3)) for k in kinds} | {'é"\n': np.zeros(2), "b": np.array(7, "f4")}
    assert len(kinds) == 13
    for metadata in (None, {"format": "np"}):
        gw.safetensors.save(arrays, tmp_path / "a.safetensors", metadata=metadata)
        assert (tmp_path / "a.safetensors").read_bytes() == library.save(arrays, metadata)


def views() -> dict[str, np.ndarray]:
    a = np.arange(24, dtype="float32").reshape(4, 6)
    wide = np.arange(12, dtype="bfloat16")
    return {
        "transposed": a.T, "strided": a[::2, 1::3], "reversed": a[::-1], "column": a[:, 2],
        "fortran": np.asfortranarray(a), "broadcast": np.broadcast_to(a[0], (5, 6)),
        "swapped": np.arange(60, dtype="int64").reshape(3, 4, 5).transpose(2, 0, 1),
        "big_endian": a.astype(">f4"), "brain": wide[::-2], "scalar": a[1, 2],
        "field": np.ones(3, [("x", "f4"), ("y", "f4")])["y"], "fp8": a.astype("float8_e5m2").T,
        "four": np.arange(16).astype(ml_dtypes.float4_e2m1fn)[::2],
    }  # fmt: skip


def test_views_are_written_as_they_are_seen(tmp_path):
    """The library, 0.8.0, writes what lies below them."""
    arrays = views()
    gw.safetensors.save(arrays, tmp_path / "v.safetensors")
    found = gw.open(tmp_path / "v.safetensors")
    for name, array in arrays.items():
        held = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)
        assert same(found[name], held), name
    plain = {n: a for n, a in arrays.items() if n not in ("brain", "fp8", "four")}
    for name, array in library.load_file(
        written(tmp_path / "plain.safetensors", plain)
    ).items():  # and the library reads them so
        np.testing.assert_array_equal(array, plain[name], err_msg=name)


def written(path: Path, arrays: Any, **how: Any) -> Path:
    gw.safetensors.save(arrays, path, **how)
    return path


def test_a_large_view_is_written_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("gradwright.formats.safetensors.writing.PIECE", 10)
    a = np.arange(7 * 9, dtype="float32").reshape(7, 9)
    assert same(gw.open(written(tmp_path / "v.safetensors", {"a": a.T}))["a"], a.T.copy())


@pytest.mark.parametrize("code", ["F6_E2M3", "F6_E3M2"])
def test_six_bits_are_told_and_not_guessed(code, tmp_path):
    """Four elements share three bytes, in an order that the format leaves to its writers."""
    rows = {
        "six": {"dtype": code, "shape": [2, 4], "data_offsets": [0, 6]},
        "w": {"dtype": "F16", "shape": [3], "data_offsets": [6, 12]},
    }
    head = json.dumps(rows).encode()
    data = len(head).to_bytes(8, "little") + head + bytes(12)
    assert {n: row["shape"] for n, row in library.deserialize(data)} == {"six": [2, 4], "w": [3]}
    (tmp_path / "m.safetensors").write_bytes(data)
    name = f"float6_{code[3:].lower()}fn"
    info = gw.inspect(tmp_path / "m.safetensors")
    assert info.dtypes == {name: 6, "float16": 6} and info.parameters == 11
    found = gw.open(tmp_path / "m.safetensors")
    assert found["w"].tolist() == [0, 0, 0] and str(found.specs["six"].dtype) == name
    for read in (lambda: found["six"], lambda: list(found.pieces("six"))):
        with pytest.raises(ArchiveError, match=rf"is {name}, and how elements of 6 bits"):
            read()
    rows["six"] |= {"shape": [7], "data_offsets": [0, 6]}
    head = json.dumps(rows).encode()
    (tmp_path / "m.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes(12))
    with pytest.raises(ArchiveError, match="ends within a byte"):
        gw.open(tmp_path / "m.safetensors")


# -- several files ---------------------------------------------------------------------------------


def test_files_of_a_size_are_joined_by_an_index(tmp_path):
    arrays = {f"w{i}": drawn("float32", (i + 1, 10), i) for i in range(8)}
    path = tmp_path / "model.safetensors"
    gw.safetensors.save(arrays, path, metadata={"format": "np"}, max_file_bytes=500)
    names = sorted(p.name for p in tmp_path.iterdir())
    files = [f"model-{i:05}-of-{len(names) - 1:05}.safetensors" for i in range(1, len(names))]
    assert names == [*files, "model.safetensors.index.json"] and len(files) == 4
    index = json.loads((tmp_path / names[-1]).read_text())
    assert index["metadata"] == {"total_parameters": 360, "total_size": 1440}
    loaded = {}
    for file in files:
        part = library.load_file(tmp_path / file)
        assert sum(a.nbytes for a in part.values()) <= 500
        assert {index["weight_map"][n] for n in part} == {file}
        loaded |= part
    found = gw.open(tmp_path / names[-1])
    assert list(found) == sorted(arrays) and found.metadata == {"format": "np"}
    assert all(same(found[n], a) and same(loaded[n], a) for n, a in arrays.items())
    info = gw.inspect(tmp_path / names[-1])
    assert dict(info.files) == {f: (tmp_path / f).stat().st_size for f in files}
    assert info.nbytes == sum(p.stat().st_size for p in tmp_path.iterdir())
    assert "model-00001-of-00004.safetensors" in str(info) and info.dtypes == {"float32": 1440}
    gw.safetensors.save(arrays, tmp_path / names[-1], max_file_bytes=1)  # one array is not cut
    assert len(list(tmp_path.glob("model-*-of-00008.safetensors"))) == 8 == len(arrays)


def test_what_was_saved_before_is_replaced_and_nothing_else(tmp_path):
    path, arrays = tmp_path / "m.safetensors", {n: np.ones(4) for n in "abc"}
    other = tmp_path / "m-00001-of-00009.safetensors"  # called alike, and named by no index
    other.write_bytes(b"mine")
    gw.safetensors.save(arrays, path, max_file_bytes=32)
    assert not path.exists() and len(list(tmp_path.iterdir())) == 5
    gw.safetensors.save(arrays, path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [other.name, "m.safetensors"]
    gw.safetensors.save(arrays, path, max_file_bytes=64)
    index = tmp_path / "m.safetensors.index.json"
    lying = json.loads(index.read_text())
    lying["weight_map"]["d"] = "../m-00001-of-00009.safetensors"
    lying["weight_map"]["e"] = "other.txt"
    (tmp_path / "other.txt").write_text("mine")
    index.write_text(json.dumps(lying))
    gw.safetensors.save(arrays, path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [other.name, "m.safetensors", "other.txt"]
    assert other.read_bytes() == b"mine"


class Fails:
    """An array that cannot be read."""

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise RuntimeError("gone")


def test_a_save_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    path = written(tmp_path / "m.safetensors", {"a": np.ones(4)})
    before = path.read_bytes()
    for arrays, metadata, match in (
        ({"a": np.array([1j])}, None, "has no complex128"),
        ({"a": np.array(["x"], np.dtypes.StringDType())}, None, "has no str"),
        ({"a": np.ones(2, "longdouble")}, None, "not a dtype"),
        ({"a": drawn("float4_e2m1fn", (3,))}, None, "ends? within a byte"),
        ({"": np.ones(1)}, None, "cannot name a tensor"),
        ({"__metadata__": np.ones(1)}, None, "cannot name a tensor"),
        ({"\ud800": np.ones(1)}, None, "cannot name a tensor"),
        ({1: np.ones(1)}, None, "cannot name a tensor"),
        ({"a": np.ones(1)}, {"n": 1}, "is no text"),
    ):
        with pytest.raises(GraphError, match=match):
            gw.safetensors.save(arrays, path, metadata=metadata)
    with pytest.raises(GraphError, match="max_file_bytes=0"):
        gw.safetensors.save({}, path, max_file_bytes=0)
    with pytest.raises(RuntimeError, match="gone"):
        gw.safetensors.save({"a": np.ones(1), "b": Fails()}, path)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gradwright.formats.safetensors.writing.Row.data", full)
    for most in (None, 8):
        with pytest.raises(OSError, match="No space"):
            gw.safetensors.save({"a": np.ones(1), "b": np.ones(1)}, path, max_file_bytes=most)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == [path.name]


# -- reading ---------------------------------------------------------------------------------------


def test_a_wrong_name_is_told_and_values_are_restored(tmp_path):
    g = gw.Graph()
    g.variable("weight", (2, 3))
    path = written(tmp_path / "m.safetensors", {"weight": np.arange(6.0, dtype="f4").reshape(2, 3)})
    found = gw.open(path)
    with pytest.raises(KeyError, match="'wieght'; did you mean 'weight'"):
        found["wieght"]
    g.values.restore(found)
    assert g.values["weight"].tolist() == [[0, 1, 2], [3, 4, 5]]
    g.values["weight"] = np.zeros((2, 3))  # a copy: the file is as it was
    assert gw.open(path)["weight"][1, 2] == 5


def test_bytes_that_are_no_bools_are_refused(tmp_path):
    path = written(tmp_path / "m.safetensors", {"flag": np.array([True, False])})
    data = bytearray(path.read_bytes())
    data[-1] = 7
    path.write_bytes(data)
    with pytest.raises(ArchiveError, match="'flag' is no array of bools"):
        gw.open(path)["flag"]


def test_pieces_are_all_of_a_tensor(tmp_path, monkeypatch):
    monkeypatch.setattr("gradwright.formats.stored.PIECE", 64)
    arrays = {"w": drawn("bfloat16", (50, 7)), "four": drawn("float4_e2m1fn", (30, 4))}
    found = gw.open(written(tmp_path / "m.safetensors", arrays))
    for name, array in arrays.items():
        pieces = list(found.pieces(name))
        assert len(pieces) > 1 and same(np.concatenate(pieces), array.reshape(-1))
    with pytest.raises(KeyError, match="no_such"):
        next(found.pieces("no_such"))


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="counts pages")
def test_a_slice_reads_its_pages_alone(tmp_path):
    """A gigabyte that is a hole: opened, looked at and sliced in a few pages."""
    head = json.dumps(
        {"big": {"dtype": "BF16", "shape": [1 << 14, 1 << 15], "data_offsets": [0, 1 << 30]}}
    ).encode()
    path = tmp_path / "big.safetensors"
    with path.open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        file.truncate(8 + len(head) + (1 << 30))
    script = f"""
import re, gradwright as gw
gw.safetensors, gw.open, gw.inspect
def kilobytes(what):
    return int(re.search(what + r":\\s+(\\d+) kB", open("/proc/self/smaps_rollup").read())[1])
before = kilobytes("Private_Dirty"), kilobytes("Rss")
tensors = gw.open({str(path)!r})
assert float(tensors["big"][123, ::1000].sum()) == 0 and tensors["big"].shape == (16384, 32768)
assert gw.inspect({str(path)!r}).parameters == 1 << 29
after = kilobytes("Private_Dirty"), kilobytes("Rss")
print(after[0] - before[0], after[1] - before[1])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    dirty, resident = map(int, done.stdout.split())
    assert dirty < 15_000 and resident < 30_000
