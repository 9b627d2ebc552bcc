"""Advice: how what users of other libraries type is written here, with their own arguments.

Where a name or a keyword does not exist, or a call of a name that both have fails, its row of
``theirs.py`` is looked up, and the arguments are put in as they stand in the user's line.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from . import MODULE, TENSOR
from .rows import Row, keywords, rows, values
from .spelling import meant, plain
from .typed import Typed, typed

Given = Mapping[str, Any]
"""Parameter -> the argument's expression; a list of them for ``*parameters``."""
RATE = "rate"
"""The condition of a parameter that an optimizer would be given for: only numbers are put in."""


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
    call = typed(name)
    whole = typed(name, whole=True) if owner == MODULE else None  # of optim.lr_scheduler.StepLR
    last = [] if whole is None or whole.name == name else [(whole.name, whole)]
    for asked, held in [*last, (name, call)]:
        if found := _advice(owner, asked, held, texts):
            return found
        if find is not None and (ours := find(asked)):
            return Advice(_called_so(owner, asked, held, ours))
    return None


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
    if call is not None:
        for row in conditional:
            given = _bound(row, call)
            if given is not None:
                return _written(row, given, call, {})
    return None


def advice_on_keyword(of: str, keyword: str, known: Collection[str]) -> Advice | None:
    """Return what to write for a call with a keyword that ``of`` does not have.

    >>> from gradwright.words.advice import advice_on_keyword
    >>> print(advice_on_keyword("sum", "dim", ["axis", "keepdims"]))
    did you mean axis=dim?
    >>> print(advice_on_keyword("sum", "axsi", ["axis", "keepdims"]))
    did you mean 'axis'?
    """
    call = typed()
    call = None if call is None or keyword not in call.named else call
    held = [] if call is None else _conditional(of, call, known)
    for row in held:
        assert call is not None
        rest, others, difference = _translated(of, known, call, row.conditions)
        given = _bound(row, rest)
        if given is not None:
            put = _put(row, given, call, {})
            return _wrapped(put, others, row.difference or difference)
    made = _keyword(of, keyword, known, call)
    if made is None:
        close = "" if held else meant(keyword, known)
        return Advice(repr(close)) if close else None
    if call is None:
        return Advice(_inside(made[0]), made[1])
    rest, others, difference = _translated(of, known, call, ())
    return _wrapped(rest.expression, others, difference)


def _translated(
    of: str, known: Collection[str], call: Typed, kept: Collection[str]
) -> tuple[Typed, list[tuple[ast.Call, str]], str]:
    """Return a call with keywords of ours, what is said by calls around it, and the difference."""
    named: dict[str, ast.expr] = {}
    others, difference = [], ""
    for key, value in call.named.items():
        other = None if key in known or key in kept else _keyword(of, key, known, call)
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
        around = _Put({"CALL": inner}, frozenset()).visit(copy.deepcopy(other)).args[0]
        function = ast.unparse(other.args[0]).partition("(")[0]
        if function == last and isinstance(inner, ast.Call):  # as epochs= and batch_size= of fit
            names = {k.arg for k in inner.keywords}
            inner.keywords += [k for k in around.keywords if k.arg not in names]
        else:
            inner = around
        last, difference = function, difference or said
    return Advice(ast.unparse(inner), difference)


def _inside(call: ast.Call) -> str:
    """Return what stands in the parentheses of a call."""
    return ast.unparse(call).partition("(")[2].removesuffix(")")


def _conditional(of: str, call: Typed, known: Collection[str]) -> list[Row]:
    """Return the rows of a name of ours that are for a keyword it does not have."""
    unknown = call.named.keys() - set(known)
    held = rows().get((MODULE, of.rpartition("/")[2]), ())
    return [row for row in held if unknown & row.conditions.keys()]


