"""Tensors of safetensors files as arrays that are mapped: no byte is read before it is used."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ArchiveError
from ...spec import TensorSpec
from ...words.spelling import meant
from ...words.tables import size
from ..registry import TensorRange
from ..stored import Files, Stored, of_six_bits, unpacked

Array = np.ndarray[Any, Any]


class Tensors(Mapping[str, Array]):
    """The tensors of a file, or of several that an index joins: arrays by name, read-only.

    Whoever takes a slice of one reads the pages below it and no more. Brain floats and those of 8
    bits are ml_dtypes'; 4-bit ones, which share bytes in a file, are unpacked when they are asked
    for. ``metadata`` are the texts of the header, ``specs`` says what there is. The files have to
    stay as they are while arrays of them are in use.

    >>> import gradwright as gw, numpy as np, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "net.safetensors")
    >>> w = np.arange(6, dtype="float32").reshape(2, 3)
    >>> gw.safetensors.save({"w": w.T, "b": np.ones(2, "int8")}, path, metadata={"by": "me"})
    >>> tensors = gw.open(path)
    >>> tensors["w"][:, 1].tolist(), tensors.specs["w"], tensors.metadata
    ([3.0, 4.0, 5.0], f32[3, 2], {'by': 'me'})
    """

    def __init__(
        self, path: Path, tensors: Mapping[str, TensorRange], metadata: Mapping[str, str]
    ) -> None:
        self.path, self.metadata = path, dict(metadata)
        self._tensors, self._files = tensors, Files(path)
        self._maps: dict[str, mmap.mmap] = {}
        self._lock = threading.Lock()

    @property
    def specs(self) -> dict[str, TensorSpec]:
        """Dtype and shape of each."""
        return {name: tensor.spec for name, tensor in self._tensors.items()}

    def __getitem__(self, name: str) -> Array:
        tensor = self._tensors.get(name)
        if tensor is None:
            close = meant(str(name), self._tensors)
            raise KeyError(f"{name!r}" + (f"; did you mean {close!r}?" if close else ""))
        if tensor.form == "six bits":
            raise of_six_bits(tensor.dtype, name)
        if tensor.form:
            data = np.frombuffer(self._bytes(tensor), "u1")
            wide = unpacked(data, tensor.dtype).reshape(tensor.shape)
            wide.flags.writeable = False
            return wide
        found = np.frombuffer(self._bytes(tensor), np.uint8)
        if tensor.dtype == bool and found.max(initial=0) > 1:
            raise ArchiveError(f"{name[:60]!r} is no array of bools", where=str(self.path))
        return found.view(tensor.dtype).reshape(tensor.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __repr__(self) -> str:
        nbytes = sum(r.nbytes for tensor in self._tensors.values() for r in tensor.ranges)
        return f"<Tensors of {self.path.name!r}: {len(self):,}, {size(nbytes)}>"

    def pieces(self, name: str) -> Iterator[Array]:
        """Yield the elements of a tensor in C order, in flat pieces of 4 MB that are read.

        What is read this way lies in no page of this process afterwards.
        """
        if name not in self:
            self[name]
        with Files(self.path) as files:
            yield from Stored(self._tensors[name], files).pieces()

    def _bytes(self, tensor: TensorRange) -> memoryview:
        (r,) = tensor.ranges
        if not r.nbytes:
            return memoryview(b"")
        with self._lock:
            if r.file not in self._maps:
                self._maps[r.file] = self._files.map(r.file)
        held = memoryview(self._maps[r.file])[r.start : r.start + r.nbytes]
        if len(held) != r.nbytes:
            raise ArchiveError(
                "the file was cut off since it was opened", where=r.file or str(self.path)
            )
        return held
