"""GGUF files: what their headers tell, how their bytes are mapped, and how they are written."""

from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pytest

from gradwright.errors import ArchiveError
from gradwright.formats import source
from gradwright.formats.gguf.header import FIRST, read_header
from gradwright.formats.gguf.kinds import BY_NAME, KINDS
from gradwright.formats.gguf.mapped import Gguf
from gradwright.formats.gguf.splits import whole
from gradwright.formats.gguf.writing import write
from gradwright.ops.quantised.blocks import FORMATS, packed_ggml
from gradwright.spec import dtype as as_dtype
from tests.formats.every_format import Counted
from tests.formats.ggufs import ARRAY, F4, STRING, File, Key, Tensor, text

TYPED = {
    **{0: 200, 1: -5, 2: 60_000, 3: -30_000, 4: 4_000_000_000, 5: -2_000_000_000, 6: 0.5, 7: True},
    **{8: "tïtle", 10: 1 << 63, 11: -(1 << 62), 12: 1e300},
}
"""Number of a type of values -> a value."""


def put(tmp_path, file: File | bytes, name: str = "net.gguf"):
    path = tmp_path / name
    path.write_bytes(file.bytes() if isinstance(file, File) else file)
    return path


def header(path):
    return read_header(Counted(source.at(path)))


# -- what headers tell -----------------------------------------------------------------------------


def test_values_of_every_type_are_read(tmp_path):
    keys = [Key(f"k{kind}", kind, held) for kind, held in TYPED.items()]
    keys += [Key(f"a{kind}", ARRAY, (kind, [held] * 3)) for kind, held in TYPED.items()]
    keys.append(Key("none", ARRAY, (STRING, [])))
    found = header(put(tmp_path, File(keys))).keys
    for kind, held in TYPED.items():
        assert found[f"k{kind}"] == held and type(found[f"k{kind}"]) is type(held)
        assert list(found[f"a{kind}"]) == [held] * 3
    assert list(found["none"]) == []


def test_a_header_is_read_in_pieces_and_no_further(tmp_path, rng):
    words = ["", "a" * 255, "b" * 256, "é" * FIRST, *(f"token{i}" for i in range(9000))]
    big = Tensor("w", (256, 4000), 0, rng.bytes(256 * 4000 * 4))
    path = put(tmp_path, File([Key("words", ARRAY, (STRING, words)), Key("end", 4, 7)], [big]))
    counted = Counted(source.at(path))
    found = read_header(counted)
    assert list(found.keys["words"]) == words and found.keys["words"][1:3] == words[1:3]
    assert found.keys["end"] == 7
    assert counted.total[0] < 2 * (path.stat().st_size - 256 * 4000 * 4)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_tensors_of_every_kind_lie_where_the_header_says(tmp_path, kind, rng):
    rows = rng.bytes(3 * 2 * kind.n_bytes)
    tensors = [F4, Tensor("t", (2 * kind.size, 3), BY_NUMBER[kind.name], rows)]
    path = put(tmp_path, File([], tensors))
    held = Gguf(path)
    t = held["t"]
    assert (t.kind, t.shape) == (kind.name, (3, 2 * kind.size))
    assert t.data.tobytes() == rows and not t.data.flags.writeable
    if kind.dtype is None:
        assert t.data.shape == (3, 2 * kind.n_bytes) and t.is_packed
    if not kind.is_read:
        with pytest.raises(ArchiveError, match=f"kind {kind.name} are not read"):
            t.floats()


BY_NUMBER = {kind.name: number for number, kind in KINDS.items()}


def test_floats_of_packed_tensors_are_made_a_piece_at_a_time(tmp_path, monkeypatch, rng):
    from gradwright.formats.gguf import mapped

    x = rng.standard_normal((7, 4, 64)).astype("f4")
    path = tmp_path / "w.gguf"
    write(path, {}, {"w": x, "h": x.astype("f2")}, {"w": "q8_0"})
    monkeypatch.setattr(mapped, "PIECE", 200)
    held = Gguf(path)
    assert np.abs(held["w"].floats() - x).max() < 0.02
    assert np.array_equal(held["h"].floats(), x.astype("f2").astype("f4"))


def test_scalars_and_alignment(tmp_path):
    keys = [Key("general.alignment", 4, 64)]
    tensors = [Tensor("s", (), 0, np.float32(2.5).tobytes()), F4]
    held = Gguf(put(tmp_path, File(keys, tensors, alignment=64)))
    assert held["s"].data == np.float32(2.5) and held["s"].shape == ()
    assert held["w"].data.tolist() == [0, 0, 0]


def test_opening_maps_and_does_not_copy(tmp_path):
    path = tmp_path / "big.gguf"
    write(path, {}, {"w": np.zeros((4096, 1024), "f4")})
    tracemalloc.start()
    held = Gguf(path)["w"].data
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held.nbytes == 1 << 24 and peak < 1 << 18


# -- what is refused -------------------------------------------------------------------------------


def tensor(**changes) -> File:
    return File(
        [], [Tensor(**{"name": "w", "sizes": (3,), "kind": 0, "data": bytes(12)} | changes)]
    )


