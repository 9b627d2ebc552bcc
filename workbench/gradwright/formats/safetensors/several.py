"""Safetensors in several files: ``model.safetensors.index.json`` says what lies in which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import ArchiveError
from ..checked import MAX_JSON, expect, parse_json
from ..registry import Format, TensorRange
from ..report import ModelInfo
from ..source import TOGETHER, Source, at, exactly, naming
from . import format as single
from .header import MAP
from .mapped import Tensors


def recognise(source: Source) -> bool | None:
    """Tell an index by the JSON that it is."""
    if source.read(0, 64).lstrip()[:1] != b"{" or source.size > MAX_JSON:
        return False
    try:
        return MAP in _parsed(source)
    except ArchiveError:
        return None if f'"{MAP}"'.encode() in source.read(0, MAX_JSON) else False


def _parsed(source: Source) -> dict[str, Any]:
    return parse_json(exactly(source, 0, source.size), "the index")


def contents(source: Source) -> single.Contents:
    """Return what the headers of all files say; texts are those of any of them.

    Raises ArchiveError for a file that is missing or cut off, and one that holds other tensors than
    the index says.
    """
    with naming(source.name):
        if source.size > MAX_JSON:
            raise ArchiveError(f"{source.size:,} bytes of JSON, limit {MAX_JSON:,}")
        index = _parsed(source)
        files = expect(index.get(MAP), dict, MAP, "the index")
        stated: dict[str, set[str]] = {}
        for name, file in files.items():
            stated.setdefault(expect(file, str, MAP, "the index"), set()).add(name)
        found: dict[str, TensorRange] = {}
        texts: dict[str, str] = {}
        for file, names in stated.items():
            part = single.contents(source.beside(file))
            held = part.tensors
            texts |= part.metadata
            if wrong := sorted(held.keys() ^ names):
                lacks = "lacks" if wrong[0] in names else "also holds"
                raise ArchiveError(
                    f"the file {lacks} {wrong[0][:60]!r}: it is another one than the index means",
                    where=file,
                    hint=TOGETHER,
                )
            for name, tensor in held.items():
                ranges = tuple(replace(r, file=file) for r in tensor.ranges)
                found[name] = replace(tensor, ranges=ranges)
        _check_size(index, sum(r.nbytes for t in found.values() for r in t.ranges))
        return single.Contents({name: found[name] for name in files}, texts)


def tensors(source: Source) -> Mapping[str, TensorRange]:
    """Return what the headers of all files say of each tensor."""
    return contents(source).tensors


def _check_size(index: Mapping[str, Any], nbytes: int) -> None:
    metadata = expect(index.get("metadata", {}), dict, "metadata", "the index")
    total = metadata.get("total_size", nbytes)
    if total != nbytes:
        raise ArchiveError(
            f"the tensors have {nbytes:,} bytes, the index says {str(total)[:40]}",
            where="the index",
        )


def inspect(source: Source) -> ModelInfo:
    """Return the tensors; the files tell no ops."""
    held, path = contents(source), Path(source.name)
    files = {r.file: 0 for tensor in held.tensors.values() for r in tensor.ranges}
    files |= {file: source.beside(file).size for file in files}
    specs = {name: tensor.spec for name, tensor in held.tensors.items()}
    return ModelInfo(
        path,
        source.size + sum(files.values()),
        path.name.partition(".")[0],
        {},
        {},
        specs,
        metadata=held.metadata,
        packed=held.packed,
        files=files,
    )


def opened(path: Path) -> Tensors:
    """Return the tensors of all files, each mapped when one of it is asked for."""
    held = contents(at(path))
    return Tensors(path, held.tensors, held.metadata)


FORMAT = Format(
    name="safetensors-index",
    title="an index of safetensors files",
    suffixes=(".json",),
    recognise=recognise,
    inspect=inspect,
    tensors=tensors,
    use=single.USE,
    open=opened,
)
