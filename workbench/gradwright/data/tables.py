"""Tables of other libraries as columns: pandas, Arrow, Parquet files, Hugging Face datasets."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FeedError
from .columns import Array, Columns, as_array, boxes, collate, join, listed
from .dataset import At, Dataset, Table, places
from .digest import digest, spread
from .row_stages import MIXED


def frame_columns(frame: Any) -> Columns:
    """Return the columns of a pandas DataFrame; numbers are not copied.

    Raises FeedError for a missing value in a column that is not of floats.
    """
    return {str(name): _series(str(name), frame[name]) for name in frame.columns}


def _series(name: str, series: Any) -> Array:
    if hasattr(series, "columns"):
        raise FeedError(f"the data has several columns called {name!r}", need="one of each name")
    if getattr(series.dtype, "name", "") == "category":
        series = series.astype(series.cat.categories.dtype)
    missing = np.asarray(series.isna())
    floats = getattr(series.dtype, "kind", "O") == "f"
    if missing.any() and not floats:
        raise _absent(name, int(missing.argmax()), str(series.dtype), int(missing.sum()))
    if floats:  # nullable ones, too: a missing value is NaN
        native = np.dtype(getattr(series.dtype, "numpy_dtype", series.dtype))
        return np.asarray(series.to_numpy(native, na_value=np.nan) if missing.any() else series)
    array = series.to_numpy()
    return _unboxed(name, array) if array.dtype == object else array


def _unboxed(name: str, array: Array) -> Array:
    """Return objects as an array of strings, numbers or rows, if they are such."""
    if all(isinstance(v, str) for v in array):
        return array.astype(str)
    values = [as_array(name, v) for v in array]
    alike = all(v.shape == values[0].shape and v.dtype.kind in "buif" for v in values)
    return np.stack(values) if alike else boxes(values) if values[0].ndim else array


def arrow_columns(table: Any, rows: Array | None = None) -> Columns:
    """Return the columns of an Arrow table, or of what speaks Arrow's C stream protocol.

    ``rows`` are the numbers of its rows in messages. Raises FeedError for a missing value in a
    column that is not of floats, and for types that are no tensors.
    """
    import pyarrow as pa

    table = table if isinstance(table, pa.Table) else pa.table(table)
    return {
        name: _arrow(name, column, np.arange(table.num_rows) if rows is None else rows)
        for name, column in zip(table.column_names, table.columns, strict=True)
    }


def _arrow(name: str, column: Any, rows: Array) -> Array:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        return _arrow(name, column.cast(kind.value_type), rows)
    if column.null_count and not pa.types.is_floating(kind):
        missing = np.asarray(column.is_null())
        raise _absent(name, int(rows[missing.argmax()]), str(kind), column.null_count)
    if pa.types.is_fixed_size_list(kind):
        flat = pa.chunked_array([c.flatten() for c in column.chunks], kind.value_type)
        inner = _arrow(name, flat, np.repeat(rows, kind.list_size))
        return inner.reshape(len(column), kind.list_size, *inner.shape[1:])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(name, column, rows)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return np.asarray(column.to_pylist(), str)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return np.asarray(column.to_numpy())
    raise FeedError(
        f"column {name!r} is {kind}, which is no type of tensors",
        need="numbers, bool, strings, or lists of these",
        hint="choose others: columns=[...]",
    )


def _lists(name: str, column: Any, rows: Array) -> Array:
    """Return lists as a matrix if all are equally long, else boxed."""
    lists: list[Array] = []
    for chunk in column.chunks:
        lengths = np.asarray(chunk.value_lengths())
        owners = np.repeat(rows[len(lists) : len(lists) + len(chunk)], lengths)
        inner = _arrow(name, _chunked(chunk.flatten()), owners)
        lists += np.split(inner, np.cumsum(lengths)[:-1]) if len(chunk) else []
    alike = len({len(values) for values in lists}) == 1
    return np.stack(lists) if alike and lists[0].dtype != object else boxes(lists)


def _chunked(array: Any) -> Any:
    import pyarrow as pa

    return pa.chunked_array([array], array.type)


def _absent(name: str, row: int, kind: str, count: int) -> FeedError:
    return FeedError(
        f"column {name!r} has no value in row {row}",
        facts=[f"{count} of its values are missing; its type is {kind}"],
        need="a value in each row; only floats can be NaN",
        hint=f"fill {name!r}, or drop these rows",
    )


class Hugging(Table):
    """Rows of a Hugging Face dataset, in its own format if it has one, else read from Arrow."""

    def __init__(self, data: Any) -> None:
        if len(data) == 0:
            raise FeedError("the data is empty", facts=[f"columns: {listed(data.column_names)}"])
        self._is_arrow = data.format["type"] is None and not _is_encoded(data)
        plain = data.format["type"] is None
        self._data = data.with_format("arrow" if self._is_arrow else "numpy") if plain else data

    @property
    def n(self) -> int:
        """Examples of an epoch."""
        return len(self._data)

    def rows(self, epoch: int, at: At) -> Columns:
        """Return rows, and read only these."""
        found = self._data[at if isinstance(at, slice) else at.tolist()]
        if self._is_arrow:
            return arrow_columns(found, places(at, self.n))
        if isinstance(found, Mapping):
            return {name: as_array(name, values) for name, values in found.items()}
        return collate([dict(example) for example in found])

    def signature(self) -> list[int]:
        """Return the number of rows, and of what is read from Arrow a digest of some."""
        return [13, self.n, self._digest]

    @functools.cached_property
    def _digest(self) -> int:
        return digest(self.rows(0, spread(self.n))) if self._is_arrow else 0

    def __repr__(self) -> str:
        return f"<{self.n} examples of {listed(self._data.column_names)}>"


def _is_encoded(data: Any) -> bool:
    """Tell whether columns need their library to be read, such as images."""
    import pyarrow as pa

    types = data.features.arrow_schema.types
    return any(isinstance(t, pa.ExtensionType) or pa.types.is_struct(t) for t in types)


def parquet(
    path: str | Path | Sequence[str | Path],
    columns: Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
) -> Dataset:
    """Return the rows of Parquet files, of which at most a few row groups are in memory.

    Shuffling permutes the row groups and mixes four at a time, so each is read once in an epoch; a
    resume reads none that is done.

    Args:
        path: a file, or several that are read one after another.
        columns: which to read; a dict gives them other names, and puts several into a matrix.

    Raises FeedError for a column that no file has, and for files of different columns.

    >>> import gradwright as gw, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "points.parquet")
    ...     pq.write_table(pa.table({"a": [1, 2, 3], "b": [4, 5, 6], "t": [0, 1, 0]}), path)
    ...     data = gw.data.parquet(path, {"x": ["a", "b"], "t": "t"})
    ...     data.rows(0, slice(1, 3))["x"].tolist()
    [[2, 5], [3, 6]]
    """
    paths = [path] if isinstance(path, str | Path) else list(path)
    wanted: list[str] | None = None
    if isinstance(columns, Mapping):
        parts = [[c] if isinstance(c, str) else c for c in columns.values()]
        wanted = list(dict.fromkeys(name for part in parts for name in part))
    elif columns is not None:
        wanted = list(columns)
    table = Parquet([Path(p) for p in paths], wanted)
    return table.columns(columns) if isinstance(columns, Mapping) else table


class Parquet(Table):
    """Rows of Parquet files; the row groups that were used last are kept."""

    KEPT = MIXED + 1
    """A batch may begin in one window of shuffled row groups and end in the next."""

    def __init__(self, paths: Sequence[Path], columns: list[str] | None) -> None:
        import pyarrow.parquet as pq

        self._paths, self._files = paths, [pq.ParquetFile(path) for path in paths]
        if not paths:
            raise FeedError("no Parquet file is given", need="a path, or several")
        names = [file.schema_arrow.names for file in self._files]
        self._columns = names[0] if columns is None else columns
        for path, has in zip(paths, names, strict=True):
            missing = [c for c in self._columns if c not in has]
            if missing:
                raise FeedError(
                    f"{path.name} has no column {listed(missing)}",
                    facts=[f"columns: {listed(has)}"],
                )
        self._groups = [
            (i, g) for i, file in enumerate(self._files) for g in range(file.num_row_groups)
        ]
        self._sizes = np.array(
            [self._files[i].metadata.row_group(g).num_rows for i, g in self._groups], np.int64
        )
        self._ends = np.cumsum(self._sizes)
        self._held: OrderedDict[int, Columns] = OrderedDict()
        if not self._sizes.sum():
            raise FeedError("the data is empty", facts=[f"{p.name}: 0 rows" for p in paths])

    @property
    def n(self) -> int:
        """Examples of an epoch."""
        return int(self._ends[-1])

    def blocks(self) -> Array:
        """Return the sizes of the row groups."""
        return self._sizes

    def rows(self, epoch: int, at: At) -> Columns:
        """Return rows, and read the row groups that hold them."""
        numbers = places(at, self.n)
        groups = np.searchsorted(self._ends, numbers, side="right")
        parts, positions = [], []
        for group in dict.fromkeys(groups.tolist()):
            inside = np.flatnonzero(groups == group)
            local = numbers[inside] - (self._ends[group] - self._sizes[group])
            parts.append({k: a.take(local, 0) for k, a in self._read(group).items()})
            positions.append(inside)
        if len(parts) == 1:
            return parts[0]
        back = np.argsort(np.concatenate(positions))
        return {k: a[back] for k, a in join(parts).items()}

    def _read(self, group: int) -> Columns:
        if group in self._held:
            self._held.move_to_end(group)
            return self._held[group]
        file, inner = self._groups[group]
        start = int(self._ends[group] - self._sizes[group])
        table = self._files[file].read_row_group(inner, columns=self._columns, use_threads=False)
        while len(self._held) >= self.KEPT:
            self._held.popitem(last=False)
        self._held[group] = arrow_columns(table, np.arange(start, start + table.num_rows))
        return self._held[group]

    def where(self, epoch: int, at: int, row: int = 0) -> str:
        """Say which row of which file an example is."""
        group = int(np.searchsorted(self._ends, at, side="right"))
        file = self._groups[group][0]
        first = next(i for i, (f, _) in enumerate(self._groups) if f == file)
        return f"row {at - int(self._ends[first] - self._sizes[first])} of {self._paths[file].name}"

    def signature(self) -> list[int]:
        """Return the rows, the row groups, and a digest of what the files say of some of them."""
        return [14, self.n, len(self._groups), self._digest]

    @functools.cached_property
    def _digest(self) -> int:
        """Of the least and largest values of columns: no row is read."""
        said: dict[str, list[str]] = {}
        for at in spread(len(self._groups)):
            file, group = self._groups[at]
            stated = self._files[file].metadata.row_group(group)
            for column in map(stated.column, range(stated.num_columns)):
                name, held = column.path_in_schema, column.statistics
                if name.split(".")[0] in self._columns and held is not None and held.has_min_max:
                    said.setdefault(name, []).append(f"{held.min} {held.max}")
        return digest(said)

    def __repr__(self) -> str:
        files = self._paths[0].name if len(self._paths) == 1 else f"{len(self._paths)} files"
        return f"<{self.n} examples of {listed(self._columns)} in {files}>"
