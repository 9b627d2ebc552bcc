"""What the tests of formats share: a file of each, and a source that counts what is read of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError
from gradwright.formats import registry, source
from gradwright.ops.quantised.blocks import packed_ggml
from gradwright.spec import dtype as as_dtype

onnx = pytest.importorskip("onnx")

BIG = 300_000
"""Elements of the largest array of each file: over a megabyte, which no header needs."""
Made = tuple[Path, Mapping[str, np.ndarray]]
"""A file, and its arrays as a full read gives them."""


def network() -> gw.Graph:
    g = gw.Graph("net")
    x = g.placeholder("x", ("B", 3))
    w = g.variable("w", init=np.arange(12.0, dtype="float32").reshape(3, 4))
    g.variable("big", init=np.linspace(0, 1, BIG, dtype="float32"))
    gw.exp(x @ w, name="y")
    return g


def make_archive(folder: Path) -> Made:
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


def make_checkpoint(folder: Path) -> Made:
    kept = gw.Checkpoints(folder / "kept")
    trained(folder, kept)
    return _read_checkpoint(kept.list()[-1].path)


def _read_checkpoint(path: Path) -> Made:
    state = gw.load_state(path, "trainer")
    return path, dict(gw.load(path).values.items()) | {f"trainer:{n}": a for n, a in state.items()}


def make_run(folder: Path) -> Made:
    run = gw.Run(folder / "run", name="first", store=None)
    checkpoints = gw.Checkpoints(run)
    trained(folder, run, checkpoints)
    return run.folder, _read_checkpoint(checkpoints.list()[-1].path)[1]


def make_onnx(folder: Path) -> Made:
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


def make_safetensors(folder: Path) -> Made:
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


def make_safetensors_index(folder: Path) -> Made:
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


def make_gguf(folder: Path) -> Made:
    """Write a decoder, some of whose matrices lie in blocks; its embedding is the large one."""
    from gradwright.formats.gguf.mapped import Gguf

    sizes = {"width": 32, "layers": 1, "heads": 2, "inner": 32, "tied": True}
    config = gw.models.DecoderConfig(vocabulary=BIG // 32, **sizes)
    packed = {"layer0/q": "q4_0", "layer0/up": "q8_0"}
    drawn = gw.models.Decoder(config).graph.values
    values = {name: drawn[name] for name, _ in config.weights()}
    values |= {name: packed_ggml(values[name], kind) for name, kind in packed.items()}
    path = folder / "net.gguf"
    model = gw.models.Decoder(config, name="net", values=values, packed=packed)
    gw.models.save_gguf(model, path)
    return path, {name: tensor.floats() for name, tensor in Gguf(path).items()}


def make_huggingface(folder: Path) -> Made:
    """Write a decoder as transformers does; its embedding is the large one."""
    sizes = {"width": 16, "layers": 1, "heads": 2, "inner": 8, "tied": True}
    model = gw.models.Decoder(gw.models.DecoderConfig(vocabulary=BIG // 16, **sizes))
    gw.models.save_pretrained(model, folder / "net")
    return folder / "net", gw.models.state_dict(model)


def _adapted() -> Any:
    """Return an adapter named "net", whose half for the embedding is the large array."""
    sizes = {"width": 32, "layers": 1, "heads": 2, "inner": 32}
    model = gw.models.Decoder(gw.models.DecoderConfig(vocabulary=BIG // 32, **sizes))
    return gw.adapters.add(model, gw.adapters.LoRA(r=32), "embed|q", name="net")


def make_adapter(folder: Path) -> Made:
    path = folder / "net"
    gw.adapters.save(_adapted(), path)
    held = gw.open(path / "adapter_model.safetensors")
    return path, {name: np.array(array) for name, array in held.items()}


def make_gguf_adapter(folder: Path) -> Made:
    from gradwright.formats.gguf.mapped import Gguf

    path = folder / "net.gguf"
    gw.adapters.save(_adapted(), path)
    return path, {name: tensor.floats() for name, tensor in Gguf(path).items()}


MAKERS: dict[str, Callable[[Path], Made]] = {
    "safetensors-index": make_safetensors_index,
    "safetensors": make_safetensors,
    "onnx": make_onnx,
    "checkpoint": make_checkpoint,
    "gw": make_archive,
    "gguf-adapter": make_gguf_adapter,
    "gguf": make_gguf,
    "adapter": make_adapter,
    "huggingface": make_huggingface,
    "run": make_run,
}


def made(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Made]:
    """A fixture: a file of each format, and what a full read of it gives."""
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


def refuses(path: Path, name: str, match: str) -> None:
    for look in (registry.named(name).inspect, registry.named(name).tensors):
        with pytest.raises(ArchiveError, match=match) as caught:
            look(Counted(source.at(path)))
        assert str(caught.value).startswith(str(path))
