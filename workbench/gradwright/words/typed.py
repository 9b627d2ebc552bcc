"""Typed: the call that the user is making, as it stands in the source of that line."""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..errors import user_frame


@dataclass(frozen=True)
class Typed:
    """A call, or a mere name: ``x.gather(1, i)`` is ``gather`` of ``x`` with two arguments.

    ``later`` are the arguments of what is called once more, as a layer of torch is. ``named`` has
    ``**options``, too, under the name "**0", which no keyword has.
    """

    owner: ast.expr | None
    name: str
    args: tuple[ast.expr, ...] | None = None
    named: Mapping[str, ast.expr] = field(default_factory=dict)
    later: tuple[ast.expr, ...] = ()

    @property
    def expression(self) -> ast.expr:
        """The call, or the name, as an expression."""
        of = ast.Name(self.name) if self.owner is None else ast.Attribute(self.owner, self.name)
        if self.args is None:
            return of
        named = [
            ast.keyword(None if name.startswith("**") else name, value)
            for name, value in self.named.items()
        ]
        return ast.Call(of, list(self.args), named)

    @property
    def text(self) -> str:
        """The call, or the name, on one line."""
        return ast.unparse(self.expression)


def typed(name: str = "", *, whole: bool = False) -> Typed | None:
    """Return what the user's line takes as ``name``, or calls; None where there is no source.

    ``whole`` goes on to the last name: to ``StepLR`` of ``optim.lr_scheduler.StepLR``.
    """
    frame = user_frame()
    if frame is None:
        return None
    at = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)
    nodes, above = _tree("".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals)))
    around = [node for node in nodes if at is not None and _is_around(node, at)]
    if not around:
        return None
    node = min(around, key=lambda n: (n.end_lineno - n.lineno, n.end_col_offset - n.col_offset))  # type: ignore[operator]
    taken = node.func if isinstance(node, ast.Call) else node
    if not isinstance(taken, ast.Attribute | ast.Name) or name not in ("", _last(taken)):
        return None
    while whole and isinstance(outer := above[taken], ast.Attribute):
        taken = outer
    made = Typed(taken.value if isinstance(taken, ast.Attribute) else None, _last(taken))
    call = above[taken]
    if not (isinstance(call, ast.Call) and call.func is taken):
        return made
    again = above[call]
    named = {k.arg or f"**{n}": k.value for n, k in enumerate(call.keywords)}
    later = again.args if isinstance(again, ast.Call) and again.func is call else ()
    return replace(made, args=tuple(call.args), named=named, later=tuple(later))


def _last(taken: ast.Attribute | ast.Name) -> str:
    return taken.attr if isinstance(taken, ast.Attribute) else taken.id


def _is_around(node: ast.expr, at: tuple[int | None, ...]) -> bool:
    """Tell whether an instruction, of lines and columns in bytes, is part of a node."""
    first, last, start, end = at
    if first is None or last is None or start is None or end is None:  # python -X no_debug_ranges
        return False
    ends = node.end_lineno or 0, node.end_col_offset or 0
    return (node.lineno, node.col_offset) <= (first, start) and (last, end) <= ends


@functools.lru_cache(maxsize=4)
def _tree(source: str) -> tuple[list[ast.Attribute | ast.Call], Mapping[ast.AST, ast.AST]]:
    """Return the attributes and calls of a file or cell, and what each node is part of."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):  # no source, or another than what runs
        return [], {}
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    return [node for node in above if isinstance(node, ast.Attribute | ast.Call)], above
