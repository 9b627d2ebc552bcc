"""The log of rewrites: which rule changed what and for which nodes, and the program around it."""

from __future__ import annotations

import collections
import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ..graph import Node
from ..op import Op
from ..spec import TensorSpec

if TYPE_CHECKING:
    from .program import Instr

SHOWN = 60
"""How many entries and program lines a text shows."""


class Line(NamedTuple):
    """An instruction as it was at some time: rendered when it is looked at."""

    op: Op
    ins: tuple[int | None, ...]
    outs: tuple[int, ...]
    origins: tuple[Node, ...]
    path: str
    specs: Sequence[TensorSpec]

    def __str__(self) -> str:
        outs = ", ".join(f"%{o}: {self.specs[o]}" for o in self.outs)
        ins = ["-" if i is None else f"%{i}" for i in self.ins]
        attrs = [f"{k}={v!r}" for k, v in self.op.attributes().items()]
        return f"{outs} = {self.op.name}({', '.join(ins + attrs)})"

    def __repr__(self) -> str:
        return str(self)


def lines(instrs: Iterable[Instr], specs: Sequence[TensorSpec]) -> tuple[Line, ...]:
    """Return instructions as they are now."""
    new = tuple.__new__  # a named tuple's own takes three times as long
    return tuple([new(Line, (i.op, i.ins, i.outs, i.origins, i.path, specs)) for i in instrs])


@dataclass(frozen=True)
class Entry:
    """One change: what a rule took out, and what it put there (nothing: a value that was there)."""

    rule: str
    before: tuple[Line, ...]
    after: tuple[Line, ...]
    becomes: tuple[int, ...] = ()
    """The values that readers of the first instruction's results read now."""

    @property
    def origins(self) -> tuple[Node, ...]:
        """The nodes of the graph that were concerned."""
        return tuple(dict.fromkeys(n for line in self.before for n in line.origins))

    def __str__(self) -> str:
        made = [str(line) for line in self.after] or [
            f"%{old} is %{new}" for old, new in zip(self.before[0].outs, self.becomes, strict=False)
        ]
        rows = [f"  - {line}" for line in self.before] + [f"  + {text}" for text in made]
        nodes = [f"{n.name!r} ({n.where})" if n.where else repr(n.name) for n in self.origins[:4]]
        more = len(self.origins) - len(nodes)
        rows.append(f"    for {', '.join(nodes)}{f' and {more} more' if more else ''}")
        return "\n".join([self.rule, *rows])

    __repr__ = __str__


@dataclass
class RewriteLog:
    """What rewrites did to a program.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (3,))
    >>> log = gw.Session(g).plan(-(-x) * 1.0, {"x": (3,)}).program.log
    >>> log.counts
    {'neg_neg': 1, 'mul_one': 1}
    >>> [line.op.name for line in log.before], log.after
    (['neg', 'neg', 'mul'], ())
    >>> log.entries[1].becomes, log.entries[1].origins[0].name
    ((0,), 'mul')
    """

    entries: list[Entry] = field(default_factory=list)
    before: tuple[Line, ...] = ()
    """The program as it came from the graph."""
    after: tuple[Line, ...] = ()
    """The program that runs."""

    @property
    def counts(self) -> dict[str, int]:
        """How often each rule changed something; those that never did are missing."""
        return dict(collections.Counter(entry.rule for entry in self.entries))

    def by_rule(self, name: str) -> list[Entry]:
        """Return the entries of one rule."""
        return [entry for entry in self.entries if entry.rule == name]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __str__(self) -> str:
        counts = ", ".join(f"{name} {n}" for name, n in self.counts.items()) or "nothing"
        head = f"{len(self.before)} instructions became {len(self.after)}: {counts}"
        return "\n".join([head, *_first(self.entries)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        def block(title: str, items: Sequence[Any]) -> str:
            text = html.escape("\n".join(_first(items)))
            return f"<details><summary>{html.escape(title)}</summary><pre>{text}</pre></details>"

        rows = "".join(block(f"{name}: {n}", self.by_rule(name)) for name, n in self.counts.items())
        return (
            f"<div><p>{len(self.before)} instructions became {len(self.after)}</p>{rows}"
            f"{block('before', self.before)}{block('after', self.after)}</div>"
        )


def _first(items: Sequence[Any]) -> list[str]:
    shown = [str(item) for item in items[:SHOWN]]
    return [*shown, f"... and {len(items) - SHOWN} more"] if len(items) > SHOWN else shown
