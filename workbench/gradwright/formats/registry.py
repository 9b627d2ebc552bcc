"""Which formats there are, and which one a file is of: found by content, then by suffix.

The table names modules, so a reader stands in the room of what it makes, be that above this one,
and is imported when a file is looked at.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from ..errors import ArchiveError
from ..graph import Graph
from ..shared import first_use
from ..spec import TensorSpec
from .memory import Memory
from .report import ModelInfo
from .source import Source, at, naming


@dataclass(frozen=True)
class Home:
    """Where a format is declared, and what of a source is quick to see and all of its own have."""

    module: str
    begins: bytes | None = b""
    """The first bytes of its files, empty where it has always to be asked; None of a folder."""
    holds: tuple[str | tuple[str, ...], ...] = ()
    """Ends of names in its folder or ZIP file, of each row one at least."""
    says: bytes = b""
    """What stands somewhere in its first ``HEAD`` bytes."""

    def may_be(self, source: Source) -> bool:
        """Tell whether the format has to be asked, and so imported."""
        if self.begins == b"":
            return True
        if source.read(0, len(self.begins or b"?")) != (self.begins or b""):
            return False
        if self.says and self.says not in source.read(0, HEAD):
            return False
        names = source.names() if self.holds else []  # none where a ZIP file is cut off
        return not names or all(any(n.endswith(end) for n in names) for end in self.holds)


HEAD = 1 << 16
GGUF_ADAPTER = b"general.type\x08\0\0\0\x07\0\0\0\0\0\0\0adapter"
"""A key of a GGUF file: its length stands before it, and the type and length of its text after."""
_ZIP = b"PK\3\4"
FORMATS = {
    "safetensors-index": Home("gradwright.formats.safetensors.several"),
    "safetensors": Home("gradwright.formats.safetensors.format"),
    "onnx": Home("gradwright.formats.onnx.format", b"\b"),
    "checkpoint": Home("gradwright.train.checkpoints.format", _ZIP, ("checkpoint.json",)),
    "gw": Home("gradwright.formats.archive.format", _ZIP),
    "gguf-adapter": Home("gradwright.adapters.files.gguf_format", b"GGUF", says=GGUF_ADAPTER),
    "gguf": Home("gradwright.models.gguf.format", b"GGUF"),
    "adapter": Home("gradwright.adapters.files.format", None, ("adapter_config.json",)),
    "huggingface": Home(
        "gradwright.models.huggingface.format",
        None,
        ("config.json", (".safetensors", ".index.json", ".bin")),
    ),
    "run": Home("gradwright.recording.format", None, ("config.json",)),
    "pickle": Home("gradwright.formats.pickles"),
}
"""Format -> where it is declared as ``FORMAT``, in the order of asking: the special ones go before
the general ones, for a checkpoint is an archive.
"""


@dataclass(frozen=True)
class Range:
    """Bytes of a file: the one that is read if ``file`` is empty, else one beside or below it."""

    start: int
    nbytes: int
    file: str = ""


@dataclass(frozen=True)
class TensorRange:
    """A stored tensor: what it is, and where its bytes lie.

    ``form`` says how bytes stand for elements where they do not as in memory, such as ``"text"``.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    ranges: tuple[Range, ...]
    form: str = ""

    @property
    def spec(self) -> TensorSpec:
        """Dtype and shape."""
        return TensorSpec(self.shape, self.dtype)


@dataclass(frozen=True)
class Outline:
    """The graph of a file without its arrays, to be drawn: constants and variables lack values.

    ``notes`` say what the graph does not tell.
    """

    graph: Graph
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Format:
    """A kind of file, and how it is read.

    ``recognise`` looks at content alone; None is "may be", such as for a file that is cut off, and
    leaves it to the suffix. ``inspect`` and ``tensors`` read headers and no array; both raise
    ArchiveError for what is damaged or lies. ``use`` is what a user calls to read such a file.
    ``memory`` returns what a graph in it would take at certain sizes, ``outline`` the graph, of
    headers alone, too. ``open`` returns what ``gw.open`` does.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    recognise: Callable[[Source], bool | None]
    inspect: Callable[[Source], ModelInfo]
    tensors: Callable[[Source], Mapping[str, TensorRange]]
    use: str
    memory: Callable[[Source, ModelInfo, Mapping[str, int]], Memory] | None = None
    outline: Callable[[Source], Outline] | None = None
    open: Callable[[Path], Any] | None = None


def known() -> Iterator[Format]:
    """Yield all formats in the order of asking, each imported when its turn comes.

    >>> [format.name for format in known()] == list(FORMATS)
    True
    """
    yield from map(named, FORMATS)


def named(name: str) -> Format:
    """Return the format of a name, imported if it was not."""
    with first_use:
        found: Format = import_module(FORMATS[name].module).FORMAT
    return found


def find(source: Source) -> Format:
    """Return the format of a source; raises ArchiveError where no format is known to be its own."""
    suffix = PurePath(source.name).suffix.lower()
    maybe: list[Format] = []
    with naming(source.name):
        for format in _asked(source):
            seen = format.recognise(source)
            if seen:
                return format
            maybe += [format] * (seen is None)
        by_suffix = [format for format in known() if suffix in format.suffixes]
        for format in maybe:
            if format in by_suffix:
                return format
        looks = f"may be {_either(maybe)}" if maybe else "is that of none"
        raise ArchiveError(
            "the file is of no format that is known",
            facts=[
                f"its content {looks}" if source.size or source.names() else "it is empty",
                f"its suffix {suffix!r} is that of {_either(by_suffix)}",
            ],
            need=f"{_either(by_suffix or known())}, whole",
        )


def _asked(source: Source) -> Iterator[Format]:
    """Yield the formats that a source may be of; others are not imported."""
    return (named(name) for name, home in FORMATS.items() if home.may_be(source))


def _either(formats: Iterable[Format]) -> str:
    return " or ".join(format.title for format in formats) or "nothing that is known"


def mistaken(path: str | os.PathLike[str], *wanted: str) -> ArchiveError | None:
    """Return an error that says what a file is, if its content is of another format than wanted."""
    source = at(path)
    for format in _asked(source):
        if format.recognise(source):
            if format.name in wanted:
                return None
            return ArchiveError(
                f"this is {format.title}, not {named(wanted[0]).title}",
                where=str(os.fspath(path)),
                hint=format.use,
            )
    return None