@pytest.mark.parametrize(
    ("file", "match"),
    [
        (b"", "does not begin with GGUF"),
        (b"GGUF", "cut off"),
        (File(version=1), "version 1"),
        (File(version=3 << 24), "big-endian"),
        (File(version=4), "version 4"),
        (File(counts=(1 << 62, 0)), "4,611,686,018,427,387,904 tensors"),
        (File(counts=(0, 1 << 62)), "keys"),
        (File(counts=(3, None)), "cut off|damaged|tensors"),
        (File([Key("a", 4, 1), Key("a", 4, 2)]), "'a' is given twice"),
        (File([], [F4, F4]), "'w' is given twice"),
        (File(counts=(0, 1)), "cut off"),
        (File([Key("a", ARRAY, (ARRAY, []))]), "'a'.*array of elements of type 9"),
        (File([Key("general.alignment", 4, 24)]), "general.alignment is 24"),
        (File([Key("general.alignment", 4, 0)]), "general.alignment is 0"),
        (File([Key("general.alignment", 8, "32")]), "general.alignment is '32'"),
        (tensor(sizes=(1, 1, 1, 1, 3)), "'w'.*5 axes"),
        (tensor(rank=1 << 31), "axes"),
        (tensor(sizes=(0,)), r"sizes are \(0,\)"),
        (tensor(sizes=(3, 0)), "sizes are"),
        (tensor(sizes=(1 << 40, 1 << 40)), "sizes are"),
        (tensor(sizes=(1 << 63, 2)), "sizes are"),
        (tensor(kind=4), "kind 4"),
        (tensor(kind=1 << 31), "kind 2,?147"),
        (tensor(kind=2), "no whole blocks of q4_0"),
        (tensor(kind=12, sizes=(128, 2)), "no whole blocks of q4_k"),
        (tensor(sizes=(9,)), "cut off"),
        (tensor(offset=4), "offset is 4"),
        (tensor(offset=1 << 40), "cut off"),
        (tensor(offset=(1 << 64) - 32), "cut off"),
        (File([], [F4, Tensor("v", (3,), 0, bytes(12), offset=0)]), "overlaps"),
    ],
)
def test_headers_that_lie_are_refused(tmp_path, file, match):
    path = put(tmp_path, file)
    tracemalloc.start()
    with pytest.raises(ArchiveError, match=match):
        header(path)
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()


LONG = (1 << 62).to_bytes(8, "little")


@pytest.mark.parametrize(
    ("extra", "match"),
    [
        (LONG + b"name", "text of 4,611,686"),
        (text("k") + b"\x08\0\0\0" + LONG, "'k'.*text of 4,611,686"),
        (text("k") + b"\x09\0\0\0" + b"\x08\0\0\0" + LONG, "'k'.*cut off"),
        (text("k") + b"\x09\0\0\0" + b"\x04\0\0\0" + LONG, "'k'.*cut off"),
        (text("k") + b"\x09\0\0\0\x08\0\0\0" + (2).to_bytes(8, "little") + LONG * 2, "cut off"),
        (text("k") + b"\x0d\0\0\0", "'k'.*type 13"),
        (text("k") + b"\x07\0\0\0\x02", "'k'.*neither true nor false"),
        (text(b"\xff\xfe") + b"\x04\0\0\0\0\0\0\0", "no text in UTF-8"),
        (text("k") + b"\x08\0\0\0" + text(b"\xff"), "'k'.*no text in UTF-8"),
    ],
)
def test_keys_that_lie_are_refused(tmp_path, extra, match):
    with pytest.raises(ArchiveError) as caught:
        header(put(tmp_path, File(counts=(0, 1), extra=extra + bytes(32))))
    assert re.search(match, str(caught.value), re.DOTALL)


# -- several files ---------------------------------------------------------------------------------


def parts(tmp_path, **changes):
    """Write a split of three files, and return their paths."""
    paths = []
    for i in range(3):
        keys = [Key("split.no", 2, i), Key("split.count", 2, 3)]
        if i == 0:
            keys += [Key("split.tensors.count", 5, 3), Key("general.name", 8, "net")]
        file = File(keys, [Tensor(f"w{i}", (3,), 0, np.full(3, i, "<f4").tobytes())])
        paths.append(put(tmp_path, file, f"net-0000{i + 1}-of-00003.gguf"))
    return paths


def test_files_of_a_split_are_read_together(tmp_path):
    for path in parts(tmp_path):
        held = Gguf(path)
        assert {n: t.data[0] for n, t in held.items()} == {"w0": 0, "w1": 1, "w2": 2}
        assert held.facts["general.name"] == "net"
    names = whole(source.at(path))[2]
    assert names == {"w0": "net-00001-of-00003.gguf", "w1": "net-00002-of-00003.gguf", "w2": ""}


