"""Which op is wrong: every node's vjp is held against its own forward, at the values of one run.

It needs no other node, so an error is found where it is made, not where it arrives.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ..address import Address
from .local import InputCheck


class WrongTurns(NamedTuple):
    """In how many turns of a loop a node is at fault, of those that were looked at."""

    wrong: int
    looked_at: int
    all: bool
    """Whether these are all turns."""

    def __str__(self) -> str:
        return f"in {self.wrong} of {'' if self.all else 'the first '}{self.looked_at} turns"


@dataclass(frozen=True, repr=False)
class NodeCheck:
    """What the check of one node found.

    ``verdict`` is ``ok``, ``kink`` (not differentiable here, the vjp is one of the slopes),
    ``surrogate`` (right by the gradient that is declared, which is not that of the op),
    ``unclear``, ``fail``, or ``none`` where there is nothing to check. ``inner`` holds the nodes at
    fault inside of it; of a loop, those of the first turn that has one.
    """

    address: Address
    op: str
    where: str
    verdict: str
    reason: str = ""
    inputs: tuple[InputCheck, ...] = ()
    inner: tuple[NodeCheck, ...] = ()
    seconds: float = field(default=0.0, compare=False)
    """How long the check took."""
    turns: WrongTurns | None = None
    """Of a node at fault in a loop, how many turns that is so in."""

    @property
    def name(self) -> str:
        """The node's name, without what it is inside of."""
        return self.address.node

    def faults(self) -> list[NodeCheck]:
        """Return the innermost nodes at fault: those inside where there are any, else this one."""
        if self.verdict != "fail":
            return []
        inside = [(fault, node) for node in self.inner for fault in node.faults()]
        return [replace(f, turns=f.turns or node.turns) for f, node in inside] or [self]

    @property
    def relative_error(self) -> float:
        """The largest relative error of the inputs' cotangents; NaN counts as infinite."""
        errors = [i.comparison.relative_error for i in self.inputs]
        return max((float("inf") if e != e else e for e in errors), default=0.0)

    def __repr__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        return f"<{self.op} {str(self.address)!r} {self.verdict}{reason}>"
