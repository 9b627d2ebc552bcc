"""Rows: the tables of ``theirs.py``, read."""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .theirs import CALLS, KEYWORDS, VALUES


@dataclass(frozen=True)
class Row:
    """A call elsewhere, what it is here, and how they differ.

    ``later`` are the parameters of the object that their call makes, which is called in turn.
    """

    owner: str
    name: str
    signature: ast.arguments
    later: tuple[str, ...]
    ours: ast.expr
    difference: str

    @functools.cached_property
    def defaults(self) -> Mapping[str, ast.expr | None]:
        """Parameters with their defaults; None where there is none."""
        of, args = self.signature, [*self.signature.args, *self.signature.kwonlyargs]
        bare: list[ast.expr | None] = [None] * (len(of.args) - len(of.defaults))
        given = [*bare, *of.defaults, *of.kw_defaults]
        return dict(zip((a.arg for a in args), given, strict=True))

    @functools.cached_property
    def conditions(self) -> Mapping[str, str]:
        """What an argument has to be for the row to hold: an ``int``, or what is written there."""
        args = [*self.signature.args, *self.signature.kwonlyargs]
        return {a.arg: ast.unparse(a.annotation) for a in args if a.annotation is not None}

    @property
    def function(self) -> str:
        """What is called here, ``gw.tile``; "" where it is no function."""
        of = self.ours.func if isinstance(self.ours, ast.Call) else self.ours
        return ast.unparse(of) if isinstance(of, ast.Attribute) else ""


@functools.cache
def rows() -> Mapping[tuple[str, str], list[Row]]:
    """Return the rows by whose name it is, and the name."""
    found: dict[tuple[str, str], list[Row]] = {}
    for theirs, ours, difference in _lines(CALLS):
        path, _, signature = theirs.partition("(")
        owner, _, name = path.partition(".")
        first, _, later = signature.removesuffix(")").partition(")(")
        function = ast.parse(f"def f({first}): ...").body[0]
        assert isinstance(function, ast.FunctionDef)
        names = tuple(part.strip() for part in later.split(",") if part)
        body = ast.parse(ours, mode="eval").body
        row = Row(owner, name, function.args, names, body, difference)
        found.setdefault((owner, name), []).append(row)
    return found


@functools.cache
def keywords() -> Mapping[tuple[str, str], tuple[ast.Call, str]]:
    """Return what a keyword is here, by whose it is, ``*`` for anybody's, and its name."""
    found = {}
    for theirs, ours, difference in _lines(KEYWORDS):
        owners, _, names = theirs.removesuffix(")").partition("(")
        call = ast.parse(f"f({ours})", mode="eval").body
        assert isinstance(call, ast.Call)
        for owner, name in itertools.product(owners.split(", "), names.split(", ")):
            found[owner, name] = call, difference
    return found


@functools.cache
def values() -> Mapping[str, str]:
    """Return what is written for ``keyword=value``; nothing where it is left out."""
    return {theirs: ours for theirs, ours, _ in _lines(VALUES)}


def _lines(text: str) -> Iterator[tuple[str, str, str]]:
    for line in text.splitlines():
        if line.strip():
            theirs, _, rest = line.partition(" ->")
            ours, _, difference = rest.partition(" | ")
            yield theirs.strip(), " ".join(ours.split()), " ".join(difference.split())
