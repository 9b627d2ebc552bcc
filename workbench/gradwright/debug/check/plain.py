"""What was found as what JSON can hold: no NaN, no infinity, no array."""

from __future__ import annotations

import math
from typing import Any

from .blame import NodeCheck
from .probe import ElementCheck


def number(x: float) -> float | str:
    """Return a number, or an infinity or NaN as text."""
    return float(x) if math.isfinite(x) else str(x)


def element(check: ElementCheck) -> dict[str, Any]:
    """Return the check of one element."""
    c = check.comparison
    return {
        "parameter": check.parameter,
        "index": None if check.index is None else list(check.index),
        "part": check.part,
        "verdict": check.verdict,
        "analytic": number(c.analytic),
        "numeric": number(c.numeric),
        "tolerance": number(c.tolerance),
        "kinks": list(check.kinks),
        "sweep": None if c.slope is None else [number(v) for v in c.slope.central],
    }


def node(check: NodeCheck) -> dict[str, Any]:
    """Return the check of one node, with those inside of it."""
    return {
        "name": check.name,
        "address": str(check.address),
        "turns": None if check.turns is None else str(check.turns),
        "op": check.op,
        "where": check.where,
        "verdict": check.verdict,
        "reason": check.reason,
        "inputs": [
            {
                "name": i.name,
                "cause": i.cause,
                "verdict": i.comparison.verdict,
                "analytic": number(i.comparison.analytic),
                "numeric": number(i.comparison.numeric),
            }
            for i in check.inputs
        ],
        "inner": [node(n) for n in check.inner],
    }
