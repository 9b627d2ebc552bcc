"""Archives that are damaged, hostile or newer: one clear error each."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, GraphError
from gradwright.formats import checked
from gradwright.formats.archive import container
from tests.formats import archives
from tests.formats.archives import (
    Halves,
    Holder,
    assert_same,
    forge,
    forge_document,
    put,
    refused,
    rich,
    safetensors,
)

path = pytest.fixture(archives.small)

VALUES = "values/00001-of-00001.safetensors"


# -- the file and its members ----------------------------------------------------------------------


def test_two_hundred_damaged_bytes_and_cuts_never_surprise(tmp_path, rng):
    g = rich(rng)
    g.save(tmp_path / "graph.gw")
    data = (tmp_path / "graph.gw").read_bytes()
    damaged = tmp_path / "damaged.gw"
    refusals = 0
    for i, position in enumerate(rng.integers(0, len(data), 200)):
        changed = bytearray(data)
        if i % 4 == 0:
            del changed[position:]
        else:
            changed[position] ^= int(rng.integers(1, 256))
        damaged.write_bytes(changed)
        for mapped in (False, True):
            try:
                found = gw.load(damaged, mmap=mapped)
            except ArchiveError as error:
                refusals += 1
                assert str(error).startswith(str(damaged))
            else:
                if not mapped:
                    assert_same(g, found)
    assert refusals > 300


@pytest.mark.parametrize("member", ["graph.json", "manifest.json", VALUES, "everything"])
def test_random_bytes_for_a_member_never_surprise(path, rng, member):
    for size in (0, 1, 7, 8, 9, 64, 500):
        if member == "everything":
            path.write_bytes(rng.bytes(size))
        elif member == "manifest.json":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("manifest.json", rng.bytes(size))
        else:
            put(path, member, rng.bytes(size))
        refused(path, ".")


def test_other_files_are_not_archives(path, tmp_path):
    path.write_text("hello")
    refused(path, "not a graph archive, or one that is cut off")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hello.txt", "hello")
    refused(path, r"not a graph archive[\s\S]*hello.txt")
    with pytest.raises(FileNotFoundError):
        gw.load(tmp_path / "nowhere.gw")


def test_a_newer_format_is_named(path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(container, "ONE_FILE", 4)
        gw.Graph().save(path)
    refused(path, r"newer gradwright \(format 4; this reads up to 3\)[\s\S]*upgrade")
    with pytest.raises(ArchiveError, match="format 4"):
        gw.inspect(path)
    with pytest.raises(ArchiveError, match="format 4"):
        gw.load_state(path, "optimizer")


@pytest.mark.parametrize(
    "name",
    ["../evil", "/etc/passwd", "a/../../b", "a\\..\\b", "C:/evil", "a//b", ".", "values/", "a\0b"],
)
def test_member_names_that_leave_the_archive_are_refused(path, name):
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x" * len(name), b"")
    path.write_bytes(path.read_bytes().replace(b"x" * len(name), name.encode()))
    refused(path, "unsafe member name")


def rezip(path: Path, **options: int) -> None:
    with zipfile.ZipFile(path) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, data in held.items():
            archive.writestr(name, data)


def test_archives_packed_again_load_unless_compressed_or_mapped(path):
    before = gw.load(path)
    rezip(path)
    assert_same(before, gw.load(path))
    refused(path, r"'w' is not aligned to 64 bytes[\s\S]*without mmap", mmap=True)
    rezip(path, compression=zipfile.ZIP_DEFLATED)
    refused(path, "is compressed")


def test_a_bomb_is_refused_before_it_unfolds(path):
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb", bytes(10_000_000))
    assert path.stat().st_size < 50_000
    refused(path, r"'bomb': the member is compressed[\s\S]*stored")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_doubled_foreign_and_missing_members_are_refused(path):
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("graph.json", b"{}")
    refused(path, "'graph.json': the member occurs twice")
    gw.Graph().save(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("extra", b"")
    refused(path, "extra: the manifest does not know this member")
    forge(path, lambda held: held.pop("graph.json"))
    refused(path, "graph.json: the member is missing")
    gw.Graph().save(path)
    forge(path, lambda held: held.update({VALUES.replace("of-00001", "of-00002"): held[VALUES]}))
    refused(path, "the shards are not complete")


def patch_directory(path: Path, offset: int, form: str, value: int) -> None:
    """Overwrite a field of the first entry of the ZIP directory."""
    data = bytearray(path.read_bytes())
    struct.pack_into(form, data, data.index(b"PK\1\2") + offset, value)
    path.write_bytes(data)


def test_encrypted_overlapping_and_oversized_members_are_refused(path):
    before = path.read_bytes()
    patch_directory(path, 8, "<H", 1)
    refused(path, "is encrypted")
    path.write_bytes(before)
    patch_directory(path, 8, "<H", 8)
    refused(path, "ZIP flags 0x8")
    for size in (10, 10_000_000, 2**32 - 2):
        path.write_bytes(before)
        patch_directory(path, 20, "<L", size)
        patch_directory(path, 24, "<L", size)
        refused(path, "overlaps another one, or leaves a gap|is cut off")
    path.write_bytes(before)
    patch_directory(path, 42, "<L", 64)
    refused(path, "overlaps another one, or leaves a gap")


def test_sizes_and_checksums_are_those_of_the_manifest(path):
    data = path.read_bytes()
    manifest = members_with_manifest(path)["manifest.json"]
    for old, new, match in [
        (b'"crc32": "', b'"crc32": "0', "state two CRC-32"),
        (b'"crc32": "', b'"crc": "', "has no 'crc32'"),
        (b'"size": ', b'"size": 1', "bytes, the manifest says 1,"),
        (b'"size": ', b'"size": -', "not valid JSON|bytes, the manifest says"),
        (b'"size": ', b'"size": "1", "s": ', "unknown field 's'"),
        (b'"version": 2', b'"version": "2"', "version of the format is text"),
        (b'"members"', b'"Members"', "no 'members'"),
        (b'"graph.json"', b'"values/../x"', "is missing|does not know"),
    ]:
        with path.open("wb") as file:
            file.write(data)
        replace_manifest(path, manifest.replace(old, new, 1))
        refused(path, match)


def members_with_manifest(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {n: archive.read(n) for n in archive.namelist()}


def replace_manifest(path: Path, manifest: bytes) -> None:
    held = members_with_manifest(path) | {"manifest.json": manifest}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in held.items():
            archive.writestr(name, data)


def test_a_missing_state_names_those_that_are_there(path):
    with pytest.raises(ArchiveError, match=r"'ema'[\s\S]*it holds optimizer"):
        gw.load_state(path, "ema")


# -- arrays ----------------------------------------------------------------------------------------

F4 = {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}
U1 = {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}


@pytest.mark.parametrize(
    ("member", "match"),
    [
        (b"", "too short|header has"),
        ((2**63).to_bytes(8, "little"), "header has 9,223,372,036,854,775,808 bytes"),
        (safetensors(b"[]"), "is a list"),
        (safetensors({"w": F4}, bytes(11)), "do not fill the member"),
        (safetensors({"w": F4}, bytes(16)), "do not fill the member"),
        (safetensors({"w": {**F4, "data_offsets": [4, 16]}}, bytes(16)), "leaves a gap"),
        (safetensors({"w": F4, "v": F4}, bytes(12)), "overlaps"),
        (safetensors({"w": {**F4, "shape": [2**62, 8]}}, bytes(12)), "'w' has 147,573,9"),
        (safetensors({"w": {**F4, "shape": [-3]}}, bytes(12)), "negative"),
        (safetensors({"w": {**F4, "shape": [True]}}, bytes(12)), "true or false"),
        (safetensors({"w": {**F4, "shape": 3}}, bytes(12)), "is an integer"),
        (safetensors({"w": {**F4, "dtype": "F33"}}, bytes(12)), "unknown dtype F33|'F33'"),
        (safetensors({"w": {**F4, "data_offsets": [0]}}, bytes(12)), "'w' has 12 bytes"),
        (safetensors({"w": {**F4, "more": 1}}, bytes(12)), "unknown field 'more'"),
        (safetensors({"w": {"dtype": "F32"}}, bytes(12)), "has no"),
        (safetensors({"w": F4, "__metadata__": {"complex": "v"}}, bytes(12)), "no tensor 'v'"),
        (safetensors({"w": F4, "__metadata__": {"complex": "w"}}, bytes(12)), "unknown dtype"),
        (safetensors({"w": F4, "__metadata__": []}, bytes(12)), "is a list"),
        (safetensors({"w": U1, "__metadata__": {"narrow": "int4 v"}}, bytes(3)), "no tensor 'v'"),
        (safetensors({"w": F4, "__metadata__": {"narrow": "int4 w"}}, bytes(12)), "unknown dtype"),
        (safetensors({"w": U1, "__metadata__": {"narrow": "int3 w"}}, bytes(3)), "unknown dtype"),
        (safetensors({"w": U1, "__metadata__": {"narrow": "int4 w"}}, b"\1\2\x10"), "int4s"),
        (
            safetensors({"w": {"dtype": "BOOL", "shape": [1], "data_offsets": [0, 1]}}, b"\2"),
            "bools",
        ),
        (
            safetensors({"w": {"dtype": "U8", "shape": [0] + [2**40] * 3, "data_offsets": [0, 0]}}),
            "'w'",
        ),
        (
            safetensors({"w": {"dtype": "U8", "shape": [1] * 99, "data_offsets": [0, 1]}}, b"1"),
            "'w'",
        ),
        (safetensors({"w": {**F4, "shape": [1, 3]}}, bytes(12)), r"got f32\[1, 3\]"),
        (safetensors({"w": {**F4, "dtype": "I32"}}, bytes(12)), r"got i32\[3\]"),
        (safetensors({"v": F4}, bytes(12)), "'w': the node's array is missing"),
    ],
)
@pytest.mark.parametrize("mapped", [False, True])
def test_tensors_that_lie_are_refused(tmp_path, member, match, mapped):
    path = tmp_path / "graph.gw"
    g = gw.Graph()
    g.variable("w", (3,))
    g.save(path)
    put(path, VALUES, member)
    refused(path, match, mmap=mapped)


def test_tensors_of_the_wrong_graph_are_refused(path):
    g = gw.Graph()
    g.variable("w", (3,))
    g.variable("v", (3,))
    g.save(path)
    forge_document(path, lambda d: d["nodes"].pop())
    refused(path, "no node has the array 'v'")


# -- the document ----------------------------------------------------------------------------------


def node(document: dict, name: str) -> dict:
    return next(n for n in document["nodes"] if n["name"] == name)


CASES = {
    "a cycle": (lambda d: node(d, "halves").update({"in": ["y"]}), "'halves'|depends on itself"),
    "itself": (lambda d: node(d, "z").update({"in": ["z"]}), "depends on itself"),
    "no input": (lambda d: node(d, "z").update({"in": ["nothing"]}), "input 'nothing' does not"),
    "no output": (lambda d: node(d, "z").update({"in": ["halves:2"]}), "no output 2"),
    "odd output": (lambda d: node(d, "z").update({"in": ["halves:01"]}), "not the name of an"),
    "clash": (lambda d: node(d, "z").update(name="y"), "two nodes have this name"),
    "bad name": (lambda d: node(d, "z").update(name="a//b"), "'a//b' is not a name"),
    "name": (lambda d: node(d, "z").update(name=3), "name is an integer"),
    "spec": (lambda d: node(d, "z").update(out=["float32[B, 2]"]), "infers other specs"),
    "two specs": (lambda d: node(d, "z").update(out=["float32[B, 3]"] * 2), "infers other specs"),
    "no spec": (lambda d: node(d, "z").update(out=[]), "without outputs"),
    "odd spec": (lambda d: node(d, "z").update(out=["f32(B)"]), "is not a spec"),
    "odd dtype": (lambda d: node(d, "z").update(out=["float33[B]"]), "not a dtype"),
    "odd dim": (lambda d: node(d, "z").update(out=["float32[B**9]"]), "not a dimension"),
    "negative": (lambda d: node(d, "x").update(out=["float32[-3, 3]"]), "negative size"),
    "bomb dim": (
        lambda d: node(d, "x").update(out=[f"float32[{'*'.join(['(A+B+C)'] * 99)}]"]),
        "not a dimension",
    ),
    "array": (lambda d: node(d, "w").update(out=["float32[4]"]), "array has another spec"),
    "attrs": (lambda d: node(d, "z").update(attrs={"axis": 1}), "exp refuses its attributes"),
    "attr": (lambda d: node(d, "z").update(attrs={"axis": {"x": 1}}), "is not an attribute"),
    "graph": (lambda d: node(d, "z").update(attrs={"a": {"graph": 0}}), "not come before"),
    "enum": (lambda d: node(d, "z").update(attrs={"a": {"dim": "(("}}), "not a dimension"),
    "source": (lambda d: node(d, "x").update({"in": ["w"]}), "placeholder has no inputs"),
    "too many": (lambda d: node(d, "z").update({"in": ["x"] * 3}), "exp refuses its inputs"),
    "trainable": (lambda d: node(d, "c").update(trainable=True), "only a floating variable"),
    "truth": (lambda d: node(d, "w").update(trainable=1), "true or false"),
    "public": (lambda d: node(d, "halves").update(public=3), "'public' exceeds"),
    "known": (lambda d: node(d, "z").update(known=[[1]]), "'known' does not fill"),
    "field": (lambda d: node(d, "z").update(code="print()"), "unknown field 'code'"),
    "no op": (lambda d: node(d, "z").pop("op"), "has no 'op'"),
    "version": (lambda d: node(d, "z").update(version=True), "version is true or false"),
    "origin": (lambda d: node(d, "z").update(origin="nothing"), "no node is called 'nothing'"),
    "update": (lambda d: d["updates"].update(w="c"), "the update of 'w' has another spec"),
    "no update": (lambda d: d["updates"].update(w="nothing"), "no node is called 'nothing'"),
    "constant": (lambda d: d["updates"].update(c="c"), "only variables are updated"),
    "streams": (lambda d: d.update(streams=-1), "streams is negative"),
    "nodes": (lambda d: d.update(nodes={}), "nodes is an object"),
    "sub-graph": (
        lambda d: d["graphs"].append(
            {"name": "", "inputs": [], "outputs": ["v"], "nodes": [
                {"name": "v", "op": "placeholder", "out": ["float32[]"]}]}
        ),
        "graph 0: a sub-graph cannot hold its own placeholder",
    ),
    "empty sub-graph": (
        lambda d: d["graphs"].append({"name": "", "inputs": [], "outputs": [], "nodes": []}),
        "graph 0: a sub-graph goes from placeholders to outputs",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_documents_that_lie_are_refused(path, case):
    change, match = CASES[case]
    forge_document(path, change)
    refused(path, match)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (b"", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[]", "the document is a list"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' * 100_000, "nested too deeply"),
        (b'{"a": 1, "a": 2}', "the key 'a' occurs twice"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "not valid JSON"),
        (b"{}", "has no 'graphs'"),
    ],
    ids=range(9),
)
def test_json_is_read_strictly(path, text, match):
    put(path, "graph.json", text)
    refused(path, f"graph.json[\\s\\S]*{match}")


def test_json_has_a_limit(path, monkeypatch):
    monkeypatch.setattr(container, "MAX_JSON", 100)
    refused(path, "bytes of JSON")
    monkeypatch.setattr(checked, "MAX_JSON", 10)
    with pytest.raises(ArchiveError, match="limit 10"):
        checked.parse_json(b'{"a":  "b"}', "here")


def test_deep_attributes_are_refused_on_both_sides(path):
    g = gw.Graph()
    x = g.placeholder("x", ())
    op = Halves()
    for _ in range(600):
        op = Holder(value=op)
    op(x, name="deep")
    with pytest.raises(GraphError, match="'deep': attributes are nested too deeply"):
        g.save(path)
    deep: list = []
    for _ in range(600):
        deep = [deep]
    forge_document(path, lambda d: node(d, "z").update(attrs={"a": deep}))
    refused(path, "'z': attributes are nested too deeply|nested")
