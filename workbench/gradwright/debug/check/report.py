"""What a gradient check found: by parameter, by element, and by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...errors import GradientError
from ...graph import Graph, Values
from ...words.tables import Table, Tabular
from .blame import NodeCheck
from .curve import LossCurve, loss_curve
from .facts import element_facts, node_facts, number
from .findings import Finding, findings
from .judging import Comparison
from .outcomes import doubts, outcome
from .probe import ElementCheck

Array = np.ndarray[Any, Any]
VERDICTS = ("unchecked", "ok", "kink", "unclear", "fail")
"""Verdicts from best to worst; arrays of verdicts hold their numbers."""
WAYS = ("unchecked", "certified", "differenced", "probed")
"""How an element was checked; arrays of ways hold their numbers.

- ``certified``: by a chain of slopes, each measured by differences of one call. ``numeric`` is what
  the chain gives;
- ``differenced``: by differences of the loss, together with others;
- ``probed``: by differences of the loss, alone, with as many steps as it took.
"""
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Occasion:
    """What was checked: the graph, and the values, feeds and mode that it ran on."""

    graph: Graph
    loss: str
    feeds: Mapping[Any, Any]
    values: Values
    training: bool = False
    seed: int = 0
    rtol: float = 1e-5


@dataclass(repr=False)
class ParameterCheck:
    """All checked elements of one parameter; arrays have its shape, NaN where not checked."""

    name: str
    where: str
    analytic: Array
    numeric: Array
    verdicts: Array
    """Numbers of ``VERDICTS``, uint8."""
    ways: Array
    """Numbers of ``WAYS``, uint8."""
    direction: ElementCheck | None = None
    """One random direction through all elements, where they are sampled or differenced."""
    worst: ElementCheck | None = None
    troubles: list[ElementCheck] = field(default_factory=list)
    """Elements that are not ``ok``, at most ``MAX_TROUBLES`` of them."""
    surrogates: tuple[str, ...] = ()
    """Nodes on the way to the loss with a declared gradient: differences follow what they declare,
    not the loss."""

    MAX_TROUBLES = 100

    @property
    def checked(self) -> int:
        """How many elements were checked one by one."""
        return int((self.verdicts != 0).sum())

    @property
    def verdict(self) -> str:
        """The worst verdict, ``unchecked`` if there was nothing to check."""
        found = int(self.verdicts.max(initial=0))
        if self.direction is not None:
            found = max(found, VERDICTS.index(self.direction.verdict))
        return VERDICTS[found]

    def count(self, verdict: str) -> int:
        """Return how many elements have a verdict."""
        return int((self.verdicts == VERDICTS.index(verdict)).sum())

    @property
    def certified(self) -> int:
        """How many elements the chain of measured slopes settled."""
        return self._went("certified")

    @property
    def differenced(self) -> int:
        """How many elements were settled by differences of the loss, many at once."""
        return self._went("differenced")

    @property
    def probed(self) -> int:
        """How many elements were probed one by one."""
        return self._went("probed")

    def _went(self, way: str) -> int:
        return int((self.ways == WAYS.index(way)).sum())

    def errors(self) -> Array:
        """Return the relative error of every element, NaN where it was not checked.

        |analytic − numeric| relative to the larger of the two, and to no less than a millionth of
        the largest numeric value, below which a difference is rounding.
        """
        with np.errstate(all="ignore"):
            size = np.fmax(np.abs(self.analytic), np.abs(self.numeric))
            least = 1e-6 * np.nanmax(np.abs(self.numeric), initial=0.0)
            apart = np.abs(self.analytic - self.numeric)
            found = np.where(apart == 0, 0.0, apart / np.fmax(size, least))
        return np.where(self.verdicts == 0, np.nan, found)

    def __repr__(self) -> str:
        shape = list(self.verdicts.shape)
        return f"<{self.name!r} {shape} {self.verdict}: {self.checked} elements checked>"

    def add(self, check: ElementCheck) -> None:
        """Take in the result of one element, or of the direction."""
        c = check.comparison
        if check.index is None:
            self.direction = check
        else:
            at = check.index
            self.numeric[at] = _with_part(self.numeric[at], c.numeric, check.part)
            self.verdicts[at] = max(int(self.verdicts[at]), VERDICTS.index(c.verdict))
            self.ways[at] = WAYS.index("probed")
            if c.verdict != "ok" and len(self.troubles) < self.MAX_TROUBLES:
                self.troubles.append(check)
        if self.worst is None or _badness(check) > _badness(self.worst):
            self.worst = check

    def veil(self) -> None:
        """Take back failures where differences go through a loop that holds a surrogate."""
        every = np.full(self.analytic.shape, np.inf)
        self.forgive(every, np.ones(every.shape), "veiled")

    def forgive(self, spread: Array, size: Array, excuse: str = "cancelled") -> None:
        """Take back failures that rounding explains, which moves the gradient by ``spread``.

        ``size`` is that of what the direction moves.
        """
        lost = self.verdicts == VERDICTS.index("fail")
        lost &= np.abs(self.analytic - self.numeric) <= 10 * spread
        self.verdicts[lost] = VERDICTS.index("unclear")
        along = float(np.linalg.norm(spread * size))

        def given(check: ElementCheck) -> ElementCheck:
            far = along if check.index is None else float(spread[check.index])
            return check.given(far, excuse)

        self.troubles = [given(e) for e in self.troubles]
        self.worst = None if self.worst is None else given(self.worst)
        self.direction = None if self.direction is None else given(self.direction)

    def take(self, where: Array, numeric: Array, tolerance: Array, verdict: str, way: str) -> None:
        """Take in the results of the elements that a mask names; all arrays have its shape."""
        if not where.any():
            return
        for kept, value in (
            (self.numeric, numeric), (self.verdicts, VERDICTS.index(verdict)),
            (self.ways, WAYS.index(way)),
        ):  # fmt: skip
            np.copyto(kept, value, where=where)
        apart = np.abs(self.analytic - numeric)
        score = np.where(where, apart / np.maximum(tolerance, _TINY), -1.0)
        listed = [int(np.argmax(score))]
        if verdict != "ok":
            listed += np.flatnonzero(where)[: self.MAX_TROUBLES].tolist()
        for n, flat in enumerate(listed):
            at = tuple(map(int, np.unravel_index(flat, where.shape))) if where.ndim else ()
            found = Comparison(
                verdict, float(self.analytic[at]), float(numeric[at]), float(tolerance[at])
            )
            check = ElementCheck(self.name, at, comparison=found)
            if not n and (self.worst is None or _badness(check) > _badness(self.worst)):
                self.worst = check
            elif n and len(self.troubles) < self.MAX_TROUBLES:
                self.troubles.append(check)


@dataclass(repr=False)
class Report(Tabular):
    """The result of :func:`gradient_check`; ``print(report)`` or ``report.table()`` shows it.

    ``outcome`` is one of four words, ``passed`` says that it is the first; ``blame`` are the nodes
    whose own vjp is wrong, ``nodes`` the checks of all nodes.
    """

    loss: str
    value: float
    parameters: dict[str, ParameterCheck] = field(default_factory=dict)
    nodes: list[NodeCheck] = field(default_factory=list)
    stopped: bool = False
    occasion: Occasion | None = field(default=None, compare=False)
    """What it ran on, for a closer look at single elements."""

    @property
    def findings(self) -> list[Finding]:
        """What was found in words, the worst first: mistakes, kinks, noise, or that all agrees."""
        return findings(self)

    def copy(self) -> Report:
        """Return the report as it is now, while a check may go on with this one.

        Arrays are shared: elements that are checked later show in both.
        """
        parameters = {
            p.name: replace(p, troubles=list(p.troubles)) for p in list(self.parameters.values())
        }
        return replace(self, parameters=parameters, nodes=list(self.nodes))

    def curve(
        self, parameter: str, index: int | Sequence[int] = (), *, part: str = "real"
    ) -> LossCurve:
        """Return the loss along one element, at the values and feeds of this check.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> w = g.variable("w", init=[1.0, -2.0])
        >>> report = gw.gradient_check(g, gw.square(w).sum(name="loss"))
        >>> report.curve("w", 1).analytic
        -4.0

        Raises GradientError if the report does not come from :func:`gradient_check`.
        """
        at = self.occasion
        if at is None:
            raise GradientError("this report does not know what it ran on")
        return loss_curve(
            at.graph, at.loss, at.feeds, parameter, index, part=part,
            rtol=at.rtol, training=at.training, seed=at.seed, values=at.values,
        )  # fmt: skip

    @property
    def passed(self) -> bool:
        """Whether the check ran to its end, told what it was asked, and found nothing wrong.

        Single elements that cannot be told, among others that agree, are named and forgiven.
        """
        return self.outcome == "passed"

    @property
    def outcome(self) -> str:
        """``passed``, ``failed``, ``stopped``, or ``unclear`` where differences told too little.

        Unclear is a check of nothing; one in which all that was tried of some parameter drowned in
        noise, or nothing moved the loss beyond its rounding; and one of nodes alone with a node
        that cannot be told, since nothing else vouches for it.
        """
        return outcome(self)

    @property
    def doubts(self) -> list[str]:
        """Why a check in which nothing failed has not passed, in words."""
        return doubts(self)

    @property
    def blame(self) -> list[NodeCheck]:
        """Nodes whose vjp disagrees with their own forward."""
        return [n for n in self.nodes if n.verdict == "fail"]

    @property
    def faults(self) -> list[NodeCheck]:
        """The innermost nodes at fault, by their addresses: in a loop those of its first bad turn.

        >>> import gradwright as gw
        >>> off = gw.define_op("doc/off", lambda x: 3.0 * x, vjp=lambda g, y, x: 2.0 * g)
        >>> g = gw.Graph()
        >>> w = g.variable("w", init=[1.0, 2.0])
        >>> ys = gw.map_fn(lambda x: off(x, name="slope"), w, name="each")
        >>> report = gw.gradient_check(g, ys.sum(name="loss"))
        >>> [n.name for n in report.blame], [str(n.address) for n in report.faults]
        (['each'], ['each:0:slope'])
        """
        return [fault for node in self.blame for fault in node.faults()]

    @property
    def worst(self) -> ElementCheck | None:
        """The element with the worst verdict, and among those the largest error."""
        found = [p.worst for p in self.parameters.values() if p.worst is not None]
        return max(found, key=_badness, default=None)

    def table(self) -> Table:
        """Return one row per parameter, and a line per node at fault."""
        rows = []
        for p in self.parameters.values():
            worst = p.worst
            c = None if worst is None else worst.comparison
            rows.append(
                [
                    p.name,
                    f"{p.checked} of {p.verdicts.size}",
                    "-" if worst is None else "direction" if worst.index is None
                    else str(list(worst.index)),
                    *(["-"] * 3 if c is None else
                      [f"{c.analytic:.6g}", f"{c.numeric:.6g}", f"{c.relative_error:.1e}"]),
                    p.verdict + (f" ({p.count('kink')} kinks)" if p.count("kink") else ""),
                ]
            )  # fmt: skip
        columns = ["parameter", "checked", "worst", "analytic", "numeric", "rel. error", "verdict"]
        return Table(columns, rows, title=repr(self)[1:-1], notes=self._notes())

    def _notes(self) -> list[str]:
        notes = []
        for fault in self.faults:
            where = f" ({fault.where})" if fault.where else ""
            turns = f" {fault.turns}" if fault.turns else ""
            notes.append(
                f"at fault: {fault.op} {str(fault.address)!r}{where}{turns}: {fault.reason}"
            )
        notes += [
            f.text
            for f in self.findings
            if f.verdict in ("kink", "unclear", "surrogate")
            or (f.verdict == "fail" and not self.blame)
        ]
        certified = sum(p.certified for p in self.parameters.values())
        others = sum(p.differenced + p.probed for p in self.parameters.values())
        if certified:
            rest = f", {others:,} by differences of the loss" if others else ""
            notes.append(f"{certified:,} elements certified by measured slopes{rest}")
        return notes

    def to_dict(self) -> dict[str, Any]:
        """Return the report as what JSON can hold; NaN and infinities become text."""
        return {
            "loss": self.loss,
            "value": number(self.value),
            "passed": self.passed,
            "outcome": self.outcome,
            "stopped": self.stopped,
            "findings": [f.text for f in self.findings],
            "worst": None if self.worst is None else element_facts(self.worst),
            "blame": [node_facts(n) for n in self.blame],
            "nodes": {n.name: n.verdict for n in self.nodes},
            "parameters": [
                {
                    "name": p.name,
                    "where": p.where,
                    "shape": list(p.verdicts.shape),
                    "checked": p.checked,
                    "verdict": p.verdict,
                    "surrogates": list(p.surrogates),
                    "counts": {v: p.count(v) for v in VERDICTS},
                    "certified": p.certified,
                    "differenced": p.differenced,
                    "probed": p.probed,
                    "direction": None if p.direction is None else element_facts(p.direction),
                    "worst": None if p.worst is None else element_facts(p.worst),
                    "troubles": [element_facts(e) for e in p.troubles],
                }
                for p in self.parameters.values()
            ],
        }

    def __repr__(self) -> str:
        what = self.outcome.replace("failed", "FAILED")
        checked = sum(p.checked for p in self.parameters.values())
        known = len(self.parameters)
        return (
            f"<gradient check of {self.loss!r} {what}: {checked} elements of "
            f"{known} parameter{'s' * (known != 1)}, {len(self.nodes)} nodes>"
        )


def _badness(check: ElementCheck) -> tuple[int, float]:
    return VERDICTS.index(check.verdict), check.comparison.score


def _with_part(held: Any, value: float, part: str) -> Any:
    """Return an element with its real or imaginary part set."""
    if part == "imag":
        return complex(held.real, value)
    return complex(value, held.imag) if np.iscomplexobj(held) else value
