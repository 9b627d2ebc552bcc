"""Filling: our call of a row, with the arguments that were typed in the place of parameters."""

from __future__ import annotations

import ast
import copy
from typing import Any, TypeVar

from . import MODULE
from .fitting import Given, fulfils
from .rows import Row, values
from .typed import Typed

ExprT = TypeVar("ExprT", bound=ast.expr)


def filled(row: Row, given: Given, call: Typed | None, **texts: str) -> ast.expr:
    """Return our call of a row with arguments put in; ``texts`` stand for other names in it."""
    names: dict[str, Any] = {k: ast.Constant(v) for k, v in texts.items()}
    if call is not None and call.owner is not None and row.owner != MODULE:
        names[row.owner] = call.owner
    for name, default in row.defaults.items():
        if isinstance(default, ast.Constant) and default.value is None:
            names[name] = _NOTHING
        elif default is not None:
            names[name] = default
    return fill(row.ours, {**names, **given})


def fill(ours: ExprT, names: Given) -> ExprT:
    """Return an expression of ours with what stands for its names."""
    found: ExprT = _Fill(names).visit(copy.deepcopy(ours))
    return found


def value_instead(keyword: str, value: Any) -> str | None:
    """Return what is written for ``keyword=value``, "" for nothing at all, None if it is ours.

    >>> value_instead("mode", "bilinear"), value_instead("reduction", "mean")
    ("mode='linear'", '')
    """
    return values().get(f"{keyword}={value!r}")


_NOTHING = ast.Name("_")
"""Stands for an argument that was not given."""


class _Fill(ast.NodeTransformer):
    """Puts arguments in the place of parameters, and leaves out what none was given for."""

    def __init__(self, names: Given) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> Any:
        found = self.names.get(node.id, node)
        if not isinstance(found, list):
            return found
        if len(found) == 1 and not fulfils(found[0], "int"):  # a tuple, most likely
            return found[0]
        return ast.Tuple(found, ast.Load())

    def visit_Starred(self, node: ast.Starred) -> Any:
        held = self.names.get(node.value.id) if isinstance(node.value, ast.Name) else None
        return held if isinstance(held, list) else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        node.args = [a for a in node.args if _NOTHING not in ast.walk(a)]
        given = [k for k in node.keywords if _NOTHING not in ast.walk(k)]
        node.keywords = [said for k in given for said in _said(k)]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        """Take parts of what is written out."""
        self.generic_visit(node)
        if not isinstance(node.value, ast.Tuple | ast.List):
            return node
        try:
            part = node.value.elts[_place(node.slice)]
        except (IndexError, ValueError):  # as of (0.9,) for two betas
            return node
        return ast.Tuple(part, ast.Load()) if isinstance(part, list) else part


def _place(node: ast.expr) -> Any:
    """Return the number, or the slice, that stands in brackets."""
    if not isinstance(node, ast.Slice):
        return ast.literal_eval(node)
    ends = (None if end is None else ast.literal_eval(end) for end in (node.lower, node.upper))
    return slice(*ends)


def _said(given: ast.keyword) -> list[ast.keyword]:
    """Return a keyword with the value that is ours, or none where that is the default."""
    theirs = given.value.value if isinstance(given.value, ast.Constant) else None
    ours = value_instead(given.arg or "", theirs)
    if ours is None:
        return [given]
    call = ast.parse(f"f({ours})", mode="eval").body
    return call.keywords if isinstance(call, ast.Call) else []
