"""Archives in several files: whole or not at all, and a file that is not its own is named."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, GraphError
from gradwright.formats import registry, source
from gradwright.formats.archive import container
from tests.formats import archives
from tests.formats.archives import assert_same, members, refused, rich

path = pytest.fixture(archives.path)
LIMIT = 6000
SIZES = [500, 1, 700, 700, 5000, 0, 30]


def model(scale: float = 1.0) -> gw.Graph:
    """Return a graph with 28 kB of variables."""
    g, rng = gw.Graph("several"), np.random.default_rng(0)
    for i, size in enumerate(SIZES):
        g.variable(f"v{i}", init=(scale * rng.standard_normal(size)).astype("float32"))
    return g


def parts(path: Path) -> list[Path]:
    """Return the files beside an archive, in order."""
    return sorted(path.parent.glob("*.safetensors"))


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


# -- what is written -------------------------------------------------------------------------------


@pytest.mark.parametrize("mapped", [False, True])
def test_everything_comes_back_from_files_that_are_as_small_as_asked(path, rng, mapped):
    g = rich(rng)
    for i, size in enumerate(SIZES):
        g.variable(f"v{i}", init=rng.standard_normal(size))
    g.constant(np.array(["a", "", "bc"], np.dtypes.StringDType()), name="words")
    state = {"m": np.arange(3000.0), "pair": np.array([1 + 2j, 3])}
    gw.save(g, path, state={"ema": state}, max_file_bytes=LIMIT)
    assert_same(g, gw.load(path, mmap=mapped))
    found = gw.load_state(path, "ema", mmap=mapped)
    for name, array in state.items():
        np.testing.assert_array_equal(found[name], array)
    info = gw.inspect(path)
    alone = {"v4", "m"}  # more than the limit by themselves
    assert all(s.nbytes <= LIMIT for s in info.shards if not alone & s.tensors.keys())
    assert {s.file for s in info.shards} == {p.name for p in parts(path)}
    assert len(info.shards) > 6
    assert info.nbytes == sum(p.stat().st_size for p in path.parent.iterdir())
    assert parts(path)[0].name in repr(info)


def test_each_file_is_a_safetensors_file_for_others(path):
    library = pytest.importorskip("safetensors.numpy")
    g = model()
    gw.save(g, path, max_file_bytes=LIMIT)
    found = {}
    for file in parts(path):
        found |= {n: a for n, a in library.load_file(file).items() if not n.startswith(":")}
    assert found.keys() == {t.name for t in g.variables}
    for name, array in found.items():
        np.testing.assert_array_equal(array, g.values[name])


def test_what_fits_is_one_file_of_an_earlier_version(path):
    gw.save(model(), path, max_file_bytes=1 << 20)
    assert list(path.parent.iterdir()) == [path]
    assert json.loads(_manifest(path))["version"] == container.ONE_FILE < container.FORMAT
    gw.save(model(), path, max_file_bytes=LIMIT)
    assert json.loads(_manifest(path))["version"] == container.FORMAT
    assert members(path).keys() == {"graph.json"}


def _manifest(path: Path) -> bytes:
    return source.at(path).part("manifest.json").read(0, 1 << 20)


def test_equal_graphs_give_equal_files(path, tmp_path):
    gw.save(model(), path, max_file_bytes=LIMIT)
    once = contents(path.parent)
    gw.save(model(), path, max_file_bytes=LIMIT)
    assert contents(path.parent) == once
    gw.save(model(2.0), path, max_file_bytes=LIMIT)
    assert len(once) == len(contents(path.parent)) and not once.keys() & {
        p.name for p in parts(path)
    }


def test_files_are_mapped_one_by_one_and_read_by_nobody(path, monkeypatch):
    g = model()
    gw.save(g, path, max_file_bytes=LIMIT)
    found = gw.load(path, mmap=True)
    file = next(p for p in parts(path) if g.values["v4"].tobytes() in p.read_bytes())
    with file.open("r+b") as stream:  # what is written to the file shows: nothing was copied
        stream.seek(file.read_bytes().index(g.values["v4"].tobytes()))
        stream.write(np.float32(42.0).tobytes())
    assert found.values["v4"][0] == 42.0
    for name in ("v0", "v4"):
        assert found.values[name].__array_interface__["data"][0] % 64 == 0

    def no_arrays(*args):
        raise AssertionError("an array was read")

    monkeypatch.setattr("gradwright.formats.archive.container.Stream", no_arrays)
    gw.load(path, mmap=True)
    gw.inspect(path)


def test_headers_say_where_bytes_lie(path):
    g = model()
    gw.save(g, path, max_file_bytes=LIMIT)
    seen = source.at(path)
    for name, tensor in registry.find(seen).tensors(seen).items():
        (where,) = tensor.ranges
        data = (path.parent / where.file).read_bytes()[where.start : where.start + where.nbytes]
        assert data == g.values[name].tobytes()


def test_a_training_is_kept_in_several_files_too(path):
    g = model()
    trainer = gw.Trainer(g, gw.mean(g["v4"] ** 2.0), parameters="v4", deterministic=True)
    trainer.step({})
    gw.save(g, path, trainer=trainer, max_file_bytes=LIMIT)
    again = gw.load(path).trainer()
    trainer.step({})
    again.step({})
    assert again.values["v4"].tobytes() == trainer.values["v4"].tobytes()
    assert len(parts(path)) > 6


# -- files that are missing, cut off, or not its own -----------------------------------------------


def named(path: Path, file: Path, match: str) -> None:
    """Check that a bad file is named, whether arrays are read or mapped, and by ``inspect``."""
    for mapped in (False, True):
        refused(path, f"{file.name}[\\s\\S]*{match}", mmap=mapped)
    with pytest.raises(ArchiveError, match=file.name):
        gw.inspect(path)


def test_a_missing_or_truncated_file_is_named(path):
    gw.save(model(), path, max_file_bytes=LIMIT)
    for file in parts(path):
        data = file.read_bytes()
        file.unlink()
        named(path, file, "is missing")
        for cut in (0, 4, 100, len(data) - 1):
            file.write_bytes(data[:cut])
            named(path, file, "cut off")
        file.write_bytes(data + b"0")
        named(path, file, "of another archive")
        file.write_bytes(data)
    assert_same(model(), gw.load(path))


def test_files_of_each_others_place_are_named(path):
    gw.save(model(), path, max_file_bytes=LIMIT)
    one, two = (p for p in parts(path) if 2500 < p.stat().st_size < LIMIT)
    assert one.stat().st_size == two.stat().st_size
    held = one.read_bytes()
    one.write_bytes(two.read_bytes())
    named(path, one, "another part")
    two.write_bytes(held)
    named(path, one, "another part")


def test_a_file_of_another_training_step_is_named_though_it_looks_the_same(path, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    gw.save(model(), path, max_file_bytes=LIMIT)
    gw.save(model(2.0), other / path.name, max_file_bytes=LIMIT)
    theirs = parts(other / path.name)
    for mine, its in zip(parts(path), theirs, strict=True):
        assert mine.stat().st_size == its.stat().st_size
    shutil.copy(theirs[2], parts(path)[2])
    named(path, parts(path)[2], "another archive")


def test_a_damaged_byte_is_found_where_arrays_are_read(path):
    gw.save(model(), path, max_file_bytes=LIMIT)
    file = parts(path)[3]
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    refused(path, f"{file.name}[\\s\\S]*wrong CRC-32")


ELSEWHERE = (
    *("../x.safetensors", "/etc/x.safetensors", "a/b.safetensors", ".x.safetensors"),
    *("a\\b.safetensors", "C:x.safetensors", "x\0.safetensors", "x.safetensors\n"),
)


@pytest.mark.parametrize(
    ("file", "match"),
    [
        *((file, "no name of a file") for file in ELSEWHERE),
        *((file, "file is (an|a|NoneType)") for file in (3, None, [])),
        ("", "no file beside it"),
        ("x", "is missing"),
    ],
)
def test_an_index_cannot_lead_elsewhere(path, file, match):
    gw.save(model(), path, max_file_bytes=LIMIT)
    row = {"size": 100, "crc32": "0" * 8, "header": "0" * 8, "file": file}
    _with_row(path, row)
    refused(path, match)


def test_forged_rows_of_an_index_are_refused(path):
    gw.save(model(), path, max_file_bytes=LIMIT)
    good = next(iter(json.loads(_manifest(path))["members"].values()))
    row = next(r for r in json.loads(_manifest(path))["members"].values() if "file" in r)
    assert "file" not in good
    for key in row:
        for wrong in (None, -1, 2**70, "x", [], {}, 0.5, True):
            _with_row(path, {**row, key: wrong})
            refused(path, ".")
        _with_row(path, {k: v for k, v in row.items() if k != key})
        refused(path, ".")
    _with_row(path, {**row, "more": 1})
    refused(path, "unknown field 'more'")


def _with_row(path: Path, row: dict) -> None:
    """Give an archive a manifest in which a member is a file beside it."""
    held = members(path)
    with path.open("wb") as file, container.Writer(file) as writer:
        for name, data in held.items():
            writer.add(name, len(data), [data])
        writer._members.append(f'"values/00001-of-00001.safetensors": {json.dumps(row)}')
        writer._version = container.FORMAT


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="FIFOs of POSIX")
def test_a_fifo_in_the_place_of_a_file_does_not_hang(path):
    gw.save(model(), path, max_file_bytes=LIMIT)
    file = parts(path)[1]
    file.unlink()
    os.mkfifo(file)
    named(path, file, "no file")
    file.unlink()
    file.mkdir()
    named(path, file, "no file")


# -- saving ----------------------------------------------------------------------------------------


def test_what_a_new_archive_does_not_need_is_removed_and_nothing_else(path):
    (path.parent / "mine.safetensors").write_bytes(b"mine")
    (path.parent / f"{path.stem}-00001-of-00002.safetensors").write_bytes(b"mine")
    others = contents(path.parent)
    gw.save(model(), path, max_file_bytes=LIMIT)
    gw.save(model(2.0), path, max_file_bytes=LIMIT // 2)
    assert len(contents(path.parent)) == 1 + len(gw.inspect(path).shards) + len(others)
    gw.save(model(), path)
    assert contents(path.parent).keys() == {path.name, *others}
    row = {"size": 4, "crc32": "0" * 8, "header": "0" * 8, "file": "mine.safetensors"}
    _with_row(path, row)  # a forged index names what is not its own
    gw.save(model(), path)
    assert {n: d for n, d in contents(path.parent).items() if n != path.name} == others


@pytest.mark.parametrize("fails_at", range(12))
def test_a_failed_save_leaves_the_old_files_and_nothing_else(path, monkeypatch, fails_at):
    gw.save(model(), path, max_file_bytes=LIMIT)
    before, count, fsync = contents(path.parent), [0], os.fsync

    def full(descriptor):
        count[0] += 1
        if count[0] > fails_at:
            raise OSError("no space left")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    for g in (model(2.0), model()):  # other contents, and the same again
        count[0] = 0
        with pytest.raises(OSError, match="no space"):
            gw.save(g, path, max_file_bytes=LIMIT)
        found = contents(path.parent)
        if found[path.name] == before[path.name]:
            assert found == before
        else:  # the new index was there when it could not be made durable
            assert fails_at == 11
        assert_same(g if fails_at == 11 else model(), gw.load(path))


KILLED = """
import os, sys
from pathlib import Path
import numpy as np
import gradwright as gw
from tests.formats.test_archive_several import LIMIT, model

