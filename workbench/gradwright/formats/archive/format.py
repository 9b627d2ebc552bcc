"""Graph archives as a format."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from ...errors import ArchiveError
from ..memory import Memory
from ..registry import Format, Outline, TensorRange
from ..report import ModelInfo
from ..source import Source, naming, stream
from .archive import STATE, VALUES, load, states_of
from .container import FORMAT_NAME, MANIFEST, Reader
from .document import DOCUMENT
from .rebuild import Document, GraphReader
from .report import described, memory_of
from .tensors import outlined, ranges_in


def recognise(source: Source) -> bool | None:
    """Tell an archive by the first words of its manifest, a member of a ZIP file."""
    if source.read(0, 4) != b"PK\3\4":
        return False
    names = source.names()
    if not names:
        return None  # a ZIP file without directory may be cut off
    if MANIFEST not in names:
        return False
    try:
        return FORMAT_NAME.encode() in source.part(MANIFEST).read(0, 80)
    except ArchiveError:
        return False


@contextlib.contextmanager
def opened(source: Source) -> Iterator[Reader]:
    """Open a source as an archive."""

    def beside(name: str) -> BinaryIO:
        return stream(source.beside(name))

    with naming(source.name), Reader(stream(source), beside) as reader:
        yield reader


def inspect(source: Source) -> ModelInfo:
    """Return what is in the archive; see ``gw.inspect``."""
    with opened(source) as reader:
        return described(reader, Path(source.name))


def memory(source: Source, info: ModelInfo, sizes: Mapping[str, int]) -> Memory:
    """Return what the graph would take at certain sizes of its inputs."""
    with opened(source) as reader:
        return memory_of(reader, info, sizes)


def tensors(source: Source) -> Mapping[str, TensorRange]:
    """Return the arrays of the graph, and those of states as ``state:name``."""
    with opened(source) as reader:
        found = ranges_in(reader, VALUES)
        for state in states_of(reader):
            held = ranges_in(reader, f"{STATE}/{state}")
            found |= {f"{state}:{name}": tensor for name, tensor in held.items()}
        return found


def outline(source: Source) -> Outline:
    """Return the graph, whose large arrays are not read."""
    with opened(source) as reader:
        document = Document(reader.json(DOCUMENT))
        return Outline(GraphReader(document, outlined(reader, VALUES), None).read())


FORMAT = Format(
    name="gw",
    title="a graph archive",
    suffixes=(".gw",),
    recognise=recognise,
    inspect=inspect,
    tensors=tensors,
    use="gw.load(path), gw.inspect(path)",
    memory=memory,
    outline=outline,
    open=load,
)
