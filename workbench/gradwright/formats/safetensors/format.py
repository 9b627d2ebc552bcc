"""Safetensors files as a format."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from ...errors import ArchiveError
from ...spec import dtype as as_dtype
from ..registry import Format, Range, TensorRange
from ..report import ModelInfo
from ..source import Source, exactly, naming
from .header import DTYPES, MAX_HEADER, in_order, read_entry, read_header

_PLAIN = {**DTYPES, "C64": as_dtype("complex64")}


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


def tensors(source: Source) -> Mapping[str, TensorRange]:
    """Return what the header says of each tensor."""
    with naming(source.name):
        rows, _, base = read_header(functools.partial(exactly, source), source.size, "the header")
        entries = [read_entry(name, row, base, _PLAIN, "the header") for name, row in rows.items()]
        return {
            e.name: TensorRange(e.dtype, e.shape, (Range(e.start, e.nbytes),))
            for e in in_order(entries, base, source.size, "the header")
        }


def inspect(source: Source) -> ModelInfo:
    """Return the tensors; the file tells no ops."""
    found = {name: tensor.spec for name, tensor in tensors(source).items()}
    path = Path(source.name)
    return ModelInfo(path, source.size, path.stem, {}, {}, found)


FORMAT = Format(
    name="safetensors",
    title="a safetensors file",
    suffixes=(".safetensors",),
    recognise=recognise,
    inspect=inspect,
    tensors=tensors,
    use="it holds arrays and no graph: build the graph, then "
    "graph.values.restore(safetensors.numpy.load_file(path))",
)
