"""Damaged GGUF, safetensors and adapters: an error of ours or what they hold, and nothing else.

    python -m tests.formats.damaged_weights [count] [--seed N]    files of the seeds N, N + 1, ...
    python -m tests.formats.damaged_weights --seed N --one        one of them, here

A seed takes a small file: GGUF, a language model or an encoder in one file or tensors in two,
safetensors in one or in several files with an index, or an adapter: a folder of peft, one of
bottlenecks, a GGUF file. It flips bits, changes bytes, cuts, splices, puts other numbers in the
place of lengths, counts, sizes and offsets, and other names in the place of names, such as paths
that leave the folder. The file is inspected, its tensors are listed, it is drawn, opened and used,
an adapter in a model that is what it was if that fails; within a second and 200 MB for each, while
no file is opened beside those of the folder, nothing is written, no process begins, and no code is
compiled.
"""

from __future__ import annotations

import functools
import json
import random
import struct
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.formats import registry, source
from gradwright.formats.stored import Files, Stored
from tests.formats import damaged_onnx
from tests.support.campaign import Campaign

Tree = Mapping[str, bytes]
"""Name of a file -> its bytes; the first is the one that is opened."""
NUMBERS = (
    *(0, 1, 2, 3, 4, 8, 9, 12, 13, 31, 32, 33, 255, 256, 1 << 16, 1 << 31, (1 << 32) - 1),
    *(1 << 40, 1 << 62, 1 << 63, (1 << 64) - 1, (1 << 64) - 32),
)
NAMES = (b"../secret", b"/etc/passwd", b"", b"\0", b"a" * 300, b"token_embd.weight", b"\xff\xfe")
OLD = (
    *(b"token_embd.weight", b"general.architecture", b"blk.0.attn_q.weight", b"general.alignment"),
    *(b"llama", b"gpt2", b"split.count", b"F32", b"m-00001-of-00003.safetensors", b"weight_map"),
    *(b'"w"', b"data_offsets", b"peft_type", b"LORA", b"rank_pattern", b"lora_A", b"mh_adapter"),
    *(b"target_modules", b"general.type", b"blk.0.attn_q.weight.lora_a", b"q_proj", b"swish"),
)
"""Names that are replaced."""