def test_a_split_is_refused_where_a_file_is_missing_or_another_one(tmp_path):
    first, second, third = parts(tmp_path)
    data = second.read_bytes()
    second.unlink()
    with pytest.raises(ArchiveError, match=r"00002-of-00003[\s\S]*missing"):
        Gguf(first)
    for other, match in (
        (third.read_bytes(), "part 2 of 3"),
        (File([], [F4]).bytes(), "part None of None"),
        (data.replace(b"w1", b"w0"), "two files hold 'w0'"),
        (data[:-21], "cut off"),
    ):
        second.write_bytes(other)
        with pytest.raises(ArchiveError, match=match):
            Gguf(first)
    second.write_bytes(data)
    data, name = first.read_bytes(), text("general.name")
    first.write_bytes(data.replace(b"\3\0\0\0" + name, b"\4\0\0\0" + name))
    with pytest.raises(ArchiveError, match="hold 3 tensors"):
        Gguf(first)
    for name in ("net.gguf", "net-00002-of-00003.gguf", "net-00001-of-00004.gguf"):
        lone = tmp_path / "alone" / name
        lone.parent.mkdir(exist_ok=True)
        lone.write_bytes(first.read_bytes())
        with pytest.raises(ArchiveError, match="others are not found"):
            Gguf(lone)
    count = [Key("split.no", 2, 0), Key("split.count", 10, 1 << 40)]
    with pytest.raises(ArchiveError, match="part 0 of 1099511627776"):
        Gguf(put(tmp_path, File(count)))


# -- writing ---------------------------------------------------------------------------------------


def test_what_is_written_is_read_by_the_package(tmp_path, rng):
    gguf = pytest.importorskip("gguf")
    quants = pytest.importorskip("gguf.quants")
    keys = {
        **{"general.architecture": "llama", "i": 5, "j": -5, "f": 0.5, "b": True, "t": "tïtle"},
        **{"words": ["a", "", "é"], "scores": np.array([0.5, -1], "f4"), "big": np.uint64(1 << 40)},
    }
    x = rng.standard_normal((5, 256)).astype("f4")
    tensors = {"f4": x, "f2": x.astype("f2"), "ints": np.arange(6, dtype="i4").reshape(1, 2, 3)}
    tensors |= {
        "bf": x.astype(as_dtype("bfloat16")),
        "turned": x.T,
        "half": x,
        "held": packed_ggml(x, "q6_k"),
    }
    tensors |= {name: x for name, form in FORMATS.items() if form.pack is not None}
    kinds = {name: name for name in FORMATS} | {"half": "bf16", "held": "q6_k"}
    path = tmp_path / "w.gguf"
    write(path, keys, tensors, kinds)
    read = gguf.GGUFReader(path)
    found = {name: f.contents() for name, f in read.fields.items() if not name.startswith("GGUF")}
    assert found == {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in keys.items()}
    ours = Gguf(path)
    assert [t.name for t in read.tensors] == list(tensors) == list(ours)
    for t in read.tensors:
        held, want = ours[t.name], tensors[t.name]
        assert t.tensor_type.name.lower() == held.kind and t.shape[::-1].tolist() == [*held.shape]
        assert t.data.tobytes() == held.data.tobytes()
        if held.is_packed:
            theirs = quants.dequantize(t.data, t.tensor_type)
            assert np.array_equal(held.floats(), theirs)
            assert np.abs(theirs - x).max() < 1
        else:
            assert np.array_equal(held.data, want.astype(held.data.dtype))


@pytest.mark.parametrize(
    ("keys", "tensors", "kinds", "match"),
    [
        ({"a": None}, {}, {}, "'a' holds NoneType"),
        ({"a": [1]}, {}, {}, "'a' holds list"),
        ({"a": np.zeros((2, 2))}, {}, {}, "'a' holds ndarray"),
        ({}, {"w": np.zeros(3, "c8")}, {}, "'w' is complex64"),
        ({}, {"w": np.zeros((2, 33), "f4")}, {"w": "q4_0"}, "no whole blocks of q4_0"),
        ({}, {"w": np.zeros((2, 256), "f4")}, {"w": "iq2_s"}, "read here, not written"),
        ({}, {"w": np.zeros((2, 0), "f4")}, {}, r"shape \(2, 0\)"),
        ({}, {"w": np.zeros((1,) * 5, "f4")}, {}, "shape"),
        ({}, {"w": np.zeros(32, "f4")}, {"w": "q9"}, "stored as q9"),
    ],
)
def test_what_no_file_can_hold_leaves_the_one_before(tmp_path, keys, tensors, kinds, match):
    path = tmp_path / "w.gguf"
    path.write_bytes(b"before")
    with pytest.raises(ArchiveError, match=match):
        write(path, keys, tensors, kinds)
    assert path.read_bytes() == b"before" and list(tmp_path.iterdir()) == [path]


def test_sizes_of_kinds_are_those_of_the_package():
    gguf = pytest.importorskip("gguf")
    theirs = {t.name.lower(): (int(t), *sizes) for t, sizes in gguf.GGML_QUANT_SIZES.items()}
    ours = {k.name: (n, k.size, k.n_bytes) for n, k in KINDS.items()}
    assert ours == theirs and BY_NAME["q4_k"] is KINDS[12]
