"""Where a NaN or Inf comes from: the first node that makes one out of finite inputs.

What is found in a loop, a branch, a call or a composite is looked for inside of it, down to the
node, and in the turn, that makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...graph import Node, Tensor
from ...op import Op
from ...spec import BOXED
from ...spec.containers import contents
from ..address import Address, Level
from ..inside import NO_EDITS, Edits, Met, has_inside, opened

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Range:
    """What a tensor holds: extremes of its finite elements, and how many are NaN or Inf."""

    name: str
    low: float
    high: float
    n_nan: int
    n_inf: int
    size: int

    @staticmethod
    def of(name: str, array: Array) -> Range:
        """Measure an array; of a sequence or an optional, all its items."""
        values = _numbers(array)
        finite = values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (np.nan, np.nan)
        return Range(
            name, low, high, int(np.isnan(values).sum()), int(np.isinf(values).sum()), values.size
        )

    @property
    def is_finite(self) -> bool:
        """Whether there is neither NaN nor Inf."""
        return not (self.n_nan or self.n_inf)

    def __str__(self) -> str:
        bad = ", ".join(
            f"{n} {label}" for n, label in ((self.n_nan, "NaN"), (self.n_inf, "Inf")) if n
        )
        if not self.size:
            return f"{self.name}: no element"
        span = f"[{self.low:.4g}, {self.high:.4g}]" if self.low == self.low else "nothing finite"
        return f"{self.name}: {span}" + (f", {bad} of {self.size}" if bad else "")


@dataclass(frozen=True)
class Origin:
    """The node a non-finite value starts at, the ranges around it, and its way to the fetches."""

    node: Node
    direction: str
    """``forward``, ``backward``, or ``source`` for a feed or a stored value."""
    inputs: tuple[Range, ...]
    outputs: tuple[Range, ...]
    chain: tuple[str, ...]
    """Addresses of the nodes from the origin to the fetch it spoils first."""
    address: Address
    """Where the node is: inside of what, in which turn."""
    where: str = ""
    """The user's line: the node's own, or of what it is inside of."""
    of: str = ""
    """Address of the forward node whose gradient the node belongs to."""

    @property
    def turn(self) -> int | None:
        """The turn of the innermost loop around the node."""
        return self.address.turn

    def __repr__(self) -> str:
        where = f" ({self.where})" if self.where else ""
        return f"<Origin {self.direction}: {self.node.op.name} {str(self.address)!r}{where}>"

    def __str__(self) -> str:
        of = f" (gradient of {self.of!r})" if self.of else ""
        where = f", {self.where}" if self.where else ""
        lines = [
            f"{self.direction}: {self.node.op.name} {str(self.address)!r}{of}{where}",
            *(f"  in   {r}" for r in self.inputs),
            *(f"  out  {r}" for r in self.outputs),
            "  way  " + " → ".join(self.chain),
        ]
        return "\n".join(lines)


class Ran(NamedTuple):
    """A graph as it ran: what the search for an origin needs to know of it."""

    nodes: Sequence[Node]
    """Without sources, inputs first."""
    value: Callable[[Tensor], Array]
    op: Callable[[Node], Op]
    """The op of a node with mode and sizes settled."""
    fetches: Sequence[Tensor]
    training: bool
    edits: Edits = NO_EDITS
    """What was set by hand inside of nodes."""


def find_origin(ran: Ran) -> Origin | None:
    """Return the first node that makes something non-finite out of finite inputs, or None.

    An Inf in a feed or a constant may be meant: a mask adds -∞ before a softmax. What it spoils is
    excused as long as no NaN comes of it and it reaches no fetch.
    """
    spoiled: set[Tensor] = set()
    excused: dict[Tensor, Tensor] = {}  # by tensor that holds Inf, where the Inf came from
    for t in _sources(ran.nodes):
        array = ran.value(t)
        if not is_finite(array):
            if t.kind == "variable" or _has_nan(array):
                return _origin(ran, t.node, "source")
            excused[t] = t
    for node in ran.nodes:
        bad = [t for t in node.outputs if not is_finite(ran.value(t))]
        if not bad:
            continue
        given = [t for t in node.inputs if t is not None]
        meant = next((excused[t] for t in given if t in excused), None)
        if meant is not None and not any(_has_nan(ran.value(t)) for t in bad):
            excused.update(dict.fromkeys(bad, meant))
        elif not any(t in spoiled for t in given):
            return _origin(ran, node, "backward" if node.derived else "forward")
        else:
            spoiled.update(bad)
    reached = next((excused[t] for t in ran.fetches if t in excused), None)
    return None if reached is None else _origin(ran, reached.node, "source")


def _sources(nodes: Sequence[Node]) -> list[Tensor]:
    made = set(nodes)
    found = {t: None for n in nodes for t in n.inputs if t is not None}
    return [t for t in found if t.node not in made]


def is_finite(array: Array) -> bool:
    """Tell whether there is neither NaN nor Inf, in the items of a sequence or an optional too."""
    if array.dtype.kind in "fc":
        return bool(np.isfinite(array).all())
    return array.dtype.kind not in "OV" or bool(np.isfinite(_numbers(array)).all())


def _has_nan(array: Array) -> bool:
    return array.dtype.kind in "fcVO" and bool(np.isnan(_numbers(array)).any())


def _numbers(array: Array) -> Array:
    """Return all that an array holds as float64: moduli of complex numbers, nothing of text."""
    if array.dtype == BOXED:
        items = [_numbers(item).ravel() for item in contents(array).items]
        return np.concatenate([np.empty(0), *items])
    if array.dtype.kind == "T":
        return np.empty(0)
    return np.asarray(np.abs(array) if array.dtype.kind == "c" else array, np.float64)


# -- inside ----------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """A node inside that makes something non-finite, as it ran."""

    met: Met
    around: tuple[Node, ...]
    """The nodes around it, innermost first, without the outermost."""
    way: tuple[str, ...]
    """Addresses of the nodes from it to what the outermost returns."""


def _inside(op: Op, xs: Sequence[Array | None], at: Address, ran: Ran) -> _Place | None:
    """Return the first node inside whose NaN or Inf reaches what a node, or a turn, returns.

    What comes in is finite, or holds infinities that are meant.
    """
    if not has_inside(op):
        return None
    for level in opened(op, xs, at, training=ran.training, edits=ran.edits):
        causes: dict[Tensor, Met] = {}
        for met in level:
            bad = [t for t in met.node.outputs if not is_finite(level.env[t])]
            if not bad:
                continue
            given = [t for t in met.node.inputs if t is not None]
            cause = next((causes[t] for t in given if t in causes), None)
            if cause is None:
                holds = any(not is_finite(level.env[t]) for t in given)
                if holds and not any(_has_nan(level.env[t]) for t in bad):
                    continue  # an infinity that came in
            causes.update(dict.fromkeys(bad, cause or met))
        returned = {causes[t].address for t in level.sub.outputs if t in causes}
        first = next((met for met in causes.values() if met.address in returned), None)
        if first is not None:
            way = _way(first.node, level.sub.nodes, level.sub.outputs)
            told = tuple(str(at.into(name, level.part)) for name in way)
            deeper = _inside(first.op, first.inputs, first.address, ran)
            if deeper is None:
                return _Place(first, (), told)
            return _Place(deeper.met, (*deeper.around, first.node), (*deeper.way, *told))
    return None


def _origin(ran: Ran, node: Node, direction: str) -> Origin:
    at = Address(node.name)
    place = None
    if direction != "source":
        xs = [None if t is None else ran.value(t) for t in node.inputs]
        place = _inside(ran.op(node), xs, at, ran)
    outer = _way(node, ran.nodes, ran.fetches)
    if place is None:
        inputs = [(t.name, ran.value(t)) for t in node.inputs if t is not None]
        outputs = [(t.name, ran.value(t)) for t in node.outputs]
        trail, chain = [node], outer
    else:
        at, inner = place.met.address, place.met.node
        pairs = zip(inner.inputs, place.met.inputs, strict=True)
        inputs = [(t.name, x) for t, x in pairs if t is not None and x is not None]
        outputs = [(t.name, y) for t, y in zip(inner.outputs, place.met.outputs, strict=True)]
        trail, chain = [inner, *place.around, node], [*place.way, *outer]
    return Origin(
        trail[0],
        direction,
        tuple(Range.of(name, x) for name, x in inputs),
        tuple(Range.of(name, y) for name, y in outputs),
        tuple(chain),
        at,
        next((n.where for n in trail if n.where), ""),
        _forward(at, trail) if node.derived else "",
    )


def _forward(at: Address, trail: Sequence[Node]) -> str:
    """Return the address of what a node is the gradient of: that of all that is around, too.

    The turns of a loop's gradient have the numbers of the loop's own.
    """
    *outer, name = [n.name if n.origin is None else n.origin.name for n in reversed(trail)]
    levels = [(around, part) for around, (_, part) in zip(outer, at.levels, strict=True)]
    return str(Address(name, tuple(Level(*level) for level in levels)))


def _way(start: Node, nodes: Collection[Node], ends: Sequence[Tensor]) -> list[str]:
    """Return the names of the nodes on a shortest path from ``start`` to one of ``ends``."""
    before: dict[Node, Node | None] = {start: None}
    goals, known = {t.node for t in ends}, set(nodes)
    queue = [start]
    for node in queue:
        if node in goals:
            path: list[str] = []
            at: Node | None = node
            while at is not None:
                path.append(at.name)
                at = before[at]
            return path[::-1]
        for t in node.outputs:
            for user in t.uses:
                if user in known and user not in before:
                    before[user] = node
                    queue.append(user)
    return [start.name]
