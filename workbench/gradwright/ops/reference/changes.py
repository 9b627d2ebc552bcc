"""What changed between two descriptions of the ops: what broke, and what is only more.

A change breaks if a graph, an archive or a program in another language that was right for the old
description may be wrong for the new one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ArchiveError
from ...words.tables import Table, Tabular
from .description import FORMAT, VERSION, descriptors
from .kinds import shown_types

Described = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """One difference of an op: what it is about, how it was and is, and whether it breaks.

    >>> Change("relu", "kind", "elementwise", "general", True).breaking
    True
    """

    op: str
    what: str
    before: str
    after: str
    breaking: bool


class Changes(Tabular):
    """The differences of two descriptions; prints as a table, what broke first.

    >>> import gradwright as gw
    >>> old = gw.ops.descriptors(texts=False)
    >>> relu = next(op for op in old["ops"] if op["name"] == "leaky_relu")
    >>> relu["attributes"][0]["default"] = 0.2
    >>> changes = gw.ops.check(old)
    >>> changes
    what changed in the ops
             op          what                              before  after
    broken   leaky_relu  default of negative_slope         0.2     0.01
    >>> changes.ok
    False
    """

    def __init__(self, changes: Sequence[Change]) -> None:
        self.broken = tuple(c for c in changes if c.breaking)
        self.added = tuple(c for c in changes if not c.breaking)

    @property
    def ok(self) -> bool:
        """Whether nothing broke."""
        return not self.broken

    def table(self) -> Table:
        """Return a row for each change."""
        rows = [
            ["broken" if c.breaking else "added", c.op, c.what, c.before, c.after]
            for c in (*self.broken, *self.added)
        ]
        notes = () if rows else ("the ops are the same",)
        columns = ["", "op", "what", "before", "after"]
        return Table(columns, rows, title="what changed in the ops", notes=notes)

    __repr__ = Tabular.__str__


def check(old: Described | str | Path, new: Described | str | Path | None = None) -> Changes:
    """Compare two descriptions, of ``gw.ops.descriptors`` or in files; the new one is today's.

    Broken are: an op that is gone, renamed or no longer public; inputs that are gone, renamed, in
    another order, or needed now; attributes that are gone, renamed, in another order, or needed
    now; another default; types, bounds or choices that take less; other outputs; another kind or
    namespace; a lower version; names in ONNX and SameDiff that it had. Everything else is added.
    Documentation is not compared. Raises ArchiveError for what is no description.
    ``python -m gradwright.ops check old.json`` prints it, and fails where something broke.

    >>> import gradwright as gw
    >>> gw.ops.check(gw.ops.descriptors(texts=False)).ok
    True
    """
    given = _ops(old), _ops(descriptors(texts=False) if new is None else new)
    try:
        return Changes(list(_changes(*given)))
    except (KeyError, TypeError, AttributeError) as error:
        raise ArchiveError(f"a description is damaged: {error!r}", need="its ops") from error


def _ops(given: Described | str | Path) -> dict[str, Described]:
    """Return the ops of a description by name."""
    try:
        held = given if isinstance(given, Mapping) else json.loads(Path(given).read_text("utf-8"))
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise ArchiveError(f"{given} is not read: {error}", need="a description of ops") from error
    label = "what is given" if isinstance(given, Mapping) else str(given)
    if not isinstance(held, Mapping) or held.get("format") != FORMAT:
        raise ArchiveError(
            f"{label} is no description of ops",
            need=f'"format": "{FORMAT}"',
            hint="gw.ops.descriptors(path) writes one",
        )
    if held.get("version") != VERSION:
        raise ArchiveError(
            f"{label} is a description of version {held.get('version')}", need=f"version {VERSION}"
        )
    try:
        return {op["name"]: {**_EMPTY, **op} for op in held["ops"]}
    except (KeyError, TypeError) as error:
        raise ArchiveError(f"{label} is damaged: {error!r}", need="its ops") from error


def _changes(before: Mapping[str, Described], after: Mapping[str, Described]) -> Iterator[Change]:
    """Yield what became of each op, then the new ones."""
    fresh = {name: op for name, op in after.items() if name not in before}
    for name, op in before.items():
        if name in after:
            yield from _compared(op, after[name])
        elif moved := _same(op, fresh):
            del fresh[moved]
            yield Change(name, "renamed", name, moved, True)
        else:
            yield Change(name, "removed", op["kind"], "", True)
    for name, op in fresh.items():
        yield Change(name, "new op", "", op["kind"], False)


_EMPTY: Described = {
    **dict.fromkeys(("namespace", "kind"), ""),
    **dict.fromkeys(("inputs", "outputs", "attributes", "onnx_parts", "samediff"), ()),
    "public": True,
    "version": 1,
    "onnx": None,
}


def _same(gone: Described, fresh: Mapping[str, Described]) -> str:
    """Return which of the new ones is what is gone under another name, or ""."""
    return next((k for k, new in fresh.items() if _without_name(new) == _without_name(gone)), "")


def _without_name(described: Described) -> Described:
    """Return what an op or an attribute is, whatever it is called, and what is said of it."""
    left_out = ("name", "summary", "doc", "samediff", "onnx_parts")
    return {k: v for k, v in described.items() if k not in left_out}


def _compared(old: Described, new: Described) -> Iterator[Change]:
    """Yield the differences of one op."""
    name = old["name"]
    for key in ("namespace", "kind"):
        if old[key] != new[key]:
            yield Change(name, key, old[key], new[key], True)
    if old["public"] != new["public"]:
        yield Change(name, "public", _shown(old["public"]), _shown(new["public"]), old["public"])
    if old["version"] != new["version"]:
        lower = new["version"] < old["version"]
        yield Change(name, "version", str(old["version"]), str(new["version"]), lower)
    yield from _inputs(name, old["inputs"], new["inputs"])
    if old["outputs"] != new["outputs"]:
        yield Change(name, "outputs", _signature(old), _signature(new), True)
    yield from _attributes(name, old["attributes"], new["attributes"])
    yield from _names(name, old, new)


def _signature(op: Described) -> str:
    return ", ".join("*" * o["variadic"] + o["name"] for o in op["outputs"])


def _inputs(name: str, old: Sequence[Described], new: Sequence[Described]) -> Iterator[Change]:
    """Yield what became of the inputs; new ones must be optional, and stand behind the others."""

    def shown(inputs: Sequence[Described]) -> str:
        return ", ".join("*" * i["variadic"] + i["name"] + "?" * i["optional"] for i in inputs)

    if list(old) == list(new):
        return
    kept = new[: len(old)]
    fits = len(kept) == len(old) and all(
        (a["name"], a["variadic"]) == (b["name"], b["variadic"]) and a["optional"] <= b["optional"]
        for a, b in zip(old, kept, strict=True)
    )
    more = all(i["optional"] or i["variadic"] for i in new[len(old) :])
    names, moved = ([i["name"] for i in held] for held in (old, new))
    what = "input order" if names != moved and sorted(names) == sorted(moved) else "inputs"
    yield Change(name, what, shown(old), shown(new), not (fits and more))


def _attributes(name: str, old: Sequence[Described], new: Sequence[Described]) -> Iterator[Change]:
    """Yield what became of the attributes."""
    before, after = ({a["name"]: a for a in held} for held in (old, new))
    fresh = {key: a for key, a in after.items() if key not in before}
    for key, declared in before.items():
        if key in after:
            yield from _attribute(name, declared, after[key])
        elif moved := _same(declared, fresh):
            del fresh[moved]
            yield Change(name, "attribute renamed", key, moved, True)
        else:
            yield Change(name, "attribute removed", key, "", True)
    for key, declared in fresh.items():
        yield Change(name, "new attribute", "", key, declared["required"])
    kept = [key for key in before if key in after]
    moved_to = [key for key in after if key in before]
    if kept != moved_to:
        yield Change(name, "attribute order", ", ".join(kept), ", ".join(moved_to), True)


def _attribute(name: str, old: Described, new: Described) -> Iterator[Change]:
    """Yield the differences of an attribute that is in both."""
    key = old["name"]
    if old["required"] != new["required"]:
        was, now = ("needed" if a["required"] else "optional" for a in (old, new))
        yield Change(name, f"attribute {key}", was, now, new["required"])
    elif repr(old.get("default")) != repr(new.get("default")):  # 1, True and 1.0 are three
        was, now = (_shown(a.get("default")) for a in (old, new))
        yield Change(name, f"default of {key}", was, now, True)
    if old["types"] != new["types"]:
        was, now = (shown_types(a["types"]) for a in (old, new))
        lost = any(kind not in new["types"] for kind in old["types"])
        yield Change(name, f"types of {key}", was, now, lost and "any" not in new["types"])
    for bound, sign in (("least", 1), ("most", -1)):
        a, b = old.get(bound), new.get(bound)
        if a != b:
            narrower = b is not None and (a is None or sign * b > sign * a)
            yield Change(name, f"{bound} {key}", _shown(a), _shown(b), narrower)
    a, b = old.get("choices", ()), new.get("choices", ())
    if list(a) != list(b):
        narrower = bool(b) and (not a or any(choice not in b for choice in a))
        yield Change(name, f"choices of {key}", _shown(a), _shown(b), narrower)


def _names(name: str, old: Described, new: Described) -> Iterator[Change]:
    """Yield what an op is called elsewhere now, and how ONNX's operator is made of it."""
    for key, label in (("samediff", "SameDiff's names"), ("onnx_parts", "part of ONNX's")):
        lost, more = ([n for n in a[key] if n not in b[key]] for a, b in ((old, new), (new, old)))
        if lost:
            yield Change(name, label, ", ".join(lost), "", key == "samediff")
        if more:
            yield Change(name, label, "", ", ".join(more), False)
    if old["onnx"] != new["onnx"]:
        was, now = ({k: v for k, v in (op["onnx"] or {}).items() if v} for op in (old, new))
        broken = old["onnx"] is not None
        yield Change(name, "ONNX operator", _shown(was or None), _shown(now or None), broken)


def _shown(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)
