"""Writing a model: as one file, or with its large tensors in another one beside it."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from ....errors import ArchiveError, GraphError
from ....files.whole import replacing
from ....spec import dtype_name, known_spec
from ...source import File, as_path
from ..dtypes import NARROW, element_type, stored_bytes
from ..format import tensors
from ..output import to_tensor

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

Array = np.ndarray[Any, Any]

MAX_BYTES = 2_000_000_000
"""Bytes of tensors that lie in the model itself: protobuf writes no message of 2 GiB or more."""
ALIGNMENT = 64
"""Where tensors in the other file begin: what kernels want that map it, as in archives."""
BLOCK = 1 << 20
"""Bytes that are written at once."""


class Outside:
    """The tensors of a model that go into a file beside it.

    ``wanted`` says whether there is one; None: if the tensors are too large for the model. In it
    are those of ``threshold`` bytes and more.
    """

    def __init__(self, wanted: bool | None, threshold: int) -> None:
        if type(threshold) is not int or threshold < 0:
            raise GraphError(f"threshold={threshold!r} is no number of bytes", need="0 or more")
        self._wanted, self._threshold = wanted, max(threshold, 1)
        self._arrays: list[Array] = []
        self.nbytes = 0

    def tensors(self, stored: Mapping[str, Array]) -> list[TensorProto]:
        """Return what a model holds of its arrays; raises GraphError where they are too large."""
        total = sum(array.nbytes for array in stored.values())
        is_wanted = total > MAX_BYTES if self._wanted is None else self._wanted
        outer = {name for name, a in stored.items() if is_wanted and self._takes(a)}
        inner = sum(array.nbytes for name, array in stored.items() if name not in outer)
        if inner > MAX_BYTES:
            raise GraphError(
                f"the model would hold {inner:,} bytes of tensors itself",
                need=f"{MAX_BYTES:,} at most",
                hint="save with external=True, or another threshold",
            )
        return [
            self._placed(array, name) if name in outer else to_tensor(array, name)
            for name, array in stored.items()
        ]

    def _takes(self, array: Array) -> bool:
        """Tell whether it takes an array: text is no bytes, and what may decide shapes is read."""
        is_plain = array.dtype.kind not in "TOU" and known_spec(array).value is None
        return is_plain and array.nbytes >= self._threshold

    def _placed(self, array: Array, name: str) -> TensorProto:
        from onnx import TensorProto

        start = self.nbytes + -self.nbytes % ALIGNMENT
        nbytes = stored_bytes(array.shape, array.dtype)
        self._arrays.append(array)
        self.nbytes = start + nbytes
        made = TensorProto(name=name, dims=array.shape, data_type=element_type(array.dtype))
        made.data_location = made.EXTERNAL
        for key, value in (("location", ""), ("offset", start), ("length", nbytes)):
            made.external_data.add(key=key, value=str(value))
        return made

    def write(self, file: BinaryIO) -> None:
        """Write the arrays as their tensors say; blocks of zeros become holes."""
        for array in self._arrays:
            file.seek(-file.tell() % ALIGNMENT, os.SEEK_CUR)
            for start in range(0, (data := _bytes(array)).size, BLOCK):
                block = data[start : start + BLOCK]
                if block[:ALIGNMENT].any() or block.any():
                    file.write(block.data)
                else:
                    file.seek(block.size, os.SEEK_CUR)
        file.truncate(self.nbytes)


def _bytes(array: Array) -> Array:
    if dtype_name(array.dtype) in NARROW:  # several elements a byte
        return np.frombuffer(to_tensor(array, "").raw_data, np.uint8)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def write_model(path: str | os.PathLike[str], model: ModelProto, outside: Outside) -> None:
    """Write a model and the file beside it, together or not at all.

    What a model names is never written over: over a model with a file beside it, the new one lies
    under a name that nobody has, and takes the old one's name once no model needs that. Whatever
    ends this, the model that is there then has its data, and that of the other one goes.
    """
    target = as_path(path).resolve()
    own = target.with_name(f"{target.name}.data")
    with _alone(target.parent) as is_alone:
        old = _named_by(target) or set()
        is_free = is_alone and not os.path.lexists(own)
        file = own if is_free else target.with_name(f"{target.name}-{os.urandom(8).hex()}.data")
        try:
            if outside.nbytes:
                with replacing(file, follow=False) as stream:
                    outside.write(stream)
            _write(target, model, file)
            if outside.nbytes and is_alone and file != own and _linked(file, own):
                _write(target, model, own)
        finally:
            if (needed := _named_by(target)) is not None:
                for name in {*old, file.name} - needed:
                    with contextlib.suppress(OSError):  # what cannot be removed is in nobody's way
                        target.with_name(name).unlink()


def _write(target: Path, model: ModelProto, file: Path) -> None:
    """Write the model, its data in a file."""
    from google.protobuf.message import EncodeError  # type: ignore[import-untyped]

    for tensor in model.graph.initializer:
        if tensor.data_location == tensor.EXTERNAL:
            tensor.external_data[0].value = file.name
    try:
        data = model.SerializeToString(deterministic=True)
    except (EncodeError, ValueError) as error:
        raise GraphError(f"protobuf cannot write the model: {error}") from None
    with replacing(target) as stream:
        stream.write(data)


def _linked(file: Path, own: Path) -> bool:
    """Give a file a second name, whatever had that; return whether there are such on this disk."""
    spare = file.with_suffix(".tmp")
    try:
        os.link(file, spare)
        spare.replace(own)
    except OSError:
        return False
    finally:
        spare.unlink(missing_ok=True)
    return True


def _named_by(target: Path) -> set[str] | None:
    """Return the files called as a model's own that it names; None where it cannot be read."""
    if not target.is_file():
        return set()
    own = re.compile(re.escape(target.name) + r"(-[0-9a-f]{16})?\.data", re.ASCII)
    try:
        files = {r.file for tensor in tensors(File(target)).values() for r in tensor.ranges}
    except (ArchiveError, OSError):
        return None
    return set(filter(own.fullmatch, files))


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Wait until nobody else writes a model into a folder; tell whether that can be known here."""
    if sys.platform == "win32":  # it has no locks on folders
        yield False
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            is_alone = True
        except OSError:  # a disk without locks
            is_alone = False
        yield is_alone
    finally:
        os.close(descriptor)
