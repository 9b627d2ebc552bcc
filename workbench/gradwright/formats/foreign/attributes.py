"""Attributes of other worlds' operators: declared with type, default and range, and checked."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from types import GenericAlias
from typing import Any

import numpy as np

from ...errors import ArchiveError
from ...op.declare import REQUIRED, Attr
from ...words.spelling import meant

Attributes = Mapping[str, Any]
"""Name -> an ``attribute(...)``, or in short its default, or the type of one that is required."""


@dataclass(frozen=True)
class Kind:
    """A type of attributes: how errors call it, and its values as Python has them, None if none."""

    words: str
    taken: Callable[[Any], Any]


def _only(*types: type) -> Callable[[Any], Any]:
    """Take values of exactly these types, so that True is no integer."""
    return lambda value: value if type(value) in types else None


def _float(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) else None


def _flag(value: Any) -> bool | None:
    return bool(value) if type(value) in (bool, int) and value in (0, 1) else None


def _several(one: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def taken(value: Any) -> tuple[Any, ...] | None:
        found = tuple(map(one, value)) if isinstance(value, (tuple, list)) else (None,)
        return None if any(item is None for item in found) else found

    return taken


KINDS: dict[str, Kind] = {
    "int": Kind("an integer", _only(int)),
    "float": Kind("a number", _float),
    "bool": Kind("0 or 1", _flag),
    "str": Kind("text", _only(str)),
    "ints": Kind("integers", _several(_only(int))),
    "floats": Kind("numbers", _several(_float)),
    "strs": Kind("texts", _several(_only(str))),
    "array": Kind("a tensor", _only(np.ndarray)),
    "dtype": Kind("a dtype", lambda value: value),  # a world's own number or name for it
    "graph": Kind("a graph", lambda value: value),
    "any": Kind("any value", lambda value: value),
}
_TYPES: dict[Any, str] = {
    int: "int", float: "float", bool: "bool", str: "str", np.ndarray: "array", np.dtype: "dtype",
    tuple[int, ...]: "ints", tuple[float, ...]: "floats", tuple[str, ...]: "strs", object: "any",
}  # fmt: skip
"""Python's types -> kinds."""


def attribute(
    type: Any,
    default: Any = REQUIRED,
    *,
    doc: str = "",
    choices: tuple[Any, ...] = (),
    least: float | None = None,
    most: float | None = None,
) -> Attr:
    """Return the description of an attribute of an operator of another world.

    ``type`` is one of Python's, as ``int`` or ``tuple[int, ...]``, ``np.ndarray`` for a tensor,
    ``np.dtype``, or ``"graph"``. An attribute without default has to be stated; one whose default
    is None may be left out. Raises TypeError for a type that attributes are not of.

    >>> import gradwright as gw
    >>> gw.onnx.attribute(float, 0.5, least=0.0, most=1.0).bounds("p")
    '0 <= p <= 1'
    """
    kind = type if isinstance(type, str) else None
    if kind is None and isinstance(type, Hashable):
        kind = _TYPES.get(type)
    if kind not in KINDS:
        raise TypeError(f"attributes are of no type {type!r}; of {', '.join(KINDS)}")
    return Attr(default, doc, kind, tuple(choices), least, most)


def described(attributes: Attributes) -> dict[str, Attr]:
    """Return descriptions of attributes, of which some may be written in short.

    >>> from gradwright.formats.foreign.attributes import described
    >>> found = described({"axis": 1, "scales": tuple[float, ...]})
    >>> found["axis"].type, found["axis"].default, found["scales"].type
    ('int', 1, 'floats')
    """
    return {name: _described(name, value) for name, value in attributes.items()}


def _described(name: str, value: Any) -> Attr:
    if isinstance(value, Attr):
        return value
    if isinstance(value, (type, GenericAlias)):
        return attribute(value)
    kind = "dtype" if value is None else next(k for k in KINDS if KINDS[k].taken(value) is not None)
    if kind == "dtype":
        raise TypeError(f"{name}: {value!r} does not tell a type: attribute(type, {value!r})")
    return Attr(KINDS[kind].taken(value), type=kind)


def settled(
    op_type: str, given: Mapping[str, Any], declared: Mapping[str, Attr], dtype_of: Any
) -> dict[str, Any]:
    """Return the attributes of a node as they are declared, with the defaults of the others.

    Raises ArchiveError for one that is not declared, of another type, out of range or lacking.
    """
    for name in given:
        if name not in declared:
            close = meant(name, declared)
            raise ArchiveError(
                f"{op_type} has no attribute {name[:60]!r}",
                need=", ".join(declared) or "none",
                hint=f"did you mean {close!r}?" if close else "",
            )
    found = {}
    for name, attr in declared.items():
        if name in given:
            found[name] = _settled(op_type, name, attr, given[name], dtype_of)
        elif attr.default is REQUIRED:
            raise ArchiveError(
                f"{op_type} lacks its attribute {name!r}", need=KINDS[attr.type].words
            )
        elif attr.default is not None:
            found[name] = attr.default
    return found


def _settled(op_type: str, name: str, attr: Attr, value: Any, dtype_of: Any) -> Any:
    taken = KINDS[attr.type].taken(value)
    problem = f"the attribute {name!r} of {op_type} is {shown(value)}"
    if taken is None:
        raise ArchiveError(problem, need=KINDS[attr.type].words)
    if attr.bounded and not attr.fits(taken):
        raise ArchiveError(problem, need=attr.bounds(name))
    several = isinstance(taken, tuple)
    if attr.choices and any(t not in attr.choices for t in (taken if several else (taken,))):
        close = meant(value, map(str, attr.choices)) if isinstance(value, str) else ""
        raise ArchiveError(
            problem,
            need=" or ".join(map(repr, attr.choices)),
            hint=f"did you mean {close!r}?" if close else "",
        )
    return dtype_of(taken) if attr.type == "dtype" else taken


def shown(value: Any) -> str:
    """Return a value as errors tell it, in a few words.

    >>> import numpy as np
    >>> from gradwright.formats.foreign.attributes import shown
    >>> shown("fats"), shown(np.zeros((2, 3))), shown(b"")
    ("'fats'", 'a tensor of shape (2, 3)', 'a bytes')
    """
    if isinstance(value, np.ndarray):
        return f"a tensor of shape {value.shape}"
    if not isinstance(value, (str, int, float, tuple, list)):
        return f"a {type(value).__name__}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:48].rstrip(', ')}..."
