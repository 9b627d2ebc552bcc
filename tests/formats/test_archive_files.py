"""The archive's arrays and files: every dtype to the bit, mapped, never half written."""

from __future__ import annotations

import json
import math
import os
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors as safetensors_library

import gradwright as gw
from gradwright.errors import DTypeError, GraphError
from gradwright.spec import dtype, dtype_name
from tests.formats import archives
from tests.formats.archives import DTYPES, Halves, assert_same, forge_document, members, rich

path = pytest.fixture(archives.path)

BITS = {name: int(name[-1]) for name in DTYPES if name[-4:] in ("int2", "int4")}
BITS |= {"float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6}
SHAPES = [(), (0,), (3, 0, 2), (1,), (5, 7)]


def random_bits(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array of any bit patterns: NaN payloads, subnormals, negative zeros."""
    if name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    kind = dtype(name)
    data = np.frombuffer(rng.bytes(math.prod(shape) * kind.itemsize), np.uint8)
    return (data & (1 << BITS.get(name, 8)) - 1).view(kind).reshape(shape)


# -- arrays ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("name", DTYPES)
def test_arrays_of_every_dtype_come_back_to_the_bit(path, rng, name, mapped):
    g = gw.Graph()
    arrays = {f"a{i}": random_bits(rng, name, shape) for i, shape in enumerate(SHAPES)}
    for key, array in arrays.items():
        g.variable(key, init=array)
        g.constant(array, name=f"constant/{key}")
    wide = random_bits(rng, name, (4, 6))
    odd = {
        "strided": wide[::2, ::-3],
        "transposed": wide.T,
        "repeated": np.broadcast_to(wide, (2, 4, 6)),
    }
    gw.save(g, path, state={"state": arrays | odd})
    found = gw.load(path, mmap=mapped)
    for key, array in arrays.items():
        for held in (found.values[key], found.values[f"constant/{key}"]):
            assert held.dtype == array.dtype and held.shape == array.shape
            assert held.tobytes() == array.tobytes()
    for key, array in gw.load_state(path, "state", mmap=mapped).items():
        expected = (arrays | odd)[key]
        assert array.shape == expected.shape and array.tobytes() == expected.tobytes()


def test_members_are_what_the_safetensors_library_reads(path, rng):
    arrays = {name: random_bits(rng, name, (3, 5)) for name in DTYPES}
    gw.save(gw.Graph(), path, state={"all": arrays})
    data = members(path)["state/all/00001-of-00001.safetensors"]
    read = {n: t for n, t in safetensors_library.deserialize(data) if not n.startswith(":pad:")}
    codes = {
        "bool": "BOOL",
        "bfloat16": "BF16",
        "float8_e4m3fn": "F8_E4M3",
        "float8_e5m2": "F8_E5M2",
        "float8_e4m3fnuz": "F8_E4M3FNUZ",
        "float8_e5m2fnuz": "F8_E5M2FNUZ",
        "float8_e8m0fnu": "F8_E8M0",
        **dict.fromkeys(BITS, "U8"),
    }
    assert read.keys() == arrays.keys()
    for name, tensor in read.items():
        assert tensor["data"] == arrays[name].tobytes()
        if name.startswith("complex"):
            assert tensor["shape"] == [3, 5, 2]
            assert tensor["dtype"] == {"complex64": "F32", "complex128": "F64"}[name]
        else:
            assert tensor["shape"] == [3, 5]
            short = name[0].upper() + name.lstrip("abcdefghijklmnopqrstuvwxyz")
            assert tensor["dtype"] == codes.get(name, short)
    header = json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]])
    assert header["__metadata__"]["complex"] == "complex64\ncomplex128"
    assert header["__metadata__"]["narrow"].split("\n") == [f"{n} {n}" for n in arrays if n in BITS]


@pytest.mark.parametrize("mapped", [False, True])
def test_shards_hold_what_was_asked(path, rng, mapped):
    g = gw.Graph()
    for i, size in enumerate([10, 10, 10, 500, 10, 0]):
        g.variable(f"v{i}", init=rng.standard_normal(size))
    gw.save(g, path, max_shard_bytes=256)
    shards = gw.inspect(path).shards
    assert [list(s.tensors) for s in shards] == [["v0", "v1"], ["v2"], ["v3"], ["v4", "v5"]]
    assert shards[0].member == "values/00001-of-00004.safetensors"
    assert_same(g, gw.load(path, mmap=mapped))


def test_mapped_arrays_lie_in_the_file(path, rng):
    g = gw.Graph()
    for i, size in enumerate([3, 1000, 7]):
        g.variable(f"w{i}", init=rng.standard_normal(size))
    gw.save(
        g,
        path,
        state={"odd": {"a": np.ones(5, "int8"), "b": np.array(1 + 2j)}},
        max_shard_bytes=9000,
    )
    found = gw.load(path, mmap=True)
    arrays = {**found.values, **gw.load_state(path, "odd", mmap=True)}
    for array in arrays.values():
        assert array.__array_interface__["data"][0] % 64 == 0
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    start = path.read_bytes().index(g.values["w1"].tobytes())
    with path.open("r+b") as file:  # what is written to the file shows: nothing was copied
        file.seek(start)
        file.write(np.float64(42.0).tobytes())
    assert arrays["w1"][0] == 42.0 and arrays["w1"][1] == g.values["w1"][1]
    found.values["w1"] = np.zeros(1000)
    assert found.values["w1"].sum() == 0


def test_loaded_arrays_are_copies_unless_mapped(path):
    g = gw.Graph()
    g.variable("w", init=np.ones(1000))
    g.save(path)
    found = gw.load(path)
    path.write_bytes(b"")
    assert found.values["w"].sum() == 1000


def test_what_could_not_be_read_again_is_not_written(path, monkeypatch):
    g = gw.Graph()
    g.variable("w", init=np.ones(3))
    monkeypatch.setattr("gradwright.formats.archive.archive.MAX_JSON", 100)
    with pytest.raises(GraphError, match="limit 100"):
        g.save(path)
    monkeypatch.undo()
    monkeypatch.setattr("gradwright.formats.archive.tensors.MAX_HEADER", 10)
    with pytest.raises(GraphError, match="max_shard_bytes"):
        g.save(path)
    assert not path.exists()


def test_state_is_checked_before_anything_is_written(path):
    with pytest.raises(DTypeError, match="state 'optimizer', 'm'"):
        gw.save(gw.Graph(), path, state={"optimizer": {"m": ["text"]}})
    with pytest.raises(GraphError, match="cannot name a state"):
        gw.save(gw.Graph(), path, state={"../m": {}})
    with pytest.raises(GraphError, match="printable"):
        gw.save(gw.Graph(), path, state={"m": {"a\nb": [1.0]}})
    with pytest.raises(GraphError, match="max_shard_bytes"):
        gw.save(gw.Graph(), path, max_shard_bytes=0)
    assert not path.exists()


# -- the file --------------------------------------------------------------------------------------


def test_a_failed_save_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    g = gw.Graph()
    g.variable("w", init=np.ones(3))
    g.save(path)
    before = path.read_bytes()

    def full(*args):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space"):
            g.save(path)
        patch.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="no space"):
            g.save(path)
    assert path.read_bytes() == before and [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_permissions_are_those_of_the_umask_or_of_the_old_file(path):
    held = os.umask(0o027)
    try:
        gw.Graph().save(path)
    finally:
        os.umask(held)
    assert path.stat().st_mode & 0o777 == 0o640
    path.chmod(0o600)
    gw.Graph().save(path)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.name != "posix", reason="symbolic links of POSIX")
def test_saving_through_a_link_replaces_the_file_it_points_to(path, tmp_path):
    link = tmp_path / "latest.gw"
    link.symlink_to(path)
    gw.Graph("linked").save(str(link))
    assert link.is_symlink() and gw.load(path).name == "linked"


def test_archives_beyond_four_gigabytes_use_zip64(path, rng, monkeypatch):
    g = rich(rng)
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)  # what is larger gets 64-bit fields
    g.save(path)
    assert path.read_bytes().count(b"PK\6\6") == 1  # a ZIP64 end of the directory
    monkeypatch.undo()
    assert_same(g, gw.load(path))
    assert_same(g, gw.load(path, mmap=True))


def test_inspect_tells_all_without_reading_arrays(path, rng, monkeypatch):
    g = rich(rng)
    gw.save(g, path, state={"optimizer": {"m": np.zeros(3, "float16")}})
    size = path.stat().st_size

    def no_arrays(*args):
        raise AssertionError("inspect read an array")

    monkeypatch.setattr("gradwright.formats.archive.container.Stream", no_arrays)
    monkeypatch.setattr("gradwright.formats.archive.container.Reader.map", no_arrays)
    info = gw.inspect(path)
    assert info.ops["archive/noise"] == 1 and info.ops["cond"] >= 2  # one inside the other
    assert {k: str(s) for k, s in info.placeholders.items()} == {"x": "f64[B, 4]", "flag": "bool[]"}
    assert {k: str(s) for k, s in info.variables.items()} == {
        "deep/er/w": "f64[4, 3]", "deep/er/frozen": "f64[3]", "steps": "i64[]",
    }  # fmt: skip
    assert info.trainable == ("deep/er/w",) and info.states == ("optimizer",)
    assert info.dtypes["float16"] == 6 and info.nbytes == size
    text = repr(info)
    assert "x f64[B, 4], flag bool[]" in text and "12 elements trainable" in text
    assert "state/optimizer/00001-of-00001.safetensors" in text
    assert max(map(len, text.splitlines())) < 200


def test_loading_imports_nothing(path):
    g = gw.Graph()
    Halves()(g.placeholder("x", ()))
    g.save(path)
    for name in ("this", "this/Printer", "os/system", "builtins.eval"):
        forge_document(path, lambda d, name=name: d["nodes"][1].update(op=name))
        assert gw.load(path).nodes[1].op.name == name
    assert "this" not in sys.modules


def test_every_dtype_of_gradwright_is_tested():
    from gradwright.spec import tensor as spec

    assert {dtype_name(d) for d in spec._DTYPES.values()} == {*DTYPES, "str"}  # by_reference tests


def test_bytes_are_no_archive_and_say_so():
    with pytest.raises(TypeError):
        gw.load(b"PK")
