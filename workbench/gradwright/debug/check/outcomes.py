"""What a check may claim: that it passed, that it failed, or that it could not tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .report import ParameterCheck, Report

_UNCLEAR = 3
_DECIDED = (1, 2, 4)  # ok, kink and fail, as VERDICTS numbers them


def outcome(report: Report) -> str:
    """Return ``passed``, ``failed``, ``stopped`` or ``unclear``."""
    if report.blame or any(p.verdict == "fail" for p in report.parameters.values()):
        return "failed"
    if report.stopped:
        return "stopped"
    return "unclear" if doubts(report) else "passed"


def doubts(report: Report) -> list[str]:
    """Return what keeps a check in which nothing failed from passing, in words."""
    checks = report.parameters.values()
    found = [f"nothing could be told of {p.name!r}" for p in checks if not _is_told(p)]
    tried = [p for p in checks if p.checked]
    moving = any(p.analytic.any() for p in tried)
    if not found and moving and not any(map(_is_seen, tried)):
        found.append("no element moves the loss by more than its rounding")
    if not any(p.checked or p.direction for p in checks):
        lost = [n for n in report.nodes if n.verdict == "unclear"]
        found += [f"{n.op} {str(n.address)!r} could not be told, and only ops were" for n in lost]
        if not report.nodes:
            found.append("there was nothing to check")
    return found


def _is_told(check: ParameterCheck) -> bool:
    """Tell whether any element, or the direction, was decided; also where none was tried."""
    along = check.direction
    if along is None and not check.checked:
        return True
    decided = along is not None and along.verdict in ("ok", "kink", "fail")
    return decided or bool(np.isin(check.verdicts, _DECIDED).any())


def _is_seen(check: ParameterCheck) -> bool:
    """Tell whether the loss was seen to move by one of the elements, beyond its own rounding."""
    with np.errstate(all="ignore"):
        size = np.fmax(np.abs(check.analytic), np.abs(check.numeric))
        close = np.abs(check.analytic - check.numeric) < 0.5 * size
    return bool(np.any(close & (check.verdicts != _UNCLEAR)))
