"""Draws: no other library draws the same numbers."""

from __future__ import annotations

from tests.oracle.rows import Row

ROWS: dict[str, Row] = {}
_WHY = "random: known answers and distributions in test_draws.py"
ELSEWHERE = {
    "exponential": _WHY,
    "log_normal": _WHY,
    "gumbel": _WHY,
    "laplace": _WHY,
    "binomial": _WHY,
    "poisson": _WHY,
    "randint": _WHY,
    "permutation": _WHY,
    "categorical": _WHY,
}
