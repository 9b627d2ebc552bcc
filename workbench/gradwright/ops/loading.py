"""Loading: a file of a family is imported when an op that it defines is needed.

``index.json`` says which file defines what. It is written with the stubs and travels in wheels. It
only saves time: what it does not name, or names of a file that has changed since, is looked for in
the files themselves.
"""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..op.registry import FUNCTIONS, OPS, finders
from ..shared import first_use

FOLDER = Path(__file__).parent
INDEX = FOLDER / "index.json"


def load(*namespaces: str) -> None:
    """Define the ops of some namespaces, or all ops.

    >>> from gradwright.ops.loading import load
    >>> load("nn")
    """
    held = _index()
    _import(
        file
        for file in _files()
        if not namespaces or file not in held or not held[file].keys().isdisjoint(namespaces)
    )


def load_named(name: str) -> None:
    """Define what bears a name, if anything does; all there is for "".

    >>> from gradwright.ops.loading import load_named
    >>> load_named("lora_matmul")
    """
    _import(_named().get(name, ()))
    if name not in OPS and not any(name in made for made in list(FUNCTIONS.values())):
        load()


finders.append(load_named)


def _import(files: Iterable[str]) -> None:
    with first_use:
        for file in files:
            importlib.import_module(f"{__package__}.{file}")


@functools.cache
def _files() -> Mapping[str, int]:
    """Return the size of each file of a family, by its name within this package."""
    return {
        f"{path.parent.name}.{path.stem}": path.stat().st_size
        for path in sorted(FOLDER.glob("*/*.py"))
        if path.stem != "__init__"
    }


@functools.cache
def _index() -> Mapping[str, Mapping[str, list[str]]]:
    """Return the names that a file defines, by namespace, of each file that is as it was."""
    try:
        held = json.loads(INDEX.read_text("utf-8"))
        return {
            str(file): {str(space): list(names) for space, names in spaces.items()}
            for file, (size, spaces) in held.items()
            if _files().get(file) == size
        }
    except (OSError, ValueError, TypeError, AttributeError):  # none, or not of this version
        return {}


@functools.cache
def _named() -> Mapping[str, list[str]]:
    """Return the files that define a name."""
    found: dict[str, list[str]] = {}
    for file, spaces in _index().items():
        for name in {name for names in spaces.values() for name in names}:
            found.setdefault(name, []).append(file)
    return found


def written() -> str:
    """Return what ``index.json`` should hold, after all files have been imported."""
    load()
    held: dict[str, tuple[int, dict[str, list[str]]]] = {f: (n, {}) for f, n in _files().items()}

    def note(made: Any, namespace: str, name: str) -> None:
        file = made.__module__.removeprefix(f"{__package__}.")
        if file in held:
            held[file][1].setdefault(namespace, []).append(name)

    for cls in OPS.values():
        note(cls, cls.namespace, cls.name)
    for namespace, functions in FUNCTIONS.items():
        for name, made in functions.items():
            note(made, namespace, name)
    lines = [f"{json.dumps(file)}: {json.dumps(held[file])}" for file in sorted(held)]
    return "{\n" + ",\n".join(lines) + "\n}\n"
