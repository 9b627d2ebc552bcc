"""Breakpoints: where and on what values a stepper stops."""

from __future__ import annotations

import difflib
import fnmatch
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import GradwrightError, GraphError
from ...graph import Node, SubGraph
from ...spec import TensorSpec, kind
from ..address import parts, specs_of
from .expression import Expression
from .frame import Frame
from .levels import check_turns


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

    @property
    def asks_for_turns(self) -> bool:
        """Whether only a path with its turns tells what fits: a regular expression reads it all."""
        return self.regex is not None and ":" in self.regex.pattern

    def __post_init__(self) -> None:
        self._name = None if self.name is None else _pattern(self.name, _translated)
        scope = None if self.scope is None else self.scope.rstrip("/")
        self._scope = None if scope is None else _pattern(scope, re.escape, "([/:].*)?")

    def fits_place(self, node: Node, path: str) -> bool:
        """Tell whether the node is one of those meant; a path without a turn stands for all."""
        return (
            self.enabled
            and (self._name is None or self._name.fullmatch(path) is not None)
            and (self.op is None or node.op.name == self.op)
            and (self._scope is None or self._scope.fullmatch(path) is not None)
            and (self.regex is None or self.regex.search(path) is not None)
        )

    def points_into(self, node: Node, path: str) -> bool:
        """Tell, cheaply, whether a node inside this one may be meant and this one is not."""
        below = _anywhere(f"{path}:")
        for pattern in (self.name, self.scope):
            literal = "" if pattern is None else re.split(r"[*?\[]", pattern, maxsplit=1)[0]
            known = _anywhere(literal)
            if not known.startswith(below[: len(known)]):
                return False
        return self.enabled and not self.fits_place(node, path)

    def fits_spec(self, spec: TensorSpec) -> bool:
        """Tell whether a value of this spec can fulfil the condition."""
        numbers = kind(spec.dtype) in "iufc"
        return (
            not self.is_conditional
            or self.when is not None
            or (self.above is not None and numbers)
            or ((self.nan or self.inf) and kind(spec.dtype) in "fc")
        )

    def fits_value(self, value: Any, tensors: Mapping[str, Any] | None) -> bool:
        """Tell whether the value fulfils the condition; None where tensors are not known yet.

        An expression that cannot be computed on this value does not hold.
        """
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
        if self.when is None or tensors is None:
            return False
        try:
            return bool(np.any(self.when.evaluate(tensors, array)))
        except GraphError:
            return False

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


def _pattern(text: str, literal: Callable[[str], str], rest: str = "") -> re.Pattern[str]:
    """Return a pattern of addresses; ``::`` fits any turn, and a turn fits a path without one."""
    parts = [literal(part) for part in text.split(":")]
    parts[1::2] = [f"(?:{p})?" if p.isdecimal() else p or "[a-z0-9]*" for p in parts[1::2]]
    return re.compile(":".join(parts) + rest, re.DOTALL)


def _translated(glob: str) -> str:
    return fnmatch.translate(glob).removeprefix("(?s:").rpartition(")")[0]