def _keyword(
    of: str,
    keyword: str,
    known: Collection[str],
    call: Typed | None,
) -> tuple[ast.Call, str] | None:
    """Return a call with what a keyword of theirs is here, if that is known; and the difference.

    ``CALL`` stands for the call without it.
    """
    value = ast.Name(keyword) if call is None else call.named[keyword]
    names = {"_": value} | ({"CALL": ast.Name(of.lower())} if call is None else {})
    for owner in (of, "*"):
        ours, difference = keywords().get((owner, keyword), (None, ""))
        if ours is not None and all(ours.args or k.arg in known for k in ours.keywords):
            return _Put(names, frozenset()).visit(copy.deepcopy(ours)), difference
    return None


def _advice(owner: str, name: str, call: Typed | None, texts: Given) -> Advice | None:
    held = rows().get((owner, name)) or rows().get((owner, name.rstrip("_"))) or []
    for row in held:
        given = None if call is None else _bound(row, call)
        if given is not None:
            return _written(row, given, call, texts)
    if not held or call is None or call.args is None:
        return _written(held[0], {}, call, texts) if held else None
    ways = [(row, *_partly(row, call)) for row in held]
    row, given, left = min(ways, key=lambda way: len(way[2]))  # the first of these
    found = _written(row, given, call, texts)
    if not left:
        return found
    said = f"left out: {', '.join(left)}"
    return found._replace(difference=f"{said}; {found.difference}".removesuffix("; "))


def _partly(row: Row, call: Typed) -> tuple[Given, list[str]]:
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
        if what != RATE and name in given and not _is(given[name], what):
            del given[name]
    held = {id(value) for value in given.values()}
    values = [*args, *call.named.values()]
    left = [text for text, v in zip(typed_so, values, strict=True) if id(v) not in held]
    return given | dict(zip(row.later, call.later, strict=False)), left


def _bound(row: Row, call: Typed) -> Given | None:
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
        if absent or not _is(given[name], what):
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


def _is(value: ast.expr, what: str) -> bool:
    """Tell whether an argument, as it is written, fulfils a condition."""
    try:
        known = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        known = None
    test = _CONDITIONS.get(what)
    return ast.unparse(value) == what if test is None else test(known)


def value_instead(keyword: str, value: Any) -> str | None:
    """Return what is written for ``keyword=value``, "" for nothing at all, None if it is ours.

    >>> value_instead("mode", "bilinear"), value_instead("reduction", "mean")
    ("mode='linear'", '')
    """
    return values().get(f"{keyword}={value!r}")


def hint_on_value(keyword: str, value: Any) -> str:
    """Return what to try in the place of ``keyword=value``, or "".

    >>> hint_on_value("mode", "bilinear"), hint_on_value("reduction", "mean")
    ("mode='linear'", 'leave reduction out')
    """
    ours = value_instead(keyword, value)
    return f"leave {keyword} out" if ours == "" else ours or ""


def _written(row: Row, given: Given, call: Typed | None, texts: Given) -> Advice:
    return Advice(ast.unparse(_put(row, given, call, texts)), row.difference)


def _put(row: Row, given: Given, call: Typed | None, texts: Given) -> ast.expr:
    """Return our call of a row with arguments put in."""
    names: dict[str, Any] = {k: ast.Constant(v) for k, v in texts.items()}
    if call is not None and call.owner is not None and row.owner != MODULE:
        names[row.owner] = call.owner
    absent = set()
    for name, default in row.defaults.items():
        if name in given:
            names[name] = given[name]
        elif isinstance(default, ast.Constant) and default.value is None:
            absent.add(name)
        elif default is not None:
            names[name] = default
    names |= {name: given[name] for name in given.keys() - names.keys()}
    put = _Put(names, frozenset(absent)).visit(copy.deepcopy(row.ours))
    assert isinstance(put, ast.expr)
    return put


_NOTHING = ast.Name("_")
"""Stands for an argument that was not given."""


class _Put(ast.NodeTransformer):
    """Puts arguments in the place of parameters, and leaves out what none was given for."""

    def __init__(self, names: Given, absent: frozenset[str]) -> None:
        self.names, self.absent = names, absent

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id in self.absent:
            return _NOTHING
        found = self.names.get(node.id, node)
        if not isinstance(found, list):
            return found
        if len(found) == 1 and not _is(found[0], "int"):  # a tuple, most likely
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
