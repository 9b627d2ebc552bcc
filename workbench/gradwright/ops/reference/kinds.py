"""Kinds of ops, and types of attributes, as one calls them where no Python is known."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...op import Op
from ..core.reduce import _Reduction

KINDS: Mapping[str, str] = {
    "elementwise": "each element of the result comes from the one of its tensor at the same place",
    "broadcasting": "elementwise, of several tensors whose shapes broadcast",
    "reduction": "axes of the tensor are reduced to one element each, or go",
    "list": "of sequences of tensors, or of optional ones",
    "random": "draws from a stream of random numbers",
    "control": "runs graphs that are attributes of it: branches, loops, calls",
    "composite": "none of these, and defined by a graph of other ops",
    "general": "none of these",
}
"""Kind -> what its ops do."""


def kind_of(cls: type[Op]) -> str:
    """Return the kind of an op, from what its family and its class declare.

    What it does goes before how it is defined: ``gelu`` is elementwise, though it is a composite.

    >>> from gradwright.op import find_op
    >>> [kind_of(find_op(n)) for n in ("relu", "add", "sum", "dropout", "cond", "linear", "matmul")]
    ['elementwise', 'broadcasting', 'reduction', 'random', 'control', 'composite', 'general']
    """
    if cls.family.kind:
        return cls.family.kind
    if "stream" in cls.attrs:
        return "random"
    if issubclass(cls, _Reduction):
        return "reduction"
    claims = cls.dependence if isinstance(cls.dependence, tuple) else (cls.dependence,)
    if cls.inputs and all(claim.kind in ("element", "affine") for claim in claims):
        several = len(cls.inputs) > 1 or cls.inputs[0].kind is cls.inputs[0].VAR_POSITIONAL
        return "broadcasting" if several else "elementwise"
    return "composite" if cls.is_composite() else "general"


_PLAIN: Mapping[str, tuple[str, ...]] = {
    "int": ("int",),
    "float": ("float",),
    "bool": ("bool",),
    "str": ("string",),
    "AnyDim": ("int", "dim"),
    "Op": ("op",),
    "SubGraph": ("graph",),
}
_SHORT = {"Axis": "int | tuple[int, ...] | None"}


def types_of(declared: str) -> list[Any]:
    """Return the neutral types of an attribute: names, and ``{"list": types}``.

    ``dim`` is a name or arithmetic on names, ``any`` what is stated nowhere.

    >>> types_of("int | tuple[int | None, ...]"), types_of("tuple[AnyDim, AnyDim] | None")
    (['int', {'list': ['int', 'null']}], [{'list': ['int', 'dim'], 'length': 2}, 'null'])
    """
    found: list[Any] = []
    for one in _options(ast.parse(declared, mode="eval").body):
        found += [one] if one not in found else []
    return found


def shown_types(types: Sequence[Any]) -> str:
    """Return neutral types as text.

    >>> shown_types(["int", {"list": ["int", "null"]}])
    'int | list of (int | null)'
    """
    return " | ".join(
        kind if isinstance(kind, str) else f"list of {_within(kind['list'])}" for kind in types
    )


def _within(types: Sequence[Any]) -> str:
    text = shown_types(types)
    return f"({text})" if len(types) > 1 else text


def _options(node: ast.expr) -> Iterator[Any]:
    match node:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            yield from _options(left)
            yield from _options(right)
        case ast.Constant(value=None):
            yield "null"
        case ast.Name(id=name) if name in _SHORT:
            yield from _options(ast.parse(_SHORT[name], mode="eval").body)
        case ast.Name(id=name) if name in _PLAIN:
            yield from _PLAIN[name]
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=items)):
            yield _list(items)
        case ast.Subscript(value=ast.Attribute(attr="dtype")):
            yield "dtype"
        case _:
            yield "any"


def _list(items: list[ast.expr]) -> dict[str, Any]:
    """Return a list of any length, ``tuple[int, ...]``, or of as many items as are written."""
    *fixed, last = items
    if isinstance(last, ast.Constant) and last.value is ...:
        return {"list": types_of(ast.unparse(fixed[0]))}
    kinds: list[Any] = []
    for item in items:
        kinds += [one for one in _options(item) if one not in kinds]
    return {"list": kinds, "length": len(items)}
