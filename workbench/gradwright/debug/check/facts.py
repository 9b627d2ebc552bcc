"""What a gradient check found, as what JSON can hold."""

from __future__ import annotations

import math
from typing import Any

from .blame import NodeCheck
from .probe import ElementCheck


def number(x: float) -> float | str:
    """Return a number, or text for NaN and infinities, which JSON has not."""
    return float(x) if math.isfinite(x) else str(x)


def element_facts(check: ElementCheck) -> dict[str, Any]:
    """Return what was found of an element."""
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


def node_facts(check: NodeCheck) -> dict[str, Any]:
    """Return what was found of a node, and inside of it."""
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
        "inner": [node_facts(n) for n in check.inner],
    }
