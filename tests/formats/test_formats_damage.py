"""Files of no format, cut off, damaged, or with headers that lie: refused, and never a surprise."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradwright.errors import ArchiveError
from gradwright.formats import registry, source
from gradwright.formats.registry import Format
from tests.formats import every_format
from tests.formats.archives import safetensors
from tests.formats.every_format import MAKERS, Counted, make_safetensors_index, refuses

made = pytest.fixture(scope="module")(every_format.made)
FILES = [name for name in MAKERS if name not in ("run", "huggingface", "adapter")]


def test_what_is_of_no_format_says_what_content_and_suffix_may_be(tmp_path):
    path = tmp_path / "net.safetensors"
    for data in (b"", b"hello\n", b"\x08", b"PK\5\6" + bytes(18), bytes(1000), b'{"a": 1}'):
        path.write_bytes(data)
        with pytest.raises(ArchiveError, match=r"no format[\s\S]*'\.safetensors' is that of") as e:
            registry.find(source.at(path))
        assert str(e.value).startswith(str(path))
        assert ("it is empty" in e.value.facts) == (not data)
        assert e.value.need == "a safetensors file, whole"
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


def test_json_of_a_run_is_read_strictly(made, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(made["run"][0], folder)
    held = json.loads((folder / "config.json").read_text())
    for change in ({"id": 3}, {"name": None}):
        (folder / "config.json").write_text(json.dumps(held | change))
        refuses(folder, "run", next(iter(change)))