@functools.cache
def trees() -> Mapping[str, Tree]:
    """Return files before they are damaged."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        return {
            "gguf": _gguf(folder),
            "encoder": _encoder(folder),
            "split gguf": _split(folder),
            "safetensors": _safetensors(folder),
            "index": _index(folder),
            **_adapters(folder),
        }


def _decoder() -> Any:
    config = gw.models.DecoderConfig(vocabulary=40, width=32, layers=2, heads=2, inner=32)
    return gw.quant.quantize(gw.models.Decoder(config), "q8_0", formats={"v": "float32"}).model


def _gguf(folder: Path) -> Tree:
    words = [f"w{i}" for i in range(37)] + ["a", "b", "ab"]
    path = folder / "m.gguf"
    model = _decoder()
    gw.models.save_gguf(model, path)
    from gradwright.formats.gguf.mapped import Gguf
    from gradwright.formats.gguf.writing import write

    held = Gguf(path)
    keys = dict(held.facts) | {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.token_type": np.ones(40, np.int32),
        "tokenizer.ggml.eos_token_id": 3,
    }
    arrays = {name: t.data for name, t in held.items()}
    write(path, keys, arrays, {name: t.kind for name, t in held.items()})
    return {"m.gguf": path.read_bytes()}


def _encoder(folder: Path) -> Tree:
    config = gw.models.BertConfig(vocabulary=40, width=32, layers=2, heads=2, inner=32, context=8)
    path = folder / "e.gguf"
    gw.models.save_gguf(gw.models.Bert(replace(config, head="classes")), path, kind="q8_0")
    return {"m.gguf": path.read_bytes()}


def _split(folder: Path) -> Tree:
    from gradwright.formats.gguf.writing import write

    found = {}
    for i in range(2):
        keys: dict[str, Any] = {"split.no": np.uint16(i), "split.count": np.uint16(2)}
        keys |= {"general.architecture": "llama", "split.tensors.count": np.int32(2)}
        name = f"m-0000{i + 1}-of-00002.gguf"
        write(folder / name, keys, {f"w{i}": np.ones((2, 32), "f4")}, {f"w{i}": "q4_0"})
        found[name] = (folder / name).read_bytes()
    return found


ADAPTERS = ("lora", "adalora", "bottleneck", "gguf adapter")


def _base() -> Any:
    """Return the model that adapters are for."""
    config = gw.models.DecoderConfig(vocabulary=20, width=16, layers=2, heads=2, inner=24)
    return gw.models.Decoder(config)


def _adapters(folder: Path) -> Mapping[str, Tree]:
    methods = {
        "lora": gw.adapters.LoRA(r=2, rank_pattern={"q": 3}, lora_bias=True),
        "adalora": gw.adapters.AdaLoRA(init_r=3, target_r=2, total_step=9),
        "bottleneck": gw.adapters.Bottleneck("houlsby"),
        "gguf adapter": gw.adapters.LoRA(r=2),
    }
    found: dict[str, Tree] = {}
    for kind, method in methods.items():
        adapted = gw.adapters.add(_base(), method, None if kind == "bottleneck" else "q|up")
        place = folder / (f"{kind}.gguf" if kind.startswith("gguf") else kind)
        gw.adapters.save(adapted, place)
        files = sorted(place.iterdir()) if place.is_dir() else [place]
        found[kind] = {path.name: path.read_bytes() for path in files}
    return found


def _arrays() -> dict[str, np.ndarray]:
    return {"w": np.arange(6, dtype="f4").reshape(2, 3), "ids": np.arange(4), "b": np.ones(2, "f2")}


def _safetensors(folder: Path) -> Tree:
    gw.safetensors.save(_arrays(), folder / "m.safetensors", metadata={"note": "small"})
    return {"m.safetensors": (folder / "m.safetensors").read_bytes()}


def _index(folder: Path) -> Tree:
    files = {}
    where = {}
    for i, (name, array) in enumerate(_arrays().items()):
        file = f"m-0000{i + 1}-of-00003.safetensors"
        gw.safetensors.save({name: array}, folder / file)
        files[file], where[name] = (folder / file).read_bytes(), file
    total = sum(a.nbytes for a in _arrays().values())
    index = {"metadata": {"total_size": total}, "weight_map": where}
    return {"m.safetensors.index.json": json.dumps(index).encode(), **files}


# -- damage ----------------------------------------------------------------------------------------


def damaged(seed: int) -> tuple[str, Tree]:
    """Return what is done, and the files."""
    draw = random.Random(seed)
    models = [*["gguf"] * 2, "encoder", "split gguf", *["safetensors"] * 3, "index"]
    kind = draw.choice([*models, *ADAPTERS])
    tree = dict(trees()[kind])
    name = draw.choice(list(tree))
    data = bytearray(tree[name])
    how = draw.choice(
        ["bits", "bytes", "cut", "splice", "grow", *["number"] * 4, "name", "missing"]
    )
    head = min(len(data), 3000)
    at = draw.randrange(head if draw.random() < 0.9 else len(data))
    if how in ("bits", "bytes"):
        for _ in range(draw.choice([1, 1, 2, 8])):
            at = draw.randrange(head)
            data[at] = draw.randrange(256) if how == "bytes" else data[at] ^ 1 << draw.randrange(8)
    elif how == "cut":
        del data[draw.randrange(len(data)) :]
    elif how == "grow":
        data[at:at] = bytes(draw.choice([1, 8, 32, 1000]))
    elif how == "splice":
        other = draw.choice([d for t in trees().values() for d in t.values()])
        start, end = sorted(draw.randrange(len(other)) for _ in range(2))
        data[at : at + draw.choice([0, end - start])] = other[start:end]
    elif how == "number":
        _number(data, draw, head)
    elif how == "name":
        _name(data, draw)
    elif len(tree) > 1:
        del tree[draw.choice(list(tree)[1:])]
        return f"{kind}, missing", tree
    tree[name] = bytes(data)
    return f"{kind}, {how}", tree


def _number(data: bytearray, draw: random.Random, head: int) -> None:
    """Put another number where one is, of text in JSON, else of 4 or 8 bytes."""
    digits = [i for i in range(min(head, len(data))) if 48 <= data[i] <= 57]
    value = draw.choice(NUMBERS)
    if digits and b'{"' in data[:20]:
        at = draw.choice(digits)
        data[at : at + 1] = str(value if draw.random() < 0.8 else -value).encode()
        return
    starts = [i for i in range(4, min(head, len(data) - 8)) if data[i : i + 8][1:] == bytes(7)]
    at = draw.choice(starts) if starts else draw.randrange(max(1, len(data) - 8))
    size = draw.choice([4, 8, 8])
    data[at : at + size] = struct.pack("<Q", value)[:size]


def _name(data: bytearray, draw: random.Random) -> None:
    """Put another name where one is, with its length where it has one."""
    new = draw.choice(NAMES)
    old = draw.choice(OLD)
    at = data.find(old)
    if at < 0:
        return
    is_counted = at >= 8 and data[at - 8 : at] == struct.pack("<Q", len(old))
    data[at : at + len(old)] = new
    if is_counted and draw.random() < 0.9:
        data[at - 8 : at] = struct.pack("<Q", len(new))


# -- what becomes of it ----------------------------------------------------------------------------


def problem(seed: int) -> str:
    """Return what is wrong with how damaged files are read; empty if nothing."""
    what, tree = damaged(seed)
    warm()
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as place:
        warnings.simplefilter("ignore")
        path = _put(Path(place), tree)
        before = sorted(Path(place).rglob("*"))
        for use in (_inspected, _listed, _drawn, _opened):
            says = damaged_onnx.watched(functools.partial(use, path), str(path.parent))
            if says:
                return f"{what}: {use.__name__[1:]} {says}"
        left = set(Path(place).rglob("*")).difference(before)
    return f"{what}: it left {left}" if left else ""


def _put(place: Path, tree: Tree) -> Path:
    folder = place / "model"
    folder.mkdir()
    (place / "secret").write_bytes(bytes(96))
    for name, data in tree.items():
        (folder / name).write_bytes(data)
    return folder if "adapter_config.json" in tree else folder / next(iter(tree))


def _inspected(path: Path) -> None:
    str(gw.inspect(path))
    gw.inspect(path).to_json()


def _listed(path: Path) -> None:
    """Read the first elements of each tensor that the headers tell of."""
    held = registry.find(source.at(path)).tensors(source.at(path))
    with Files(path) as files:
        for tensor in list(held.values())[:50]:
            Stored(tensor, files).flat(0, min(5, int(np.prod(tensor.shape, dtype=object))))


def _drawn(path: Path) -> None:
    format = registry.find(source.at(path))
    if format.outline is not None:
        len(format.outline(source.at(path)).graph.nodes)


def _opened(path: Path) -> None:
    held = gw.open(path)
    if isinstance(held, gw.models.Decoder):
        if held.n_weights < 1 << 20 and held.config.layers < 5:
            with np.errstate(all="ignore"):
                held.graph.output({"ids": np.zeros((1, 2), np.int64)}, held.logits)
        if held.tokenizer is not None:
            held.tokenizer.encode("a b")
    elif isinstance(held, gw.models.Bert):
        if held.n_weights < 1 << 20 and held.config.layers < 5:
            with np.errstate(all="ignore"):
                held.graph.output(held.examples([[0, 1]]), held.hidden)
    elif isinstance(held, gw.adapters.SavedAdapter):
        _loaded(held)
    elif isinstance(held, Mapping):
        for name in held:
            np.asarray(held[name]).reshape(-1)[:5].tolist()


def _loaded(saved: gw.adapters.SavedAdapter) -> None:
    """Put an adapter into a model, which is what it was where that fails."""
    model = _base()
    before = {name: array.copy() for name, array in model.graph.values.items()}
    try:
        adapted = gw.adapters.load(model, saved)
    except Exception:
        same = all(np.array_equal(model.graph.values[n], a) for n, a in before.items())
        assert same and not gw.adapters.of(model) and len(model.graph.values) == len(before)
        raise
    with np.errstate(all="ignore"):
        model.graph.output({"ids": np.zeros((1, 2), np.int64)}, model.logits)
    adapted.remove()


@functools.cache
def warm() -> None:
    """Do once what is only done once, and begin to listen."""
    for tree in trees().values():
        with tempfile.TemporaryDirectory() as place:
            path = _put(Path(place), tree)
            _inspected(path)
            _listed(path)
            if "of-00002" not in path.name:  # a split of two tensors is no model
                _drawn(path)
                _opened(path)
    damaged_onnx.listen()


def _shown(seed: int) -> Iterator[str]:
    what, tree = damaged(seed)
    yield f"{what}, {', '.join(f'{name}: {len(data):,} bytes' for name, data in tree.items())}"
    with tempfile.TemporaryDirectory() as place:
        path = _put(Path(place), tree)
        for use in (_inspected, _listed, _opened):
            try:
                use(path)
                yield f"{use.__name__[1:]}: what it holds"
            except Exception as error:
                yield f"{use.__name__[1:]}: {type(error).__name__}: {error}"


CAMPAIGN = Campaign(
    "tests.formats.damaged_weights", "damaged files", problem, _shown, "as it should be",
    count=40_000, batch=1000,
)  # fmt: skip


if __name__ == "__main__":
    CAMPAIGN.main(__doc__)
