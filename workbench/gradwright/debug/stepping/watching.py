"""Watching: breakpoints and watches, which look at values where a stepper stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import GraphError
from ...graph import Graph, Node, Tensor, read_only
from ...ops.control.loop_op import LoopOp
from ..arguments import BOUND, FLAG, MOST, NAME, TEXT, Kind
from ..inside import Inside, has_inside
from .breakpoints import Breakpoint, fits_within, make_breakpoint
from .expression import Expression
from .frame import Frame
from .levels import Levels
from .turns import changes

_REGEX = Kind(
    "a regular expression, or None",
    lambda value: NAME.fits(getattr(value, "pattern", value)),
)
_CLEARED = Kind(
    "a breakpoint, the number of one, or None",
    lambda value: MOST.fits(getattr(value, "number", value)),
)
_WATCHING = Kind("a stepper", lambda value: isinstance(value, Watching))


class Watching(Levels):
    """Levels with breakpoints, which say where a run stops, and with watches."""

    def __init__(self, graph: Graph, fetches: list[Tensor], frame: Frame) -> None:
        super().__init__(graph, fetches, frame)
        self.breakpoints: list[Breakpoint] = []
        self._watches: dict[str, Expression] = {}
        self._numbers = 0

    # -- breakpoints -----------------------------------------------------------------------------

    @changes
    def break_at(
        self,
        name: str | None = None,
        *,
        op: str | None = None,
        scope: str | None = None,
        regex: str | re.Pattern[str] | None = None,
        nan: bool = False,
        inf: bool = False,
        above: float | None = None,
        when: str | Expression | None = None,
    ) -> Breakpoint:
        """Stop where all given places fit and, if conditions are given, one of them holds.

        ``name`` is a pattern such as ``"hidden/*"``; ``above`` bounds |max|; ``when`` is an
        expression such as ``"abs(value).mean() > 3"`` (see :class:`Expression`). An address such as
        ``"scan:3:mul"`` is in turn 3 of a loop, ``"scan::mul"`` in all turns.

        Raises GraphError for a breakpoint that nothing can fit that runs here.
        """
        NAME.check(name=name, op=op, scope=scope)
        _REGEX.check(regex=regex)
        FLAG.check(nan=nan, inf=inf)
        BOUND.check(above=above)
        parsed = when if when is None or isinstance(when, Expression) else Expression(when)
        made = make_breakpoint(
            self._numbers + 1,
            self._frames[0],
            {name: self.spec(name) for name in parsed.tensors} if parsed is not None else {},
            name=name,
            op=op,
            scope=scope,
            regex=regex,
            nan=nan,
            inf=inf,
            above=above,
            when=parsed,
        )
        self._numbers += 1
        self.breakpoints.append(made)
        return made

    @changes
    def clear(self, breakpoint: Breakpoint | int | None = None) -> None:
        """Remove one breakpoint, or all."""
        _CLEARED.check(breakpoint=breakpoint)
        number = breakpoint.number if isinstance(breakpoint, Breakpoint) else breakpoint
        self.breakpoints = [b for b in self.breakpoints if number not in (None, b.number)]

    def _here(self, node: Node) -> list[Breakpoint]:
        path = self.frame.path(node)
        return [b for b in self.breakpoints if b.fits_place(node, path)]

    def _stops_inside(self, node: Node) -> Inside | None:
        """Return what the next node stands for, if a breakpoint fits in there."""
        path = self.frame.path(node)
        inward = [b for b in self.breakpoints if b.points_into(node, path)]
        if not inward or not has_inside(node.op):
            return None
        inside = self._inside(node)
        part = "" if isinstance(inside.op, LoopOp) or inside.part is None else inside.part
        if inside.sub is None:
            return None
        fits = any(b.asks_for_turns for b in inward)
        return inside if fits or fits_within(inward, inside.sub, f"{path}:{part}:") else None

    def _fits(self, b: Breakpoint, node: Node) -> bool:
        known = b.when is None or all(map(self.is_known, b.when.tensors))
        tensors = _Lookup(self) if known else None
        return any(b.fits_value(read_only(self.frame.value(t)), tensors) for t in node.public)

    # -- watches ---------------------------------------------------------------------------------

    @changes
    def watch(self, expression: str) -> Expression:
        """Add an expression to ``watches()``.

        Raises GraphError for one that can have no value here, whatever runs.
        """
        parsed = Expression(expression)
        if parsed.reads_value:
            raise GraphError(f"{expression!r}: a watch has no value of a node", hint='t["name"]')
        parsed.tried({name: self.spec(name) for name in parsed.tensors})
        self._watches[expression] = parsed
        return parsed

    @changes
    def unwatch(self, expression: str) -> None:
        """Remove a watch."""
        TEXT.check(expression=expression)
        self._watches.pop(expression, None)

    @property
    def watched(self) -> list[str]:
        """The expressions that are watched."""
        return list(self._watches)

    def watches(self) -> dict[str, Any]:
        """Return the value of every watch here; None where something is not computed yet."""
        return {text: self.evaluate(parsed) for text, parsed in self._watches.items()}

    def evaluate(self, expression: str | Expression) -> Any:
        """Return an expression's value here, or None while a tensor in it is not computed yet."""
        parsed = expression if isinstance(expression, Expression) else Expression(expression)
        if not all(map(self.is_known, parsed.tensors)):
            return None
        return parsed.evaluate(_Lookup(self))

    def adopt(self, other: Watching) -> None:
        """Take over the breakpoints and watches of another stepper of this graph."""
        _WATCHING.check(other=other)
        self.breakpoints, self._numbers = list(other.breakpoints), other._numbers
        self._watches = dict(other._watches)


class _Lookup(Mapping[str, Any]):
    """Tensors by name, computed when asked."""

    def __init__(self, levels: Levels) -> None:
        self._levels = levels

    def __getitem__(self, name: str) -> Any:
        return self._levels.value(name)

    def __iter__(self) -> Iterator[str]:
        return (n.name for n in self._levels.nodes())

    def __len__(self) -> int:
        return len(self._levels.nodes())
