"""Doors: what methods of a graph hand over to rooms above, imported when they are called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..shared import first_use

DOORS = {"output": "gradwright.session:output", "save": "gradwright.formats.archive:save"}
"""Method -> the function that it is, as its first argument gets the graph."""


def door(method: str) -> Any:
    """Return the function behind a method of a graph.

    >>> door("save").__module__
    'gradwright.formats.archive.archive'
    """
    module, _, name = DOORS[method].partition(":")
    with first_use:
        return getattr(import_module(module), name)
