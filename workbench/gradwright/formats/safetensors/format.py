"""Safetensors files as a format."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ArchiveError
from ...spec import dtype as as_dtype
from ...spec import dtype_name
from ..checked import expect
from ..registry import Format, Range, TensorRange
from ..report import ModelInfo, Packed
from ..source import Source, at, exactly, naming
from .header import MAX_HEADER, METADATA, PACKED, PLAIN, SIX, in_order, read_entry, read_header
from .mapped import Tensors

_DTYPES = {code: as_dtype(name) for name, code in (PLAIN | PACKED | SIX).items()}
USE = (
    "tensors = gw.open(path): it holds arrays and no graph; graph.values.restore(tensors) takes "
    "them over"
)


@dataclass(frozen=True)
class Contents:
    """What the header of a file says: its tensors, in the order of their bytes, and its texts."""

    tensors: Mapping[str, TensorRange]
    metadata: Mapping[str, str]

    @property
    def packed(self) -> dict[str, Packed]:
        """Tensors of which several elements share a byte."""
        return {
            name: Packed(dtype_name(tensor.dtype), tensor.ranges[0].nbytes)
            for name, tensor in self.tensors.items()
            if tensor.form
        }


def recognise(source: Source) -> bool | None:
    """Tell a safetensors file by the size of its header, and the JSON that begins after it."""
    head = source.read(0, 9)
    size = int.from_bytes(head[:8], "little")
    if head[8:] != b"{" or not 2 <= size <= MAX_HEADER:
        return False
    if 8 + size > source.size:
        return None  # it may be cut off
    try:
        tensors(source)
    except ArchiveError:
        return None
    return True


def contents(source: Source) -> Contents:
    """Return what the header says; no tensor is read."""
    with naming(source.name):
        read = functools.partial(exactly, source)
        rows, stated, base = read_header(read, source.size, "the header")
        entries = [read_entry(name, row, base, _DTYPES, "the header") for name, row in rows.items()]
        found = {
            e.name: TensorRange(e.dtype, e.shape, (Range(e.start, e.nbytes),), e.form)
            for e in in_order(entries, base, source.size, "the header")
        }
        return Contents(found, _texts(stated))


def _texts(stated: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: expect(text, str, f"{METADATA} {name[:60]!r}", "the header")
        for name, text in stated.items()
    }


def tensors(source: Source) -> Mapping[str, TensorRange]:
    """Return what the header says of each tensor."""
    return contents(source).tensors


def inspect(source: Source) -> ModelInfo:
    """Return the tensors; the file tells no ops."""
    held, path = contents(source), Path(source.name)
    specs = {name: tensor.spec for name, tensor in held.tensors.items()}
    return ModelInfo(
        path, source.size, path.stem, {}, {}, specs, metadata=held.metadata, packed=held.packed
    )


def opened(path: Path) -> Tensors:
    """Return the tensors of a file, mapped when they are asked for."""
    held = contents(at(path))
    return Tensors(path, held.tensors, held.metadata)


FORMAT = Format(
    name="safetensors",
    title="a safetensors file",
    suffixes=(".safetensors",),
    recognise=recognise,
    inspect=inspect,
    tensors=tensors,
    use=USE,
    open=opened,
)
