"""Watch: the gradients of a training, looked at in turn, one node or one element at a time.

A *round* takes one moment of the training: the values as they are, and some rows of its batch. It
computes the loss in float64, node by node; on the way those nodes whose turn it is are looked at,
each one's vjp beside differences of its own forward, as :func:`gradient_check` does, and in every
round some that hold ops of the user's. When all nodes have had their turn, a round looks at
elements of one parameter, too: the graph's gradient beside differences of the loss. Whoever drives
it rests between any two of these.

Nobody is accused on one look. A node that fails is looked at again, with another cotangent along
another direction, and once more beside these values. An element that fails has to fail at two other
moments, with other rows, after all nodes have been found right. What the compiled plan makes of a
node is only told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...errors import GradwrightError
from ...graph import Node, Tensor
from ...op import Op, run_forward
from ..address import Address
from ..check.blame import NodeCheck
from ..check.judging import Comparison
from ..check.local import LocalCheck
from ..check.nodes import check_node
from ..check.probe import ElementCheck
from ..inside import has_inside
from .compiled import Compiled
from .elements import Elements
from .glance import glance, shortened
from .points import Alarm, Point, point
from .program import Program, Sight, narrowed
from .seen import Seen
from .turns import Deck

Array = np.ndarray[Any, Any]

ROWS = 3
"""Rows of a batch that are looked at: rules do not know how many there are. In a batch norm of two
every number is 1 or -1."""
SPARSE = 512
"""Elements of an input that move at once: a mistake in all of them shows in any."""
HAND = 8
"""The least number of nodes that a round looks at; else a quarter of them, so that values are no
older than a quarter of a turn."""
FAILS = 3
"""Moments at which an element has to fail: of a loss of 1e-8, one look in ten thousand is misled by
its roundings, and the values of a training that has ended stay much as they are."""
ELEMENTS = 2
"""Elements of a parameter that a round looks at, beside one direction."""
BESIDE = 1e-3
"""Where the third look is, relative to each number."""


@dataclass
class Counts:
    """What a watch has done."""

    nodes: int = 0
    elements: int = 0


class Watch:
    """Looks at gradients in turn, and keeps what it sees; it knows no trainer.

    ``work`` does it: an iterator that is to be advanced when there is time, and rests after each
    piece. It yields the point that was found, if one was.
    """

    def __init__(self, *, rtol: float = 1e-5, seed: int = 0, precision: bool = False) -> None:
        self.rtol = rtol
        self.seen = Seen()
        self.counts = Counts()
        self.is_urgent = False
        """Whether what comes next cannot wait: a rule that has changed, or a second look."""
        self._rng = np.random.default_rng(seed)
        self._nodes, self._parameters = Deck(self._rng), Deck(self._rng)
        self._own = Deck(self._rng)  # nodes with ops of the user's, which are the likeliest
        self._program: Program | None = None
        self._suspects: dict[tuple[str, Any], tuple[int, int]] = {}
        """Elements that have failed: at how many moments, and how often all nodes had had their
        turn by the latest."""
        self._accused: set[str] = set()
        """What is at fault as far as was last seen: nodes and parameters."""
        self._rows: int | None = ROWS
        self._compiled = Compiled(self._rng) if precision else None

    @property
    def rounds(self) -> int:
        """How often all nodes have had their turn."""
        return self._nodes.rounds

    def go_on_from(self, seen: Seen) -> None:
        """Take over what an earlier watch has seen; what it accused is not accused again."""
        self.seen = seen
        self._accused.update(name for alarm in seen.alarms for name in alarm.nodes)

    def work(self, look: Callable[[], Sight]) -> Iterator[Point | None]:
        """Go on for ever; ``look`` gives the moment at which a round begins."""
        self.is_urgent = False
        if self._program is not None and (changed := self._program.changed()):
            yield from self._changed(changed, look().step)
        while True:
            yield None
            now = look()
            if self._program is None or not self._program.fits(now):
                self._program = Program(now.loss, now.parameters)
            yield from self._round(self._program, now)

    def _changed(self, changed: list[tuple[Node, Op]], step: int) -> Iterator[Point | None]:
        """Look at rules that were defined anew, at the values that were seen last."""
        assert self._program is not None
        self.is_urgent = True
        for copy, op in changed:
            xs, _ = self._program.arrays(copy)
            ys = list(run_forward(op, xs, training=True))
            yield from self._look(copy, op, xs, ys, step, self._program.asked(copy))
            self.is_urgent = True
        self.is_urgent = False
        self._nodes.again([copy.name for copy, _ in changed])

    def _round(self, program: Program, now: Sight) -> Iterator[Point | None]:
        """Look at some nodes, and at a parameter when all of them have had their turn."""
        before = self._nodes.rounds
        names, hand = list(program.nodes), set[str]()
        if program.is_whole:  # before, whoever defines an op anew would wait for it
            hand.update(self._nodes.deal(names, max(HAND, -(-len(names) // 4))))
            hand.update(self._own.deal(program.own, HAND))
        feeds = now.feeds
        if self._rows is not None:
            feeds = narrowed(feeds, self._rows, int(self._rng.integers(1 << 30)))
        whole = self._nodes.rounds > before
        try:
            for copy in program.compute(now, feeds):
                yield None
                if copy.name in hand:
                    xs, ys = program.arrays(copy)
                    asked = program.asked(copy)
                    yield from self._look(copy, copy.op, xs, ys, now.step, asked)
                    hand.discard(copy.name)
                    if not (hand or whole):
                        return
        except (GradwrightError, ValueError):
            if self._rows is None:
                raise
            self._rows = None  # not every graph takes some rows of a batch alone
            return
        for name in hand:  # copied under no name of its own, such as a feed
            self._nodes.done(name)
        if whole and math.isfinite(program.value()):
            yield from self._parameter(program, now)
            if self._compiled is not None:
                for found in self._compiled.look(program, now, feeds):
                    yield None if found is None else self._seen(found)

    # -- nodes -----------------------------------------------------------------------------------

    def _look(
        self,
        copy: Node,
        op: Op,
        xs: list[Array | None],
        ys: list[Array],
        step: int,
        asked: Mapping[str, list[int]],
    ) -> Iterator[Point | None]:
        """Look at a node; at one that fails, twice more."""
        self._nodes.done(copy.name)
        self._own.done(copy.name)
        op, xs, ys = shortened(op, xs, ys, self._rng)
        if not all(_is_number(a) for a in (*xs, *ys)):
            yield self._seen(Point(step, copy.name, "node", math.inf, math.inf, "unclear"))
            return
        self.counts.nodes += 1
        options: Any = {"training": True, "rtol": self.rtol, **asked}
        check = LocalCheck(op, xs, ys, self._rng, most=SPARSE, **options)
        found: list[Comparison] = []
        for comparison in glance(check):
            yield None
            found += [] if comparison is None else [comparison]
        verdict = "surrogate" if check.is_surrogate else "ok"
        if any(c.verdict != "ok" for c in found):
            verdict, reason, inputs = check.run()
            found = [i.comparison for i in inputs]
        if verdict == "fail":
            self.is_urgent = True
            yield None
            first = check_node(copy, op, xs, ys, self._rng, **options)
            if first.verdict != "fail" and not has_inside(op):  # one element, among many
                where = copy.where
                first = NodeCheck(Address(copy.name), op.name, where, "fail", reason, inputs)
            yield None
            verdict = first.verdict
            if verdict == "fail" and not self._fails_again(op, xs, ys, options):
                verdict = "unclear"
            self.is_urgent = False
            if verdict == "fail" and copy.name not in self._accused:
                self._accused.add(copy.name)
                self.seen.alarms.append(Alarm.of_node(step, first))
        if verdict not in ("fail", "unclear"):
            self._accused.discard(copy.name)
        if found:
            yield self._seen(point(step, copy.name, "node", found, verdict))

    def _fails_again(self, op: Op, xs: list[Array | None], ys: list[Array], options: Any) -> bool:
        """Tell whether a rule fails along another direction, and disagrees beside its values.

        Where it has no values beside, the first has to do.
        """
        again = LocalCheck(op, xs, ys, self._rng, **options)
        if all(c is None or c.verdict == "ok" for c in glance(again)) or again.run()[0] != "fail":
            return False
        moved = [None if x is None else _moved(x, self._rng) for x in xs]
        try:
            ys = list(run_forward(op, moved, training=True))
        except Exception:
            return True
        if not all(_is_number(y) for y in ys):
            return True
        beside = LocalCheck(op, moved, ys, self._rng, **options)
        return any(c is not None and c.verdict != "ok" for c in glance(beside))

    def _seen(self, found: Point) -> Point:
        """Keep a point."""
        self.seen.strip.append(found)
        return found

    # -- elements --------------------------------------------------------------------------------

    def _parameter(self, program: Program, now: Sight) -> Iterator[Point | None]:
        """Look at some elements of a parameter, and again at those that have failed before."""
        names = {p.name: p for p in program.parameters}
        due = [
            (name, index)
            for (name, index), (_, rounds) in self._suspects.items()
            if name in names and self._nodes.rounds > rounds
        ]
        chosen = [*(name for name, _ in due), *self._parameters.deal(list(names), 1)]
        for name in dict.fromkeys(chosen):
            self._parameters.done(name)
            again = [index for other, index in due if other == name]
            yield from self._elements(program, now, names[name], again)

    def _elements(
        self, program: Program, now: Sight, parameter: Tensor, again: list[Any]
    ) -> Iterator[Point | None]:
        pulling = program.pulled(parameter)
        while (analytic := next(pulling)) is None:
            yield None
        if not analytic.size:
            return
        indices: list[Any] = again or [
            None,
            *(tuple(int(self._rng.integers(n)) for n in analytic.shape) for _ in range(ELEMENTS)),
        ]
        elements = Elements(program, parameter, analytic, self._rng, self.rtol, SPARSE)
        for index in indices:
            for check in elements.look(index):
                yield None if check is None else self._checked(now, check)

    def _checked(self, now: Sight, check: ElementCheck) -> Point:
        """Keep the point of an element; one that fails at so many moments is an alarm."""
        self.counts.elements += 1
        key, verdict = (check.parameter, check.index), check.verdict
        if verdict == "fail":
            fails, rounds = self._suspects.get(key, (0, -1))
            if not fails:
                self._nodes.again()
            if rounds < self._nodes.rounds:
                fails += 1
            self._suspects[key] = fails, self._nodes.rounds
            if fails < FAILS:
                verdict = "unclear"
            else:
                self._accuse(now.step, check)
        else:
            self._suspects.pop(key, None)
            if verdict == "ok":
                self._accused.discard(check.parameter)
        found = point(now.step, check.parameter, "element", [check.comparison], verdict)
        return self._seen(replace(found, index=check.index))

    def _accuse(self, step: int, check: ElementCheck) -> None:
        """Give alarm for a parameter, unless its error is inherited from a node."""
        if not self._accused:
            self._accused.add(check.parameter)
            self.seen.alarms.append(Alarm.of_element(step, check))


def _is_number(x: Array | None) -> bool:
    """Tell whether there is no NaN in an array."""
    return x is None or x.dtype.kind not in "fc" or not bool(np.isnan(x).any())


def _moved(x: Array, rng: np.random.Generator) -> Array:
    if x.dtype.kind not in "fc":
        return x
    return np.asarray(x * (1 + BESIDE * rng.uniform(-1, 1, x.shape)))
