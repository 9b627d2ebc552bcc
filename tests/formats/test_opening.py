"""``gw.open``: what is in a file of any format; pickles are told, looked into, and never opened."""

from __future__ import annotations

import collections
import io
import json
import pickle
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError
from gradwright.formats import registry, source
from gradwright.formats.pickles import MOST, imports
from tests.formats import every_format

EMBED = "model.embed_tokens.weight"

made = pytest.fixture(scope="module")(every_format.made)


def test_every_format_is_opened_as_what_it_holds(made: Any) -> None:
    for name, (path, arrays) in made.items():
        found = gw.open(path)
        match name:
            case "safetensors" | "safetensors-index":
                assert set(found) == set(arrays)
                assert all(found[n].tobytes() == a.tobytes() for n, a in arrays.items())
            case "gw" | "checkpoint":
                assert isinstance(found, gw.Graph) and found.name == "net"
                np.testing.assert_array_equal(found.values["w"], arrays["w"])
            case "onnx":
                assert isinstance(found, gw.Graph) and found["y"].op.name == "exp"
            case "run":
                assert isinstance(found, gw.train.RunFolder) and found.summary().name == "first"
            case "huggingface":
                assert isinstance(found, gw.models.Decoder)
                assert found.graph.values["embed"].tobytes() == arrays[EMBED].tobytes()
            case "gguf":
                assert isinstance(found, gw.models.Decoder)
                assert found.packed == {"layer0/q": "q4_0", "layer0/up": "q8_0"}
                embed = found.graph.values["embed"]
                assert embed.tobytes() == arrays["token_embd.weight"].tobytes()
            case "adapter" | "gguf-adapter":
                assert isinstance(found, gw.adapters.SavedAdapter)
            case _:
                raise AssertionError(f"what does gw.open give for {name}?")


OTHERS = {
    "gw": "data models recording train",
    "run": "models",
    "gguf": "data debug evaluation formats.archive formats.onnx models.grammar models.huggingface"
    " models.interpretation models.sequential models.whisper recording train",
    "huggingface": "data debug evaluation formats.onnx models.gguf models.grammar"
    " models.interpretation models.sequential recording train",
    "safetensors": "data debug evaluation formats.archive formats.onnx models recording train",
}
"""Format -> what opening a file of it does not import: others are told by what begins them."""


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_opened_imports_what_it_uses(made: Any, name: str) -> None:
    script = "import sys, gradwright as gw; gw.open(sys.argv[1]); print(*sys.modules)"
    command = [sys.executable, "-c", script, str(made[name][0])]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = {m.removeprefix("gradwright.") for m in done.stdout.split() if "gradwright." in m}
    assert registry.FORMATS[name].module.removeprefix("gradwright.") in loaded
    wrong = [m for m in loaded for room in OTHERS[name].split() if f"{m}.".startswith(f"{room}.")]
    assert not wrong


def test_a_format_that_is_not_asked_would_not_know_the_file(made: Any, tmp_path: Path) -> None:
    """Whole, cut off, and with other first bytes; folders without one of their files."""
    said = set()

    def asked(path: Path) -> None:
        for name, home in registry.FORMATS.items():
            if not home.may_be(source.at(path)):
                assert registry.named(name).recognise(source.at(path)) is False, (name, path)
                said.add(name)

    for name, (path, _) in made.items():
        asked(path)
        if path.is_dir():
            for left in path.iterdir():
                folder = tmp_path / f"{name}-{left.name}"
                shutil.copytree(path, folder, ignore=shutil.ignore_patterns(left.name))
                asked(folder)
            continue
        data = path.read_bytes()
        for n in (0, 1, 3, 4, 9, 100, len(data) // 2, len(data) - 1):
            (tmp_path / path.name).write_bytes(data[:n])
            asked(tmp_path / path.name)
            (tmp_path / path.name).write_bytes(b"?" + data[1:n])
            asked(tmp_path / path.name)
    assert said == set(registry.FORMATS) - {"safetensors", "safetensors-index", "pickle"}


def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        gw.open(tmp_path / "nothing.gw")
    with pytest.raises(ArchiveError, match="no path"):
        gw.open("a\0b")
    (tmp_path / "a.gw").write_bytes(b"hello")
    with pytest.raises(ArchiveError, match="no format that is known"):
        gw.open(tmp_path / "a.gw")


# -- pickles ---------------------------------------------------------------------------------------


class Evil:
    """What writes a file where its pickle is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return exec, (f"import pathlib; pathlib.Path({str(self.path)!r}).touch()",)


def in_zip(path: Path, program: bytes, storages: int = 2) -> Path:
    """Write a file as ``torch.save`` does."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{path.stem}/data.pkl", program)
        for i in range(storages):
            archive.writestr(f"{path.stem}/data/{i}", bytes(100 * (i + 1)))
        archive.writestr(f"{path.stem}/version", "3\n")
    return path


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("name", ["a.pt", "a.bin", "a.ckpt", "a.gw", "a.safetensors"])
def test_pickles_are_recognised_and_never_run(tmp_path: Path, name: str, protocol: int) -> None:
    mark = tmp_path / "mark"
    held = collections.OrderedDict(w=np.ones(3), evil=Evil(mark))
    program = pickle.dumps(held, protocol)
    (tmp_path / "alone").mkdir()
    alone = tmp_path / "alone" / name
    alone.write_bytes(program)
    for path in (alone, in_zip(tmp_path / name, program)):
        assert registry.find(source.at(path)).name == "pickle"
        for opens in (gw.open, gw.load, gw.onnx.load):
            with pytest.raises(ArchiveError, match="pickle") as caught:
                opens(path)
            assert "weights_only=True" in str(caught.value)
            assert "save_file" in caught.value.hint
        info = gw.inspect(path)
        assert info.calls["collections.OrderedDict"] == 1
        grave = [f.what for f in info.findings if f.grave]
        assert any("not opened here" in text for text in grave)
        assert [t for t in grave if "would call" in t] == [
            f"it would call {'__builtin__' if protocol < 3 else 'builtins'}.exec"
        ]
        assert "<script" not in info._repr_html_() and "tensors" not in info.facts()
        assert json.loads(info.to_json())["calls"] == dict(info.calls)
        assert f"load('{name}'" in str(info) and str(tmp_path) not in str(info)
        with pytest.raises(ArchiveError, match="runs whatever it names"):
            registry.named("pickle").tensors(source.at(path))
    assert "2 storages of 300 B" in str(gw.inspect(tmp_path / name))
    assert not mark.exists()
    pickle.loads(program)  # noqa: S301 - it would have
    assert mark.exists()