path = Path(sys.argv[1])
gw.save(model(), path, max_file_bytes=LIMIT)
replace, outcomes = Path.replace, []
for last in range(40):
    pid = os.fork()
    if not pid:
        done = [0]
        def killed(self, target):
            if done[0] == last:
                os._exit(9)
            done[0] += 1
            return replace(self, target)
        Path.replace = killed
        gw.save(model(2.0 + last), path, max_file_bytes=LIMIT)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    found, kept = gw.load(path), model() if status else model(2.0 + last)
    for t in kept.variables:
        assert found.values[t.name].tobytes() == kept.values[t.name].tobytes(), (last, t.name)
    outcomes.append(status)
    if not status:
        break
print(outcomes)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes of POSIX")
def test_a_process_killed_in_the_midst_leaves_the_old_model(path):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert outcomes[-1] == 0 and set(outcomes[:-1]) == {9} and len(outcomes) > 6


def test_limits_that_make_no_sense_are_refused(path):
    for wrong in (0, -1, 1.5, "1 GB", True):
        with pytest.raises(GraphError, match="max_file_bytes"):
            gw.save(model(), path, max_file_bytes=wrong)
    assert not list(path.parent.iterdir())
    gw.save(model(), path, max_file_bytes=1)  # one array a file
    assert [len(s.tensors) for s in gw.inspect(path).shards] == [1] * len(SIZES)
    assert_same(model(), gw.load(path))
