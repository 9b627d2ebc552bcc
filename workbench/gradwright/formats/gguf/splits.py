"""A file in several: ``net-00001-of-00003.gguf`` and those beside it.

Each has a header of its own; the first one has the keys of all, and says how many there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from ...errors import ArchiveError
from ..source import TOGETHER, Source, naming
from .header import Header, Info, read_header

NUMBER, COUNT, TENSORS = "split.no", "split.count", "split.tensors.count"
_NAME = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf", re.DOTALL)
MAX_FILES = 1000


def whole(source: Source) -> tuple[Header, dict[str, Info], dict[str, str]]:
    """Return the first header, the tensors of all files, and the file that each lies in.

    The name of the file that was asked for is ``""``. Raises ArchiveError for files that are
    missing, or are those of another split.
    """
    with naming(source.name):
        header = read_header(source)
        count = header.keys.get(COUNT, 1)
        if count == 1:
            return header, dict(header.tensors), dict.fromkeys(header.tensors, "")
        first, tensors, places = header, dict[str, Info](), dict[str, str]()
        for i, name in enumerate(_names(source, header)):
            part = header if not name else _part(source, name)
            if part.keys.get(COUNT) != count or part.keys.get(NUMBER) != i:
                raise ArchiveError(
                    f"it is part {part.keys.get(NUMBER)!r:.20} of {part.keys.get(COUNT)!r:.20}",
                    where=name,
                    need=f"part {i} of {count}",
                    hint=TOGETHER,
                )
            if twice := sorted(part.tensors.keys() & tensors.keys()):
                raise ArchiveError(f"two files hold {twice[0][:60]!r}", where=name)
            first = part if i == 0 else first
            tensors |= part.tensors
            places |= dict.fromkeys(part.tensors, name)
        stated = first.keys.get(TENSORS, len(tensors))
        if stated != len(tensors):
            raise ArchiveError(f"its files hold {len(tensors):,} tensors", need=f"{stated!r:.20}")
        return first, tensors, places


def _names(source: Source, header: Header) -> Iterator[str]:
    """Yield the name of each file beside the one that was asked for, in order; that one's is ""."""
    count, number = header.keys[COUNT], header.keys.get(NUMBER)
    name = PurePath(source.name).name
    found = _NAME.fullmatch(name)
    if type(count) is not int or not 1 <= count <= MAX_FILES or type(number) is not int:
        raise ArchiveError(f"it is part {number!r:.20} of {count!r:.20}", need="1 to 1,000 parts")
    if found is None or int(found[2]) - 1 != number or int(found[3]) != count:
        raise ArchiveError(
            f"it is part {number} of {count}, and so the others are not found",
            need=f"the name …-{number + 1:05}-of-{count:05}.gguf",
            hint="give all files the names that they had",
        )
    for i in range(count):
        yield "" if i == number else f"{found[1]}-{i + 1:05}-of-{count:05}.gguf"


def _part(source: Source, name: str) -> Header:
    beside = source.beside(name)
    with naming(name):
        return read_header(beside)
