"""JSON from files nobody vouches for: bounded, strict, and every surprise an ArchiveError."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeVar

from ..errors import ArchiveError

MAX_JSON = 1 << 27
"""Bytes of JSON that are read at most; 100,000 nodes need 15 MB."""

T = TypeVar("T")
_WORDS = {dict: "an object", list: "a list", str: "text", int: "an integer", bool: "true or false"}


def parse_json(data: bytes, where: str) -> dict[str, Any]:
    """Return the JSON object in ``data``; refuses doubled keys, NaN, and nesting without end."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [k for k, _ in pairs]
            doubled = next(k for k in names if names.count(k) > 1)
            raise ArchiveError(f"the key {doubled[:60]!r} occurs twice", where=where)
        return found

    def no_constant(text: str) -> Any:
        raise ArchiveError(f"{text} is not JSON", where=where)

    if len(data) > MAX_JSON:
        raise ArchiveError(f"{len(data):,} bytes of JSON, limit {MAX_JSON:,}", where=where)
    try:
        found = json.loads(
            data.decode("utf-8"), object_pairs_hook=unique, parse_constant=no_constant
        )
    except ArchiveError:
        raise
    except RecursionError:
        raise ArchiveError("JSON is nested too deeply", where=where) from None
    except ValueError as error:  # bad UTF-8, bad JSON, an integer of more than 4,300 digits
        raise ArchiveError(f"not valid JSON: {error}", where=where) from None
    return expect(found, dict, "the document", where)


def expect(value: Any, kind: type[T], what: str, where: str) -> T:
    """Return ``value`` if it is exactly of ``kind``, so that True is no integer."""
    if type(value) is not kind:
        raise ArchiveError(
            f"{what} is {_WORDS.get(type(value), type(value).__name__)}",
            where=where,
            need=_WORDS[kind],
        )
    return value


def check_version(stated: Any, most: int, where: str = "") -> int:
    """Return the version of a format; raises ArchiveError where this gradwright does not read it.

    The first one is 1.
    """
    version: int = expect(stated, int, "the version of the format", where)
    if version > most:
        raise ArchiveError(
            f"it was written by a newer gradwright (format {version}; this reads up to {most})",
            hint="pip install --upgrade gradwright",
        )
    if version < 1:
        raise ArchiveError(f"there is no format {version}", where=where)
    return version


def expect_fields(
    value: Any, required: Iterable[str], optional: Iterable[str], what: str, where: str
) -> dict[str, Any]:
    """Return ``value`` if it is an object with these fields and no others."""
    row = expect(value, dict, what, where)
    required = set(required)
    if missing := sorted(required - row.keys()):
        raise ArchiveError(f"{what} has no {missing[0]!r}", where=where)
    if unknown := sorted(row.keys() - required - set(optional)):
        raise ArchiveError(f"{what} has an unknown field {unknown[0][:60]!r}", where=where)
    return row
