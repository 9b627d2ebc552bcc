"""External data: tensors of a model that lie in files beside it, mapped when they are read.

A model names its files, and may come from anybody: nothing is opened but plain files of the folder
that the model lies in. Where the model's path is a link, as in the cache of a hub, the folder that
it leads to is the model's, too.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from ....errors import ArchiveError
from ....files.plain import opened
from ...registry import Range

Array = np.ndarray[Any, Any]


def place(entries: Mapping[str, str], nbytes: int) -> Range:
    """Return where a tensor of so many bytes says that it lies.

    Raises ArchiveError where that is no file in the model's folder or below it, on any system.

    >>> place({"location": "w/a.bin", "offset": "4"}, 12)
    Range(start=4, nbytes=12, file='w/a.bin')
    """
    location = entries.get("location", "")
    path = PureWindowsPath(location)  # it knows both separators
    if not location or "\0" in location or path.drive or path.root or ".." in path.parts:
        raise _not_in_folder(location)
    sizes = {}
    for key in ("offset", "length"):
        text = entries.get(key, "")
        if text and not (text.isascii() and text.isdecimal() and len(text) < 20):
            raise ArchiveError(f"its {key} is {text[:60]!r}", need="a whole number")
        sizes[key] = int(text) if text else {"offset": 0, "length": nbytes}[key]
    if sizes["length"] != nbytes:
        raise ArchiveError(f"its data has {sizes['length']:,} bytes", need=f"{nbytes:,}")
    return Range(sizes["offset"], nbytes, PurePosixPath(*path.parts).as_posix())


def _not_in_folder(location: str) -> ArchiveError:
    return ArchiveError(
        f"its data would be in {location[:60]!r}", need="a file in the folder of the model"
    )


class Beside:
    """The files beside a model, each mapped once; a model that is no file has none."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        folders = [] if path is None else [_real(Path(path).parent), _real(Path(path)).parent]
        self._folders = list(dict.fromkeys(folders))
        self._mapped: dict[str, Array] = {}

    def data(self, entries: Mapping[str, str], nbytes: int) -> Array:
        """Return the bytes of a tensor, ``u8[nbytes]``, read-only; they are read when used."""
        found = place(entries, nbytes)
        if not self._folders:
            raise ArchiveError(
                f"its data is in the file {found.file[:60]!r}", hint="load the model by its path"
            )
        if found.file not in self._mapped:
            self._mapped[found.file] = _mapped(self._path(found.file))
        held, end = self._mapped[found.file], found.start + nbytes
        if end > held.size:
            raise ArchiveError(
                f"its data would be bytes {found.start:,} to {end:,} of {found.file[:60]!r}",
                need=f"at most {held.size:,}",
            )
        return held[found.start : end]

    def _path(self, file: str) -> Path:
        """Return the file that a name means, wherever links lead to, if it is in the folder."""
        for folder in self._folders:
            path = _real(folder / file)
            try:
                if not set(self._folders).isdisjoint(path.parents) and path.is_file():
                    return path
            except OSError:  # a name that is too long
                break
        raise _not_in_folder(file)


def _real(path: Path) -> Path:
    """Return where links lead; those that lead in a circle stay."""
    return Path(os.path.realpath(path))


def _mapped(path: Path) -> Array:
    """Return the bytes of a plain file, read-only."""
    try:
        with opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    except (OSError, OverflowError) as error:
        raise ArchiveError(f"its data cannot be mapped: {error}") from None
    return np.frombuffer(memory, np.uint8)
