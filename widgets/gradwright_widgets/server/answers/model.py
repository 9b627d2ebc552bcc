"""What a file says of itself: what it is, its tensors, and the memory that it needs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gradwright import __version__
from gradwright.formats.inspecting import described
from gradwright.formats.language import SIZES
from gradwright.formats.memory import Memory, memory_of
from gradwright.formats.registry import TensorRange, find, known
from gradwright.formats.report import ModelInfo
from gradwright.shared import Bounded, machine_bytes
from gradwright.spec import dtype_name
from gradwright.spec.dims import Dim

from ...drawing.order import natural
from ..refused import RefusedError
from .asked import Asked
from .outlines import outlined

MAX_ROWS = 1000
"""Tensors of an answer at most."""
TRIED = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Sizes of a batch for which memory is told where none is asked for."""
LENGTHS = (512, 2048, 8192, 32_768, 131_072)
"""The same for lengths of text; the context comes last."""
_TENSORS = Bounded[Mapping[str, TensorRange]](4)
"""The tensors of files that pages turn over; by file and stamp."""


def formats(asked: Asked) -> dict[str, Any]:
    """Return the formats that are read, for the types of files that the page declares."""
    rows = [
        {
            "name": format.name,
            "title": format.title,
            "suffixes": list(format.suffixes),
            "graph": format.outline is not None,
            "use": format.use,
        }
        for format in known()
    ]
    return {"version": __version__, "formats": rows}


def inspect(asked: Asked) -> dict[str, Any]:
    """Return what ``gw.inspect`` prints, as rows and as JSON."""
    source = asked.source()
    format = find(source)
    info = described(source, format)
    found = info.as_dict()
    count = len(found.pop("tensors"))
    tables = [
        {"title": t.title, "columns": list(t.columns), "rows": t.rows, "notes": list(t.notes)}
        for t in info.tables()
        if t.rows
    ]
    return {
        "format": format.name,
        "title": info.title(),
        "facts": [[key, text] for key, text in info.facts().items() if text],
        "tables": tables,
        "info": {**found, "path": asked.paths[0]},
        "count": count,
        "graph": format.outline is not None,
        "language": info.language is not None,
    }


# -- tensors ---------------------------------------------------------------------------------------


def ranges(asked: Asked, k: int = 0) -> Mapping[str, TensorRange]:
    """Return the tensors of a file and where they lie; those of the latest files are kept."""
    key = asked.files[k], asked.stamps[k]
    found = _TENSORS.find(key)
    if found is None:
        source = asked.source(k)
        found = find(source).tensors(source)
        _TENSORS.keep(key, found)
    return found


def tensors(asked: Asked) -> dict[str, Any]:
    """Return a page of the table of tensors, filtered and sorted."""
    found = ranges(asked)
    start, n = asked.number("start", 0, 1 << 40), asked.number("n", 200, MAX_ROWS)
    words = asked.text("filter").lower().split()
    rows = [(name, t) for name, t in found.items() if matches(name, t, words)]
    sort = asked.text("sort")
    keys: dict[str, Callable[[tuple[str, TensorRange]], Any]] = {
        "name": lambda row: natural(row[0]),
        "bytes": lambda row: nbytes(row[1]),
        "dtype": lambda row: dtype_name(row[1].dtype),
        "shape": lambda row: (len(row[1].shape), row[1].shape),
    }
    if sort:
        if sort.removeprefix("-") not in keys:
            raise RefusedError(400, f"sort={sort[:40]!r}", need=", ".join(keys))
        rows.sort(key=keys[sort.removeprefix("-")], reverse=sort.startswith("-"))
    return {
        "total": len(found),
        "found": len(rows),
        "start": start,
        "tensors": [row_of(name, t) for name, t in rows[start : start + n]],
    }


def row_of(name: str, tensor: TensorRange) -> dict[str, Any]:
    """Return a tensor as the table has it."""
    return {
        "name": name,
        "dtype": dtype_name(tensor.dtype),
        "shape": list(tensor.shape),
        "spec": str(tensor.spec),
        "bytes": nbytes(tensor),
        "form": tensor.form,
        "ranges": [[r.start, r.nbytes, r.file] for r in tensor.ranges[:8]],
    }


