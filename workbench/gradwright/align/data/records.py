"""Records: rows of data as dicts, whatever they lie in."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...data.dataset import Dataset
from ...errors import FeedError, GradwrightError

Record = Mapping[str, Any]
FILES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")


def records(data: Any) -> list[Record]:
    """Return the rows of data as dicts; nothing of the data changes.

    Data are a list of dicts, a dict of lists, a path of JSON lines, JSON, CSV, TSV or Parquet, a
    DataFrame, an Arrow table, a Hugging Face dataset, one of ``gw.data``, or an iterable of dicts.
    Raises FeedError for anything else, for files that are damaged or missing, and for no rows.

    >>> from gradwright.align.data.records import records
    >>> records({"prompt": ["a", "b"], "answer": [1, 2]})
    [{'prompt': 'a', 'answer': 1}, {'prompt': 'b', 'answer': 2}]
    """
    try:
        rows = list(_rows(data))
    except GradwrightError:
        raise
    except Exception as error:  # whatever a library or an iterable of the user's raises
        where = f"file {Path(data).name}" if isinstance(data, str | Path) else type(data).__name__
        raise FeedError(
            f"the data cannot be read: {where}", facts=[f"{type(error).__name__}: {error!s:.200}"]
        ) from error
    if not rows:
        raise FeedError("the data is empty", need="a row at least")
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise FeedError(
                f"row {number} of the data is a {type(row).__name__}",
                need='dicts by column, such as {"prompt": ..., "completion": ...}',
            )
    return [{str(name): _plain(value) for name, value in row.items()} for row in rows]


def _rows(data: Any) -> Iterable[Any]:
    if isinstance(data, str | Path):
        return _of_file(Path(data))
    if isinstance(data, Dataset):
        return _of_dataset(data)
    if isinstance(data, Mapping):
        return _of_columns(data)
    if hasattr(data, "column_names") and hasattr(data, "with_format"):
        return list(data.with_format(None))
    if hasattr(data, "iloc"):
        return list(data.to_dict("records"))
    if hasattr(data, "__arrow_c_stream__"):
        return list(_pyarrow().table(data).to_pylist())
    if isinstance(data, Iterable) and not isinstance(data, bytes):
        return data
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return (data[i] for i in range(len(data)))
    raise FeedError(
        f"{type(data).__name__} is no data",
        need="a list of dicts, a dict of lists, a path, a DataFrame or a data set",
    )


def _of_columns(data: Mapping[Any, Any]) -> Iterator[Record]:
    """Yield rows of columns, which must be equally long."""
    for name, column in data.items():
        if isinstance(column, str | bytes | Mapping) or not hasattr(column, "__len__"):
            raise FeedError(
                f"column {name!r} is a {type(column).__name__}", need="a list with a value per row"
            )
    if len({len(column) for column in data.values()}) > 1:
        raise FeedError(
            "the columns have different lengths",
            facts=[f"{name!r}: {len(column)} rows" for name, column in data.items()],
        )
    names = list(data)
    return (dict(zip(names, row, strict=True)) for row in zip(*data.values(), strict=True))


def _of_dataset(data: Dataset) -> Iterator[Record]:
    """Yield the rows of the first epoch of a data set, of batches, too."""
    for item in data.epoch():
        yield from _of_columns(item) if data.batched else [item]


def _of_file(path: Path) -> Iterable[Any]:
    kind = path.suffix.lower()
    if kind not in FILES:
        raise FeedError(
            f"{path.name} is no file of rows", need="a name that ends in one of " + ", ".join(FILES)
        )
    if not path.is_file():
        raise FeedError(f"there is no file {path}")
    if kind == ".parquet":
        _pyarrow()
        import pyarrow.parquet as pq

        return list(pq.read_table(path).to_pylist())
    if kind in (".csv", ".tsv"):
        return _of_table(path, "\t" if kind == ".tsv" else ",")
    text = path.read_text("utf-8-sig")
    if kind == ".json":
        held = _json(path, text, 1)
        return _of_columns(held) if isinstance(held, Mapping) else held
    lines = enumerate(text.split("\n"), 1)  # no other end of a line: a text may hold them
    return [_json(path, line, number) for number, line in lines if line.strip()]


def _json(path: Path, text: str, line: int) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FeedError(
            f"line {line} of {path.name} is not valid JSON", facts=[str(error)[:200]]
        ) from None


def _of_table(path: Path, separator: str) -> list[Record]:
    """Return the rows of CSV: texts, but labels are bools and margins numbers."""
    rows: list[Record] = []
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, delimiter=separator, strict=True)
        for row in reader:
            if None in row or None in row.values():
                raise FeedError(
                    f"line {reader.line_num} of {path.name} has another number of values",
                    need=f"{len(reader.fieldnames or ())}: {', '.join(reader.fieldnames or ())}",
                )
            rows.append({name: _typed(name, value) for name, value in row.items()})
    return rows


def _typed(name: str, value: str) -> Any:
    if name == "label":
        return {"true": True, "1": True, "false": False, "0": False}.get(value.lower(), value)
    if name == "margin":
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _plain(value: Any) -> Any:
    """Return numbers and texts of numpy as those of Python, and arrays of objects as lists."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and not value.ndim):
        return value.item()
    of_numpy = isinstance(value, list | tuple) and value and isinstance(value[0], np.generic)
    if of_numpy or (isinstance(value, np.ndarray) and value.dtype == object):  # as pandas has them
        return [_plain(v) for v in value]
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise FeedError(
            "the library pyarrow is not installed", hint="pip install pyarrow"
        ) from None
    return pyarrow


def names_of(rows: Sequence[Record]) -> list[str]:
    """Return the names of all columns, in the order in which they come up.

    >>> from gradwright.align.data.records import names_of
    >>> names_of([{"b": 1}, {"b": 2, "a": 3}])
    ['b', 'a']
    """
    return list(dict.fromkeys(name for row in rows for name in row))
