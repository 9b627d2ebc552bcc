"""Writing safetensors: one file, or several of a size with an index that joins them.

Arrays are written as they are seen, whatever their strides: views, transposed and broadcast ones
(the library, 0.8.0, writes the bytes that lie below them). The bytes of one file are otherwise the
library's: sorted by dtype and name, the header filled up to a multiple of 8.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ArchiveError, GraphError
from ...files.whole import replacing
from ...spec import dtype as as_dtype
from ...spec import dtype_name
from ..checked import MAX_JSON, parse_json
from ..source import as_path
from .header import MAP, MAX_HEADER, METADATA, PACKED, PLAIN

Array = np.ndarray[Any, Any]
ORDER = (
    *("U64", "I64", "F64", "C64", "F32", "U32", "I32", "BF16", "F16", "U16", "I16"),
    *("F8_E5M2FNUZ", "F8_E4M3FNUZ", "F8_E8M0", "F8_E4M3", "F8_E5M2", "I8", "U8", "F4", "BOOL"),
)
"""How the library sorts: so no number lies across a multiple of its size."""
INDEX = ".index.json"
PIECE = 1 << 24
"""Elements that are copied at a time where an array does not lie in one piece."""


@dataclass(frozen=True)
class Row:
    """A tensor to be written."""

    name: str
    array: Array
    code: str

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return self.array.nbytes // 2 if self.code in PACKED.values() else self.array.nbytes

    def data(self) -> Iterator[Any]:
        """Yield its bytes in C order."""
        array = self.array
        if self.code in PACKED.values():
            pairs = np.ascontiguousarray(array).reshape(-1, 2).view(np.uint8)
            yield (pairs[:, 0] & 15) | (pairs[:, 1] << 4)
        elif array.flags.c_contiguous:
            yield array.reshape(-1).view(np.uint8)
        else:
            step = max(1, PIECE // max(1, math.prod(array.shape[1:])))
            for start in range(0, len(array), step):
                yield np.ascontiguousarray(array[start : start + step]).reshape(-1).view(np.uint8)


def save(
    arrays: Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, str] | None = None,
    max_file_bytes: int | None = None,
) -> None:
    """Write arrays to a safetensors file, as a whole or not at all.

    ``metadata`` are texts of the header. What has more than ``max_file_bytes`` becomes several
    files, of at most so many bytes of arrays each, or of one array: for ``model.safetensors``
    ``model-00001-of-00003.safetensors`` and so on, and ``model.safetensors.index.json``, which says
    what lies in which. What was saved at ``path`` before, be it one file or several, is replaced.

    Raises:
        GraphError: a name, a dtype, or metadata that such files do not have.
        OSError: a file cannot be written; what was there before is as it was.

    >>> import gradwright as gw, numpy as np, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> arrays = {"a": np.zeros((2, 4), "bfloat16"), "b": np.ones(3)}
    >>> gw.safetensors.save(arrays, folder / "net.safetensors", max_file_bytes=20)
    >>> [path.name for path in sorted(folder.iterdir())]  # doctest: +NORMALIZE_WHITESPACE
    ['net-00001-of-00002.safetensors', 'net-00002-of-00002.safetensors',
     'net.safetensors.index.json']
    >>> gw.open(folder / "net.safetensors.index.json")["b"].tolist()
    [1.0, 1.0, 1.0]
    """
    target = as_path(path)
    if target.name.endswith(INDEX):
        target = target.with_name(target.name.removesuffix(INDEX))
    if max_file_bytes is not None and (type(max_file_bytes) is not int or max_file_bytes <= 0):
        raise GraphError(f"max_file_bytes={max_file_bytes!r}", need="a positive number of bytes")
    texts = _texts(metadata or {})
    rows = [_row(name, array) for name, array in arrays.items()]
    shards = _split(rows, max_file_bytes)
    total = len(shards)
    files = {
        _beside(target, i, total) if total > 1 else target.name: shard
        for i, shard in enumerate(shards, 1)
    }
    heads = {file: _header(shard, texts) for file, shard in files.items()}
    index = target.with_name(target.name + INDEX)
    before = saved_at(target)
    with contextlib.ExitStack() as stack:  # what is entered first takes its place last
        if total > 1:
            stack.enter_context(replacing(index)).write(_index(files))
        for file, shard in files.items():
            stream = stack.enter_context(replacing(target.with_name(file)))
            stream.write(heads[file])
            for row in shard:
                for piece in row.data():
                    stream.write(piece)
    for name in before - {*files, index.name} if total > 1 else before - {*files}:
        with contextlib.suppress(OSError):  # what cannot be removed is in nobody's way
            target.with_name(name).unlink()


def _row(name: Any, value: Any) -> Row:
    if not isinstance(name, str) or not name or name == METADATA or not _is_text(name):
        raise GraphError(f"{name!r} cannot name a tensor", need=f"text, and not {METADATA}")
    array = np.asarray(value)
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("="))
    try:
        known = dtype_name(as_dtype(array.dtype))
    except GraphError as error:
        error.where = f"{name!r}"
        raise
    code = PLAIN.get(known) or PACKED.get(known)
    if code is None:
        raise GraphError(
            f"a safetensors file has no {known}",
            where=f"{name!r}",
            need=", ".join([*PLAIN, *PACKED]),
            hint="graph.save(path) keeps all dtypes",
        )
    if code in PACKED.values() and array.size % 2:
        raise GraphError(f"{array.size} elements of 4 bits end within a byte", where=f"{name!r}")
    return Row(name, array, code)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def _texts(metadata: Mapping[str, str]) -> dict[str, str]:
    for item in metadata.items():
        if not all(isinstance(text, str) and _is_text(text) for text in item):
            raise GraphError(f"metadata {item!r} is no text", need='{"name": "text"}')
    return dict(metadata)


def _split(rows: list[Row], most: int | None) -> list[list[Row]]:
    """Return the rows of each file, in the order in which they were given."""
    shards: list[list[Row]] = [[]]
    room = most
    for row in rows:
        if room is not None and most is not None:
            if row.nbytes > room and shards[-1]:
                shards.append([])
                room = most
            room -= row.nbytes
        shards[-1].append(row)
    return [sorted(shard, key=lambda row: (ORDER.index(row.code), row.name)) for shard in shards]


def _header(rows: list[Row], metadata: Mapping[str, str]) -> bytes:
    """Return the header with its size in front."""
    told: dict[str, Any] = {METADATA: metadata} if metadata else {}
    position = 0
    for row in rows:
        end = position + row.nbytes
        told[row.name] = {
            "dtype": row.code, "shape": list(row.array.shape), "data_offsets": [position, end]
        }  # fmt: skip
        position = end
    head = json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    if len(head) > MAX_HEADER:
        raise GraphError(f"a header of {len(head):,} bytes", hint="a smaller max_file_bytes")
    return len(head).to_bytes(8, "little") + head


def _beside(target: Path, number: int, total: int) -> str:
    return f"{target.stem}-{number:05}-of-{total:05}{target.suffix}"


def _index(files: Mapping[str, list[Row]]) -> bytes:
    rows = [row for shard in files.values() for row in shard]
    told = {
        "metadata": {
            "total_parameters": sum(row.array.size for row in rows),
            "total_size": sum(row.nbytes for row in rows),
        },
        MAP: {row.name: file for file, shard in files.items() for row in shard},
    }
    return (json.dumps(told, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def saved_at(target: Path) -> set[str]:
    """Return the files at a path that were saved before: those an index names, and it, or one.

    Nothing else is ever removed, whatever an index says.
    """
    index = target.with_name(target.name + INDEX)
    found = {target.name} if target.is_file() else set()
    if not index.is_file() or index.stat().st_size > MAX_JSON:
        return found
    own = re.compile(re.escape(target.stem) + r"-\d{5}-of-\d{5}" + re.escape(target.suffix))
    try:
        named = parse_json(index.read_bytes(), index.name)[MAP].values()
    except (ArchiveError, KeyError, AttributeError):
        return found
    files = {file for file in named if isinstance(file, str) and own.fullmatch(file)}
    return found | files | {index.name}
