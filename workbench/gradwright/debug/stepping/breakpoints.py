"""Breakpoints: where and on what values a stepper stops."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import GraphError
from ...graph import Node, SubGraph, expansion
from ...ops.control.branch import Cond
from ...ops.control.loop_op import LoopOp
from .expression import Expression


@dataclass(repr=False)
class Breakpoint:
    """A place (name pattern, op, scope, regex) and a condition on the value; both must fit.

    Without a condition a stepper stops before the node runs, with one after it.
    """

    number: int
    name: str | None = None
    op: str | None = None
    scope: str | None = None
    regex: re.Pattern[str] | None = None
    nan: bool = False
    inf: bool = False
    above: float | None = None
    when: Expression | None = None
    enabled: bool = True
    hits: int = 0

    @property
    def is_conditional(self) -> bool:
        """Whether the node's value decides."""
        return self.nan or self.inf or self.above is not None or self.when is not None

    def fits_place(self, node: Node, path: str) -> bool:
        """Tell whether the node is one of those meant."""
        return (
            self.enabled
            and (self.name is None or fnmatch.fnmatchcase(path, self.name))
            and (self.op is None or node.op.name == self.op)
            and (self.scope is None or (path + "/").startswith(self.scope.rstrip("/") + "/"))
            and (self.regex is None or self.regex.search(path) is not None)
        )

    def points_into(self, node: Node, path: str) -> bool:
        """Tell, cheaply, whether a node inside this one may be meant and this one is not."""
        below = path + "/"
        for pattern in (self.name, self.scope):
            literal = "" if pattern is None else re.split(r"[*?\[]", pattern, maxsplit=1)[0]
            if not literal.startswith(below[: len(literal)]):
                return False
        return self.enabled and not self.fits_place(node, path)

    def fits_value(self, value: Any, tensors: Mapping[str, Any]) -> bool:
        """Tell whether the value fulfils the condition."""
        array = np.asarray(value)
        if array.dtype.kind in "fcV":
            wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
            if self.nan and np.isnan(wide).any():
                return True
            if self.inf and np.isinf(wide).any():
                return True
        if self.above is not None and array.size and array.dtype.kind != "b":
            with np.errstate(invalid="ignore"):
                if np.nanmax(np.abs(array.astype(np.complex128)), initial=0.0) > self.above:
                    return True
        return self.when is not None and bool(np.any(self.when.evaluate(tensors, array)))

    def __str__(self) -> str:
        places = [
            f"{label} {text}"
            for label, text in (("name", self.name), ("op", self.op), ("scope", self.scope))
            if text is not None
        ]
        if self.regex is not None:
            places.append(f"/{self.regex.pattern}/")
        conditions = ["NaN"] * self.nan + ["Inf"] * self.inf
        if self.above is not None:
            conditions.append(f"|max| > {self.above:g}")
        if self.when is not None:
            conditions.append(self.when.text)
        text = " and ".join(places) or "any node"
        return f"#{self.number} {text}" + (f" when {' or '.join(conditions)}" if conditions else "")

    def __repr__(self) -> str:
        return f"<Breakpoint {self}: {'' if self.enabled else 'off, '}{self.hits} hits>"


def fits_within(breakpoints: Sequence[Breakpoint], inner: SubGraph, path: str) -> bool:
    """Tell whether a breakpoint fits a node of what ``path`` stands for, at any depth."""
    for node in inner.nodes:
        if node.kind != "array":
            continue
        below = f"{path}/{node.name}"
        if any(b.fits_place(node, below) for b in breakpoints):
            return True
        inward = [b for b in breakpoints if b.points_into(node, below)]
        if inward and any(fits_within(inward, held, below) for held in _held(node)):
            return True
    return False


def _held(node: Node) -> list[SubGraph]:
    """Return what a node may stand for: an expansion, either branch of a cond, a loop's step."""
    if isinstance(node.op, LoopOp):
        return [node.op.body]
    if isinstance(node.op, Cond):
        return [node.op.then_branch, node.op.else_branch]
    if not node.op.is_composite():
        return []
    return [expansion(node.op, [None if t is None else t.spec for t in node.inputs])]


def make_breakpoint(
    number: int, known_ops: set[str], names: list[str], **options: Any
) -> Breakpoint:
    """Return a breakpoint, refusing one that can never fit."""
    regex, when = options.pop("regex", None), options.pop("when", None)
    if all(v in (None, False) for v in (*options.values(), regex, when)):
        raise GraphError("a breakpoint needs a place or a condition", hint='break_at(op="matmul")')
    try:
        pattern = None if regex is None else re.compile(regex)
    except (re.error, RecursionError, OverflowError) as error:
        raise GraphError(f"{regex[:80]!r} is not a regular expression: {error}") from None
    made = Breakpoint(
        number,
        regex=pattern,
        when=Expression(when) if isinstance(when, str) else when,
        **options,
    )
    if made.op is not None and made.op not in known_ops:
        close = difflib.get_close_matches(made.op, sorted(known_ops), 3)
        raise GraphError(
            f"no node has the op {made.op!r}",
            hint=" or ".join(map(repr, close)) or "g.summary() lists the ops of the graph",
        )
    name = made.name
    if (
        name is not None
        and not fnmatch.filter(names, name)
        and not any(name.startswith(n + "/") for n in names)  # a node inside a composite
    ):
        raise GraphError(f"no node is called {made.name!r}", hint="a pattern such as 'hidden/*'")
    return made
