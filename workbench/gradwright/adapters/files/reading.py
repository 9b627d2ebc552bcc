"""Folders of adapters: ``adapter_config.json``, and arrays as safetensors beside it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ArchiveError, GraphError
from ...files.folder import filling
from ...files.whole import write_text
from ...formats.checked import MAX_JSON, parse_json
from ...formats.pickles import conversion
from ...formats.report import some
from ...formats.safetensors import format as single
from ...formats.safetensors.writing import save
from ...formats.source import Source, at, exactly, naming
from ...spec import dtype as as_dtype
from ...spec import dtype_name
from .keys import parsed
from .options import CONFIG
from .saved import SavedAdapter

Array = np.ndarray[Any, Any]
WEIGHTS = "adapter_model.safetensors"
PICKLE = "adapter_model.bin"
FLOATS = ("float32", "float16", "bfloat16", "float64")


def settings_in(source: Source) -> dict[str, Any]:
    """Return the settings of a folder; raises ArchiveError for what are none."""
    part = source.part(CONFIG)
    if part.size > MAX_JSON:
        raise ArchiveError(f"{part.size:,} bytes of JSON, limit {MAX_JSON:,}", where=CONFIG)
    return parse_json(exactly(part, 0, part.size), CONFIG)


def by_module(specs: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return key -> path and leaf; raises ArchiveError for keys that are none of an adapter."""
    found = {key: parsed(key) for key in specs}
    if foreign := sorted(key for key, where in found.items() if where is None):
        raise ArchiveError(
            f"{len(foreign)} of {len(found)} tensors are none of an adapter",
            where=WEIGHTS,
            facts=[some((key[:120] for key in foreign), 4)],
            need="base_model.model.<path of a module>.<leaf>",
        )
    told = {key: where for key, where in found.items() if where is not None}
    if len(set(told.values())) < len(told):
        held = Counter(told.values())
        twice = next(key for key, where in told.items() if held[where] > 1)
        raise ArchiveError(f"{twice[:80]!r} is there in two spellings", where=WEIGHTS)
    if not told:
        raise ArchiveError("it has no tensors", where=WEIGHTS)
    return told


def read_folder(path: Path) -> SavedAdapter:
    """Return the adapter of a folder; its arrays are mapped.

    Raises ArchiveError for a folder that is damaged or holds a pickle.
    """
    with naming(str(path)):
        source = at(path)
        settings = settings_in(source)
        check_pickle(source)
        tensors = single.opened(path / WEIGHTS)
        where = by_module(tensors.specs)
        check_dtypes(tensors.specs)
        arrays: dict[str, dict[str, Array]] = {}
        for key, (module, leaf) in where.items():
            arrays.setdefault(module, {})[leaf] = tensors[key]
        return SavedAdapter(path, settings, arrays)


def write_files(
    folder: Path, settings: Mapping[str, Any], tensors: Mapping[str, Array], weights: str
) -> None:
    """Write settings and arrays into a folder, made if it is not there: both files or none."""
    text = json.dumps(dict(settings), indent=2, sort_keys=True, default=_json) + "\n"
    with filling(folder) as new:
        save(tensors, new / weights, metadata={"format": "pt"})
        write_text(new / CONFIG, text)


def rounded(tensors: Mapping[str, Array], dtype: str | None) -> dict[str, Array]:
    """Return arrays in a dtype; raises GraphError for numbers beyond what it has.

    >>> rounded({"a": np.ones(1, "f4")}, "float16")["a"].dtype
    dtype('float16')
    """
    if dtype is None:
        return dict(tensors)
    found = {}
    for name, array in tensors.items():
        with np.errstate(over="ignore"):
            found[name] = array.astype(as_dtype(dtype))
        if np.isinf(found[name]).any() and not np.isinf(array).any():
            raise GraphError(f"{name!r} has numbers beyond {dtype}", hint="dtype='bfloat16'")
    return found


def _json(value: Any) -> Any:
    """Return what JSON has for a number of numpy, or a mapping that is none of Python's."""
    return value.item() if isinstance(value, np.generic) else dict(value)


def check_dtypes(specs: Mapping[str, Any]) -> None:
    """Raise ArchiveError for tensors that are no floats."""
    for key, spec in specs.items():
        if dtype_name(spec.dtype) not in FLOATS:
            raise ArchiveError(f"{key[:120]} is {spec}", where=WEIGHTS, need=", ".join(FLOATS))


def check_pickle(source: Source) -> None:
    """Raise ArchiveError for a folder that has a pickle alone, with the call that converts it."""
    names = source.names()
    if WEIGHTS not in names and PICKLE in names:
        path = Path(source.name) / PICKLE
        raise ArchiveError(
            f"its arrays are a pickle, {PICKLE}, and opening one runs what it names",
            need=WEIGHTS,
            hint=conversion(path),
        )
    if WEIGHTS not in names:
        raise ArchiveError(f"the folder has no {WEIGHTS}", need=f"{CONFIG} and {WEIGHTS}")
