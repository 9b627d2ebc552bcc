"""Advice: how what users of other libraries type is written here, with their own arguments.

Where a name or a keyword does not exist, or a call of a name that both have fails, its row of
``theirs`` is looked up, and the arguments are put in as they stand in the user's line.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from . import MODULE, TENSOR
from .filling import fill, filled, value_instead
from .fitting import Given, bound, partly
from .rows import Row, keywords, rows
from .spelling import meant, plain
from .typed import Typed, typed


class Advice(NamedTuple):
    """What to write instead, and how it differs from what was typed."""

    ours: str
    difference: str = ""

    def __str__(self) -> str:
        return f"did you mean {self.ours}?" + self._aside() if self.ours else self.difference

    @property
    def hint(self) -> str:
        """As the last line of an error of ours."""
        return self.ours + self._aside()

    def _aside(self) -> str:
        return f" ({self.difference})" if self.difference else ""


def advice(
    owner: str, name: str, find: Callable[[str], str] | None = None, **texts: str
) -> Advice | None:
    """Return what to write for a name that an owner does not have.

    ``find`` gives the function of ours that some other name means, or ""; ``texts`` stand for names
    in rows: ``NAME`` of a tensor.

    >>> from gradwright.words.advice import advice
    >>> print(advice("x", "unsqueeze"), advice("x", "frobnicate"))
    did you mean x.expand_dims(dim)? None
    """
    if name.startswith("_"):
        return None
    asked: dict[str, Typed | None] = {name: typed(name)}
    if owner == MODULE and (whole := typed(name, whole=True)):  # of optim.lr_scheduler.StepLR
        asked = {whole.name: whole, **asked}
    for other, call in asked.items():
        if found := _advice(owner, other, call, texts):
            return found
        if find is not None and (ours := find(other)):
            return Advice(_called_so(owner, other, call, ours))
    return None


def _advice(owner: str, name: str, call: Typed | None, texts: Mapping[str, str]) -> Advice | None:
    """Return what the rows of a name say: the one that a call fits, or leaves the least of out."""
    held = rows().get((owner, name)) or rows().get((owner, name.rstrip("_"))) or []
    if call is not None and (found := _fitting(held, call, texts)):
        return found
    if not held or call is None or call.args is None:
        return _written(held[0], {}, call, texts) if held else None
    ways = [(row, *partly(row, call)) for row in held]
    row, given, left = min(ways, key=lambda way: len(way[2]))  # the first of these
    found = _written(row, given, call, texts)
    if not left:
        return found
    said = f"left out: {', '.join(left)}"
    return found._replace(difference=f"{said}; {found.difference}".removesuffix("; "))


def _fitting(held: Sequence[Row], call: Typed, texts: Mapping[str, str]) -> Advice | None:
    """Return what the first row says that a call fits."""
    for row in held:
        if (given := bound(row, call)) is not None:
            return _written(row, given, call, texts)
    return None


def _written(row: Row, given: Given, call: Typed | None, texts: Mapping[str, str]) -> Advice:
    return Advice(ast.unparse(filled(row, given, call, **texts)), row.difference)


def _called_so(owner: str, name: str, call: Typed | None, ours: str) -> str:
    """Return a function of ours with the arguments that one of the same name has been given.

    Of a layer, ``ELU()(x)``, those are what it is called with, where it has no settings.
    """
    home, _, function = ours.rpartition(".")
    if call is None or call.args is None or plain(function) != plain(name):
        return ours if owner == MODULE else f"{ours}({owner})"
    args = call.args
    if name[:1].isupper():
        if args or call.named or not call.later:
            return ours
        args = call.later
    first = [] if owner == MODULE or call.owner is None else [call.owner]
    return replace(call, owner=ast.Name(home), name=function, args=(*first, *args)).text


def advice_on(name: str) -> Advice | None:
    """Return what to write for a call that failed, of a name that means something else elsewhere.

    Only rows with conditions that hold are considered, as of ``gather(x, dim: int, index)``: what
    fails for another reason gets no advice.
    """
    held = [*rows().get((MODULE, name), ()), *rows().get((TENSOR, name), ())]
    conditional = [row for row in held if row.conditions]
    call = typed(name) if conditional else None
    return None if call is None else _fitting(conditional, call, {})


def advice_on_keyword(of: str, keyword: str, known: Collection[str]) -> Advice | None:
    """Return what to write for a call with a keyword that ``of`` does not have.

    >>> from gradwright.words.advice import advice_on_keyword
    >>> print(advice_on_keyword("sum", "dim", ["axis", "keepdims"]))
    did you mean axis=dim?
    >>> print(advice_on_keyword("sum", "axsi", ["axis", "keepdims"]))
    did you mean 'axis'?
    """
    call = typed()
    if call is None or keyword not in call.named:
        names = {"_": ast.Name(keyword), "CALL": ast.Name(of.lower())}
        if made := _keyword(of, keyword, known, names):
            inside = ast.unparse(made[0]).partition("(")[2].removesuffix(")")
            return Advice(inside, made[1])
        return _slip(keyword, known)
    held = _conditional(of, call, known)
    for row in held:
        rest, others, difference = _translated(of, known, call, row.conditions)
        if (given := bound(row, rest)) is not None:
            return _wrapped(filled(row, given, call), others, row.difference or difference)
    if _keyword(of, keyword, known, {}) is None:
        return None if held else _slip(keyword, known)
    rest, others, difference = _translated(of, known, call, ())
    return _wrapped(rest.expression, others, difference)


def _slip(keyword: str, known: Collection[str]) -> Advice | None:
    close = meant(keyword, known)
    return Advice(repr(close)) if close else None


def _conditional(of: str, call: Typed, known: Collection[str]) -> list[Row]:
    """Return the rows of a name of ours that are for a keyword it does not have."""
    unknown = call.named.keys() - set(known)
    held = rows().get((MODULE, of.rpartition("/")[2]), ())
    return [row for row in held if unknown & row.conditions.keys()]


def _keyword(
    of: str, keyword: str, known: Collection[str], names: Given
) -> tuple[ast.Call, str] | None:
    """Return a call with what a keyword of theirs is here, if that is known; and the difference.

    ``_`` of ``names`` is its value, ``CALL`` stands for the call without it.
    """
    for owner in (of, "*"):
        ours, difference = keywords().get((owner, keyword), (None, ""))
        if ours is not None and all(ours.args or k.arg in known for k in ours.keywords):
            return fill(ours, names), difference
    return None


def _translated(
    of: str, known: Collection[str], call: Typed, kept: Collection[str]
) -> tuple[Typed, list[tuple[ast.Call, str]], str]:
    """Return a call with keywords of ours, what is said by calls around it, and the difference."""
    named: dict[str, ast.expr] = {}
    others, difference = [], ""
    for key, value in call.named.items():
        other = None if key in known or key in kept else _keyword(of, key, known, {"_": value})
        if other is None:
            named[key] = value
        elif other[0].args:
            others.append(other)
        else:
            named |= {k.arg: k.value for k in other[0].keywords if k.arg is not None}
            difference = difference or other[1]
    args = call.args or ()
    if args and "learning_rate" in named and next(iter(known)) == "learning_rate":
        args = args[1:]  # parameters come first in torch
        groups = "a trainer moves all that are trainable; gw.Group sets some apart"
        difference = difference or f"parameters are left out: {groups}"
    return replace(call, args=args, named=named), others, difference


def _wrapped(inner: ast.expr, others: Sequence[tuple[ast.Call, str]], difference: str) -> Advice:
    """Return a call inside of the ones around it; of one function they are one call."""
    last = ""
    for other, said in others:
        around = fill(other, {"CALL": inner}).args[0]
        function = ast.unparse(other.args[0]).partition("(")[0]
        if function == last and isinstance(inner, ast.Call) and isinstance(around, ast.Call):
            # as epochs= and batch_size= of fit
            names = {k.arg for k in inner.keywords}
            inner.keywords += [k for k in around.keywords if k.arg not in names]
        else:
            inner = around
        last, difference = function, difference or said
    return Advice(ast.unparse(inner), difference)


def hint_on_value(keyword: str, value: Any) -> str:
    """Return what to try in the place of ``keyword=value``, or "".

    >>> from gradwright.words.advice import hint_on_value
    >>> hint_on_value("mode", "bilinear"), hint_on_value("reduction", "mean")
    ("mode='linear'", 'leave reduction out')
    """
    ours = value_instead(keyword, value)
    return f"leave {keyword} out" if ours == "" else ours or ""
