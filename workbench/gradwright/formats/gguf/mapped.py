"""Tensors of a GGUF file as they lie in it: mapped, not read, and not to be written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import ArchiveError
from ...ops.quantised.blocks import FORMATS, unpacked
from ..source import as_path, at
from ..stored import Files
from .kinds import BY_NAME
from .splits import whole

Array = np.ndarray[Any, Any]
PIECE = 1 << 22
"""Numbers that are unpacked at a time."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of a file: ``data`` is its elements, or u8[..., bytes of a row] if it is packed.

    ``kind`` is what ggml calls the storage, such as ``"f16"`` or ``"q4_k"``.
    """

    kind: str
    shape: tuple[int, ...]
    data: Array

    @property
    def is_packed(self) -> bool:
        """Whether its bytes are blocks."""
        return BY_NAME[self.kind].dtype is None

    def floats(self) -> Array:
        """Return float32 numbers; those that are stored as such are not copied.

        Raises ArchiveError for a kind that is not read here.
        """
        if not BY_NAME[self.kind].is_read:
            raise ArchiveError(f"tensors of kind {self.kind} are not read", need=", ".join(FORMATS))
        if not self.is_packed:
            return np.asarray(self.data, np.float32)
        rows = self.data.reshape(-1, self.data.shape[-1])
        found = np.empty((len(rows), self.shape[-1]), np.float32)
        step = max(1, PIECE // self.shape[-1])
        for start in range(0, len(rows), step):
            found[start : start + step] = unpacked(rows[start : start + step], self.kind)
        return found.reshape(self.shape)


class Gguf(Mapping[str, Tensor]):
    """The tensors of a GGUF file, and of those that it is split into; ``facts`` are its keys.

    Bytes stay in the file, mapped: nothing is read before it is used, and nothing can be written.
    Raises ArchiveError where a header is damaged or lies.

    >>> import numpy as np, pathlib, tempfile
    >>> from gradwright.formats.gguf.mapped import Gguf
    >>> from gradwright.formats.gguf.writing import write
    >>> path = pathlib.Path(tempfile.mkdtemp(), "w.gguf")
    >>> write(path, {"general.name": "small"}, {"w": np.ones((2, 32), "f4")}, {"w": "q4_0"})
    >>> held = Gguf(path)
    >>> held.facts["general.name"], held["w"].kind, held["w"].data.shape, held["w"].floats()[0, 0]
    ('small', 'q4_0', (2, 18), np.float32(1.0))
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        place = as_path(path)
        header, self.infos, self._files = whole(at(place))
        self.facts: Mapping[str, Any] = header.keys
        files = Files(place.resolve())  # others lie where a link leads
        self._maps = {
            file: np.frombuffer(files.map(file), np.uint8)
            for file in dict.fromkeys(self._files.values())
        }

    def __getitem__(self, name: str) -> Tensor:
        info, held = self.infos[name], self._maps[self._files[name]]
        raw = held[info.start : info.start + info.nbytes]
        data = raw if info.kind.dtype is None else raw.view(info.kind.dtype)
        return Tensor(info.kind.name, info.shape, data.reshape(info.stored))

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The sizes of all tensors, in elements."""
        return {name: info.shape for name, info in self.infos.items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self.infos)

    def __len__(self) -> int:
        return len(self.infos)