def _anywhere(path: str) -> str:
    """Return a path without turns and branches."""
    parts = path.split(":")
    parts[1::2] = [""] * (len(parts) // 2)
    return ":".join(parts)


def fits_within(breakpoints: Sequence[Breakpoint], inner: SubGraph, prefix: str) -> bool:
    """Tell whether a breakpoint fits a node of a sub-graph, or one inside of it at any depth."""
    for node in inner.nodes:
        if node.kind != "array":
            continue
        path = prefix + node.name
        if any(b.fits_place(node, path) for b in breakpoints):
            return True
        inward = [b for b in breakpoints if b.points_into(node, path)]
        if inward and any(fits_within(inward, sub, f"{path}{part}") for part, sub in held(node)):
            return True
    return False


def held(node: Node) -> list[tuple[str, SubGraph]]:
    """Return what may run inside of a node, by what parts its path from that of what is inside."""
    return [(f":{part}:", sub) for part, sub in parts(node.op, specs_of(node)).items()]


def make_breakpoint(
    number: int, frame: Frame, specs: Mapping[str, TensorSpec], **options: Any
) -> Breakpoint:
    """Return a breakpoint, refusing one that fits nothing in a frame or inside of its nodes.

    ``specs`` are those of the tensors that its condition reads.
    """
    regex = options.pop("regex", None)
    if all(v in (None, False) for v in (*options.values(), regex)):
        raise GraphError("a breakpoint needs a place or a condition", hint='break_at(op="matmul")')
    try:
        pattern = None if regex is None else re.compile(regex)
    except (re.error, RecursionError, OverflowError) as error:
        raise GraphError(f"{regex[:80]!r} is not a regular expression: {error}") from None
    made = Breakpoint(
        number,
        regex=pattern,
        **options,
    )
    if made.above is not None and not made.above < math.inf:
        raise GraphError(f"no value is above {made.above}", need="above= a finite number")
    search = _Search(made, frame, specs)
    if not search.fits:
        raise search.error()
    for place in (made.name, made.scope):
        check_turns(place or "", frame)
    return made


class _Search:
    """Looks for a node that a breakpoint may stop at, inside of nodes too."""

    def __init__(self, made: Breakpoint, frame: Frame, specs: Mapping[str, TensorSpec]) -> None:
        self.made, self.frame, self.specs = made, frame, specs
        self.names: set[str] = set()
        self.ops: set[str] = set()
        self.placed: list[Node] = []
        """Nodes at the place whose values cannot fulfil the condition."""
        self.refusal: GraphError | None = None
        """Why the condition cannot be computed there."""
        self._opened: set[int] = set()
        self.fits = any(self._may_fit(node, node.name) for node in frame.steps)

    def _may_fit(self, node: Node, path: str) -> bool:
        self.names.add(path)
        self.ops.add(node.op.name)
        if self.made.fits_place(node, path):
            if any(self._may_hold(self.frame.spec(t)) for t in node.public):
                return True
            self.placed.append(node)
        told = self.made.asks_for_turns
        if not (told or self.made.points_into(node, path)):
            return False
        try:
            inside = held(node)
        except GradwrightError:  # sizes decide what it stands for: a run will tell
            return True
        if inside and told:
            return True
        if not (self.made.name or self.made.scope or self.made.regex):  # where does not matter
            inside = [(part, sub) for part, sub in inside if id(sub) not in self._opened]
            self._opened.update(id(sub) for _, sub in inside)
        return any(
            self._may_fit(inner, f"{path}{part}{inner.name}")
            for part, sub in inside
            for inner in sub.nodes
            if inner.kind == "array"
        )

    def _may_hold(self, spec: TensorSpec) -> bool:
        if self.made.when is not None:
            try:
                self.made.when.tried(self.specs, spec)
            except GraphError as error:
                self.refusal = error
                return False
        return self.made.fits_spec(spec)

    def error(self) -> GraphError:
        """Say why nothing fits, and what comes near."""
        made = self.made
        if self.refusal is not None:
            return self.refusal
        if self.placed:
            node = self.placed[0]
            return GraphError(
                f"{node.op.name} {node.name!r} is {node.public[0].spec}, which never is "
                f"{str(made).rpartition(' when ')[2]}",
                need="a node of floating numbers" if made.nan or made.inf else "a node of numbers",
            )
        if made.op is not None and made.op not in self.ops:
            close = difflib.get_close_matches(made.op, sorted(self.ops), 3)
            return GraphError(
                f"no node has the op {made.op!r}",
                facts=["neither what runs here nor what is inside of it"],
                hint=" or ".join(map(repr, close)) or "g.summary() lists the ops of the graph",
            )
        text = made.name or made.scope
        if text is None:
            return GraphError(f"no node fits {made}", facts=[f"such as {min(self.names)!r}"])
        what = "no node is called" if made.name is not None else "no node is in the scope"
        if made.op is not None or made.regex is not None:
            return GraphError(f"no node fits {str(made).partition(' ')[2]}")
        close = difflib.get_close_matches(text, sorted(self.names), 3)
        return GraphError(
            f"{what} {text!r}", hint=" or ".join(map(repr, close)) or "a pattern such as 'hidden/*'"
        )
