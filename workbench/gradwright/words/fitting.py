"""Fitting: which of the arguments that were typed are which parameters of a row."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from .rows import Row
from .typed import Typed

Given = Mapping[str, Any]
"""Parameter -> the argument's expression; a list of them for ``*parameters``."""
RATE = "rate"
"""The condition of a parameter that an optimizer would be given for: only numbers are put in."""


def bound(row: Row, call: Typed) -> Given | None:
    """Return the arguments of a call by the row's parameters, None if they do not fit."""
    args, names = list(call.args or ()), list(row.defaults)
    n = len(row.signature.args)
    given: dict[str, Any] = {**dict(zip(names[:n], args, strict=False)), **call.named}
    if row.signature.vararg is not None:
        given[row.signature.vararg.arg] = args[n:]
    elif len(args) > n:
        return None
    needed = {k for k, default in row.defaults.items() if default is None}
    if call.args is not None and not needed <= given.keys():
        return None
    if not (row.signature.kwarg or call.named.keys() <= row.defaults.keys()):
        return None
    for name, what in row.conditions.items():
        absent = name not in given
        if absent and row.defaults[name] is not None:
            continue
        if absent or not fulfils(given[name], what):
            if what != RATE:
                return None
            given.pop(name, None)
    if call.later and row.later and row.later[-1].startswith("*"):
        *first, rest = row.later
        later = call.later[len(first) :]
        given |= {rest[1:]: ast.Tuple(list(later), ast.Load())}
        return given | dict(zip(first, call.later, strict=False))
    if row.later and len(call.later) > len(row.later):
        return None
    return given | dict(zip(row.later, call.later, strict=False))


def partly(row: Row, call: Typed) -> tuple[Given, list[str]]:
    """Return what a row takes of the arguments that do not fit it, and what it does not, as text.

    Nothing that was typed is left out in silence, nor is a default written in its place.
    """
    args, names = list(call.args or ()), [a.arg for a in row.signature.args]
    typed_so = [ast.unparse(a) for a in args] + [
        f"**{ast.unparse(v)}" if k.startswith("**") else f"{k}={ast.unparse(v)}"
        for k, v in call.named.items()
    ]
    if any(isinstance(a, ast.Starred) for a in args):
        return {}, typed_so
    given = dict(zip(names, args, strict=False))
    given |= {k: v for k, v in call.named.items() if k in row.defaults and k not in given}
    for name, what in row.conditions.items():
        if what != RATE and name in given and not fulfils(given[name], what):
            del given[name]
    held = {id(value) for value in given.values()}
    values = [*args, *call.named.values()]
    left = [text for text, v in zip(typed_so, values, strict=True) if id(v) not in held]
    return given | dict(zip(row.later, call.later, strict=False)), left


_CONDITIONS: Mapping[str, Callable[[Any], bool]] = {
    "int": lambda v: type(v) is int,
    RATE: lambda v: type(v) in (int, float),
    "number": lambda v: type(v) in (int, float),
    "parameters": lambda v: type(v) not in (int, float),
    "complex": lambda v: type(v) is complex,
    "unknown": lambda v: v is None,
    "tuple": lambda v: isinstance(v, tuple | list),
    "pair": lambda v: isinstance(v, tuple | list) and len(v) == 2,
    "four": lambda v: isinstance(v, tuple | list) and len(v) == 4,
    "any": lambda v: True,
}
"""Conditions of rows on an argument; None is what is no literal. Others are what is written."""


def fulfils(value: ast.expr, what: str) -> bool:
    """Tell whether an argument, as it is written, fulfils a condition."""
    try:
        known = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        known = None
    test = _CONDITIONS.get(what)
    return ast.unparse(value) == what if test is None else test(known)
