"""A gradient check on the wire: rows of parameters and nodes, and what is most worth a look."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from gradwright import Tensor
from gradwright.debug import ElementCheck, LossCurve, ParameterCheck, Report
from gradwright.debug.check.blame import NodeCheck
from gradwright.debug.check.report import VERDICTS

from ...drawing.buffers import float64, int32
from ...host.wire import Message, finite

MOST_TROUBLES = 20  # elements listed of each parameter


class CheckProgress:
    """What is known of one check, and which of it the pages have."""

    def __init__(self, run: int = 0, feeds: str = "", training: bool = False) -> None:
        self.run, self.feeds, self.training = run, feeds, training
        self.report: Report | None = None
        self.planned: list[dict[str, Any]] = []
        self.error: Exception | None = None
        self.done, self.total, self.name = 0, 0, ""
        self.began, self.seconds = time.monotonic(), 0.0
        self._sent_nodes = 0
        self._sent_rows: dict[str, tuple[int, bool]] = {}

    def watch(self, report: Report) -> None:
        """Take the report that will grow."""
        self.report = report

    def message(self, *, everything: bool) -> Message:
        """Return all rows, or those that are new."""
        report = None if self.report is None else self.report.copy()
        parameters = {} if report is None else report.parameters
        nodes = [] if report is None else report.nodes
        first = 0 if everything else self._sent_nodes
        rows = [_row(p) for p in parameters.values() if everything or self._is_new(p)]
        if everything or not self._sent_rows:
            rows += [row for row in self.planned if row["name"] not in parameters]
        self._sent_nodes = len(nodes)
        self._sent_rows = {p.name: _state(p) for p in parameters.values()}
        findings = [] if report is None or self.error is not None else report.findings
        if not self.seconds:  # while it runs there is nothing to say about the whole
            findings = [f for f in findings if f.verdict != "ok"]
        return {
            "kind": "check.rows",
            "run": self.run,
            "loss": "" if report is None else report.loss,
            "value": "" if report is None else f"{report.value:.6g}",
            "feeds": self.feeds,
            "training": self.training,
            "done": self.done,
            "total": self.total,
            "name": self.name,
            "seconds": self.seconds or time.monotonic() - self.began,
            "curves": report is not None and report.occasion is not None,
            "error": "" if self.error is None else str(self.error),
            "findings": [vars(f) | {"nodes": list(f.nodes)} for f in findings],
            "parameters": rows,
            "first": first,
            "nodes": [
                {
                    "name": n.name, "op": n.op, "verdict": n.verdict, "reason": n.reason,
                    "where": n.where, "error": finite(n.relative_error), "seconds": n.seconds,
                    "faults": [_fault(f) for f in n.faults()] if n.verdict == "fail" else [],
                }
                for n in nodes[first:]
            ],
        }, []  # fmt: skip

    def _is_new(self, p: ParameterCheck) -> bool:
        return self._sent_rows.get(p.name) != _state(p)


def _fault(n: NodeCheck) -> dict[str, str]:
    """Return where a node at fault stands: in a loop the first turn, and in how many it is so."""
    return {"address": str(n.address), "op": n.op, "turns": str(n.turns or "")}


def map_message(run: int, found: ParameterCheck) -> Message:
    """Return the elements of a parameter that were checked: both gradients, their error, and how.

    Verdicts are numbers of ``known``, ways those of ``WAYS`` in the front end.
    """
    at = np.flatnonzero(found.verdicts)
    facts = {
        "kind": "check.map",
        "run": run,
        "name": found.name,
        "shape": list(found.verdicts.shape),
        "complex": np.iscomplexobj(found.analytic),
        "known": VERDICTS,
    }
    parts = [found.errors(), found.analytic, found.numeric]
    arrays = [np.ascontiguousarray(a.reshape(-1)[at]).view("<f8") for a in parts]
    told = [memoryview(a.reshape(-1)[at].tobytes()) for a in (found.verdicts, found.ways)]
    return facts, [int32(at), *told, *map(float64, arrays)]


def curve_message(run: int, curve: LossCurve) -> Message:
    """Return the loss along one element, with the slopes that were found there."""
    check = curve.check
    facts = {
        "kind": "check.curve",
        "run": run,
        "name": check.parameter,
        "index": list(check.index or ()),
        "part": check.part,
        "verdict": check.verdict,
        "text": curve.text,
        "points": curve.offsets.shape[1],
    }
    slopes = [curve.value, curve.loss, curve.analytic, curve.numeric, curve.left, curve.right]
    arrays = [slopes, curve.offsets, curve.changes, curve.steps, curve.errors, curve.floor]
    return facts, [float64(a) for a in arrays]


def node_errors(report: Report) -> dict[str, float]:
    """Return the errors of nodes by address, at most 2: of the wrong sign; NaN is no better."""
    told = [n for n in report.nodes if n.verdict in ("ok", "surrogate", "fail")]
    return {str(n.address): min(n.relative_error, 2.0) for n in (*told, *report.faults)}


def worst_elements(report: Report, most: int) -> list[tuple[str, tuple[int, ...], str]]:
    """Return name, index and part of the elements most worth a look, at most ``most``.

    First one of every parameter, its worst, then what else is wrong, noisy or at a kink.
    """

    def ranked(checks: Iterable[ElementCheck]) -> list[ElementCheck]:
        return sorted(checks, key=lambda e: -VERDICTS.index(e.verdict))

    parameters = [p for p in report.parameters.values() if p.checked]
    checks = ranked(_worst(p) for p in parameters)
    checks += ranked(e for p in parameters for e in p.troubles)
    found = {(e.parameter, e.index, e.part): None for e in checks if e.index is not None}
    return [(name, index, part) for name, index, part in found if index is not None][:most]


def _worst(p: ParameterCheck) -> ElementCheck:
    """Return the worst element; the first one where the random direction is worse than all."""
    assert p.worst is not None
    if p.worst.index is not None:
        return p.worst
    first = np.unravel_index(int(np.flatnonzero(p.verdicts)[0]), p.verdicts.shape)
    return replace(p.worst, index=tuple(map(int, first)))


def _state(p: ParameterCheck) -> tuple[int, bool]:
    return p.checked, p.direction is not None


def _row(p: ParameterCheck) -> dict[str, Any]:
    told = (p.verdicts != 0) & (p.verdicts != VERDICTS.index("kink"))  # at a kink two are right
    errors = p.errors()[told]
    worst = float(np.max(errors, initial=0.0))
    if p.direction is not None and p.direction.verdict not in ("ok", "kink"):
        worst = float(np.maximum(worst, p.direction.comparison.relative_error))
    return {
        "name": p.name,
        "shape": list(p.verdicts.shape),
        "size": p.verdicts.size,
        "checked": p.checked,
        "direction": p.direction is not None,
        "kinks": p.count("kink"),
        "certified": p.certified,
        "differenced": p.differenced,
        "probed": p.probed,
        "surrogates": list(p.surrogates),
        "error": finite(worst),
        "verdict": p.verdict,
        "where": p.where,
        "troubles": [
            {"index": list(e.index), "part": e.part, "verdict": e.verdict, "text": _brief(e)}
            for e in p.troubles[:MOST_TROUBLES]
            if e.index is not None
        ],
    }


def _brief(e: ElementCheck) -> str:
    c = e.comparison
    return f"{c.analytic:.4g}, measured {c.numeric:.4g}"


def planned_row(t: Tensor) -> dict[str, Any]:
    """Return the row of a parameter that will be checked."""
    size = math.prod(t.shape) if t.spec.is_concrete else 0
    return {
        "name": t.name, "shape": [d if isinstance(d, int) else str(d) for d in t.shape],
        "size": size, "checked": 0, "direction": False, "kinks": 0, "error": 0.0,
        "certified": 0, "differenced": 0, "probed": 0, "surrogates": [],
        "verdict": "unchecked", "where": t.node.where, "troubles": [],
    }  # fmt: skip