def nbytes(tensor: TensorRange) -> int:
    """Return how many bytes of its file a tensor takes."""
    return sum(r.nbytes for r in tensor.ranges)


def matches(name: str, tensor: TensorRange, words: list[str]) -> bool:
    """Tell whether a tensor has all words in its name or spec."""
    text = f"{name} {tensor.spec} {dtype_name(tensor.dtype)}".lower()
    return all(word in text for word in words)


# -- memory ----------------------------------------------------------------------------------------


def fits(asked: Asked) -> dict[str, Any]:
    """Return the memory to run and to train at certain sizes, beside what the machine has."""
    given = _sizes(asked.text("sizes"))
    source = asked.source()
    info = described(source, find(source))
    symbols, found = _of_language(info, given) if info.language else _of_graph(asked, given)
    total, available = machine_bytes(), available_bytes()
    return {
        "sizes": symbols,
        "machine": {"total": total, "available": available},
        "counts": found[0].counts,
        "rows": [
            {
                "sizes": dict(memory.sizes),
                "run": memory.run,
                "train": memory.train,
                "runs": memory.run <= available,
                "trains": memory.train <= available,
                "memory": memory.as_dict(),
            }
            for memory in found
        ],
    }


def _of_language(
    info: ModelInfo, given: Mapping[str, int] | None
) -> tuple[dict[str, str], list[Memory]]:
    """Return what a language model takes at lengths up to its context, one row of text at once."""
    assert info.language is not None
    context = info.language.context
    lengths = [n for n in LENGTHS if n < context] + [context]
    wanted = [{"batch": 1, "length": n} for n in lengths] if given is None else [given]
    told = dict(zip(SIZES, ("rows of text", f"tokens, {context:,} at most"), strict=True))
    return told, [info.at_sizes(sizes) for sizes in wanted]


def _of_graph(asked: Asked, given: Mapping[str, int] | None) -> tuple[dict[str, str], list[Memory]]:
    """Return the symbols of a graph's inputs and where they stand, and what it takes."""
    outline = outlined(asked)
    if outline.notes:
        raise RefusedError(
            422, "sizes cannot be told through what is not known", facts=outline.notes
        )
    graph = outline.graph
    symbols = {
        symbol: f"{t.name} {t.spec}"
        for t in reversed(graph.placeholders)
        for d in reversed(t.shape)
        for symbol in (sorted(d.symbols) if isinstance(d, Dim) else ())
    }
    symbols = dict(reversed(symbols.items()))
    if given is not None or not symbols:
        wanted: list[Mapping[str, int]] = [given or {}]
    else:  # by convention the first size is that of a batch
        first, *others = symbols
        wanted = [{first: n, **dict.fromkeys(others, TRIED[0])} for n in TRIED]
    return symbols, [memory_of(graph, sizes) for sizes in wanted]


def _sizes(text: str) -> dict[str, int] | None:
    """Return sizes that a page states as JSON."""
    if not text:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(type(n) is int for n in found.values()):
        raise RefusedError(400, f"sizes={text[:60]!r}", need='{"symbol": size}')
    if any(not 0 <= n < 1 << 40 for n in found.values()):
        raise RefusedError(400, f"sizes={text[:60]!r}", need="sizes from 0 to 10^12")
    return found


def available_bytes() -> int:
    """Return how much memory is free for a new process; where nobody tells, all there is.

    >>> 0 < available_bytes() <= machine_bytes()
    True
    """
    try:
        told = Path("/proc/meminfo").read_text("ascii")
        free = int(re.search(r"^MemAvailable:\s+(\d+) kB", told, re.MULTILINE)[1]) * 1024  # type: ignore[index]
    except (OSError, ValueError, TypeError):
        try:
            free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
        except (AttributeError, ValueError, OSError):
            free = machine_bytes()
    return min(free, machine_bytes())


def check_tensor(asked: Asked, name: str) -> TensorRange:
    """Return a tensor of a file; raises RefusedError where it holds none of that name."""
    found = ranges(asked).get(name)
    if found is None:
        raise RefusedError(404, f"the file holds no tensor {name[:80]!r}", code="tensor")
    return found