def test_the_lines_make_a_safetensors_file(tmp_path: Path) -> None:
    """Tied, transposed and half tensors, as states of models have them; also torch's old form."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("safetensors.torch")
    w = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    state = {"w": w, "tied": w, "t": w.T, "half": w.to(torch.bfloat16)[:, 1]}
    for new in (True, False):
        path = tmp_path / f"it's {new}.pt"
        torch.save(state, path, _use_new_zipfile_serialization=new)
        assert gw.inspect(path).producer == "torch"
        assert set(gw.inspect(path).calls) > {"torch._utils._rebuild_tensor_v2"}
        with pytest.raises(ArchiveError) as caught:
            gw.open(path)
        lines = [line.strip() for line in caught.value.hint.splitlines()]
        assert len(lines) == 2
        exec("\n".join(lines), {})
        found = gw.open(path.with_suffix(".safetensors"))
        assert {n: a.astype("f4").tolist() for n, a in found.items()} == {
            n: t.float().tolist() for n, t in state.items()
        }


def test_pickles_that_are_long_or_damaged_take_no_time(tmp_path: Path) -> None:
    begun = time.thread_time()
    stuffed = b"\x80\x02" + b"N0" * (1 << 23) + b"."
    assert imports(stuffed) == ({}, False) and MOST < 1 << 23
    for tail in (b"\x8a\xff", b"\x8b\xff\xff\xff\x7f", b"X\xff\xff\xff\xff", b"\x8e" + b"\xff" * 8):
        found, whole = imports(b"\x80\x04c" + b"os\nsystem\n" + tail)
        assert found == {"os.system": 1} and not whole
    path = tmp_path / "cut.pt"
    path.write_bytes(pickle.dumps({"a": list(range(1000))})[:500])
    assert "not all known" in str(gw.inspect(path))
    assert time.thread_time() - begun < 5  # each is bounded: 0.3 s


def test_names_in_a_pickle_are_text_and_no_html(tmp_path: Path) -> None:
    evil = "<img/src=x/onerror=alert(1)>"
    stream = io.BytesIO(b"\x80\x02c" + evil.encode() + b"\n" + evil.encode() + b"\n.")
    path = tmp_path / "a.pkl"
    path.write_bytes(stream.getvalue())
    info = gw.inspect(path)
    assert evil in str(info) and "<img" not in info._repr_html_()


def test_what_only_begins_like_a_pickle_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.dat"
    for data in (
        b"\x80",
        b"\x80\x02",
        b"\x80\x09N.",
        b"\x80\x02\xffabc",
        b"\x80\x04\x95" + b"\xff" * 9,
    ):
        path.write_bytes(data)
        with pytest.raises(ArchiveError, match="no format"):
            gw.inspect(path)


def test_the_hint_names_the_file(tmp_path: Path) -> None:
    path = in_zip(tmp_path / "pytorch_model.bin", pickle.dumps({}))
    with pytest.raises(ArchiveError) as caught:
        gw.open(path)
    assert re.search(r"load\('.*pytorch_model\.bin'", caught.value.hint)
    assert "pytorch_model.safetensors'" in caught.value.hint


def test_a_folder_of_pickled_weights_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    mark = tmp_path / "mark"
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(Evil(mark)))
    with pytest.raises(ArchiveError, match="its weights are a pickle") as caught:
        gw.open(tmp_path)
    assert "save_file" in caught.value.hint and "model.safetensors'" in caught.value.hint
    info = gw.inspect(tmp_path)
    assert info.architecture == "llama" and info.language is None and not info.tensors
    assert [f.what for f in info.findings if f.grave] == [
        "its weights are a pickle, and opening one runs what it names"
    ]
    assert not mark.exists()


@pytest.mark.parametrize("seed", range(8))
def test_damaged_pickles_are_told_or_refused(tmp_path: Path, seed: int) -> None:
    """40 files a seed, alone and in a ZIP file: flips, cuts, what is left out and put in."""
    rng = np.random.default_rng(seed)
    held = {"w": np.arange(9.0), "more": collections.OrderedDict(a=[1, "x" * 99, 2**80, b"y"])}
    path = tmp_path / "m.pt"
    for i in range(40):
        data = bytearray(pickle.dumps(held, int(rng.integers(2, 6))))
        if i % 2:
            data = bytearray(in_zip(path, bytes(data)).read_bytes())
        for _ in range(rng.choice([1, 4, 16])):
            data[rng.integers(len(data))] = rng.integers(256)
        cut = int(rng.integers(2, len(data))) if rng.random() < 0.3 else len(data)
        path.write_bytes(data[:cut])
        begun = time.thread_time()
        try:
            gw.inspect(path).to_json()
        except ArchiveError as error:
            assert str(path) in str(error)
        with pytest.raises(ArchiveError, match=re.escape(str(path))):
            gw.open(path)
        assert time.thread_time() - begun < 5
