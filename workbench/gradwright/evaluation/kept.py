"""Rows of predictions as they come, batch by batch: kept in memory, in a file, in a given array."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from ..data.columns import label
from ..errors import ShapeError
from ..graph import Tensor
from ..session.given import check_apart, check_array
from ..spec import TensorSpec
from .at_once import check_names

Array = np.ndarray[Any, Any]


class Rows(Protocol):
    """Where the rows of an output go."""

    def add(self, rows: Array, places: Array | None) -> None:
        """Take the rows of a batch; ``places`` are theirs in the data, where that is no order."""

    def end(self) -> None:
        """Finish, when all have come."""

    def whole(self) -> Array:
        """Return all of them."""


class Kept(Rows):
    """Rows in memory."""

    def __init__(self) -> None:
        self._parts: list[Array] = []
        self._places: list[Array] = []

    def add(self, rows: Array, places: Array | None) -> None:
        self._parts.append(rows)
        if places is not None:
            self._places.append(places)

    def end(self) -> None:
        pass

    def whole(self) -> Array:
        joined = np.concatenate(self._parts)
        if not self._places:
            return joined
        ordered = np.empty_like(joined)
        ordered[np.concatenate(self._places)] = joined
        return ordered


class Written(Rows):
    """Rows in a ``.npy`` file, whose header is written again when their number is known.

    numpy leaves room in the header for the first axis to grow (numpy/lib/format.py).
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._file, self._n, self._start = path, file, 0, 0
        self._row: tuple[np.dtype[Any], tuple[int, ...]] | None = None

    def add(self, rows: Array, places: Array | None) -> None:
        row = rows.dtype, rows.shape[1:]
        if self._row is None:
            self._row = row
            self._write_header()
            self._start = self._file.tell()
        elif row != self._row:
            raise ShapeError(f"rows {row[0]}{list(row[1])} follow {self._row[0]}{self._row[1]}")
        data = np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data
        if places is None:
            self._file.write(data)
        else:
            width = rows.nbytes // len(rows)
            for i, place in enumerate(places.tolist()):
                self._file.seek(self._start + place * width)
                self._file.write(data[i * width : (i + 1) * width])
        self._n += len(rows)

    def _write_header(self) -> None:
        assert self._row is not None
        dtype, shape = self._row
        stated = {
            "descr": np.lib.format.dtype_to_descr(dtype),
            "fortran_order": False,
            "shape": (self._n, *shape),
        }
        np.lib.format.write_array_header_1_0(self._file, stated)

    def end(self) -> None:
        self._file.seek(0)
        self._write_header()

    def whole(self) -> Array:
        assert self._row is not None
        mapped: Array = np.load(self._path, mmap_mode="r")
        return mapped.view(self._row[0])  # numpy's files know no bfloat16


def check_out(
    outputs: Mapping[str, Tensor], out: Any, data: Mapping[Any, Any], rows: int | None
) -> None:
    """Raise FeedError for arrays that outputs of so many rows cannot be written to."""
    check_names(out, outputs)
    taken = [
        (f"the data of {label(key)}", column)
        for key, column in data.items()
        if isinstance(column, np.ndarray)
    ]
    for name, array in out.items():
        own = np.shape(array)
        n = own[:1] if rows is None else (rows,)
        check_array(outputs[name], array, TensorSpec((*n, *own[1:]), outputs[name].dtype))
        for what, other in taken:
            check_apart(name, array, what, other)
        taken.append((f"out of {name!r}", array))


class Given(Rows):
    """Rows in an array of the caller's."""

    def __init__(self, name: str, array: Array) -> None:
        self._name, self._array, self._n = name, array, 0

    def add(self, rows: Array, places: Array | None) -> None:
        """Write rows where they belong; raises ShapeError for what has no place."""
        array, stop = self._array, self._n + len(rows)
        if array.shape[1:] != rows.shape[1:] or stop > len(array):
            raise ShapeError(
                f"out of {self._name!r} has shape {array.shape}",
                need=f"{stop} rows or more, each {list(rows.shape[1:])}",
            )
        array[slice(self._n, stop) if places is None else places] = rows
        self._n = stop

    def end(self) -> None:
        if self._n < len(self._array):
            raise ShapeError(
                f"out of {self._name!r} has {len(self._array)} rows", need=f"{self._n}, one each"
            )

    def whole(self) -> Array:
        return self._array
