"""Elements of arrays in LLVM text, by number."""

from __future__ import annotations

from ..text import Num

TYPES = {"f": "float", "d": "double", "i": "i32", "l": "i64", "q": "i64"}
"""Types of elements, by the characters of their dtypes."""


def item(p: Num, type_: str, index: Num) -> Num:
    """Return the address of an element."""
    return p.code.let("ptr", f"getelementptr {type_}, ptr {p.name}, i64 {index.name}")


def get(p: Num, type_: str, index: Num, *, group: bool = False) -> Num:
    """Return an element; in a ``group`` of which no turn reads what another one writes."""
    of = f", {p.code.group}" if group else ""
    return p.code.let(type_, f"load {type_}, ptr {item(p, type_, index).name}{of}")


def put(p: Num, index: Num, x: Num, *, group: bool = False) -> None:
    """Write an element, in a ``group`` as in `get`."""
    of = f", {p.code.group}" if group else ""
    x.code.do(f"store {x.type} {x.name}, ptr {item(p, x.type, index).name}{of}")
