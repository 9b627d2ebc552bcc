"""Every public op beside PyTorch or JAX: results and gradients, in float64 and float32.

Floats agree to 1e-10 in float64 and 1e-5 in float32, relative to each element or the largest one;
integers and bools exactly. Dtypes and shapes agree, too.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tests.oracle.rows import NAMESPACES, Row, has_floats, hold, namespace, op_of

FAMILIES = [
    import_module(f"tests.oracle.{p.stem}") for p in Path(__file__).parent.glob("rows_*.py")
]
ROWS: dict[str, Row] = {k: row for family in FAMILIES for k, row in family.ROWS.items()}
ELSEWHERE: dict[str, str] = {
    **{k: why for family in FAMILIES for k, why in getattr(family, "ELSEWHERE", {}).items()},
    "uniform": "random: known answers in test_random.py",
    "normal": "random: known answers in test_random.py",
    "truncated_normal": "random: known answers in test_random.py",
    "bernoulli": "random: known answers in test_random.py",
    "dropout": "random: its mask is known by test_random.py, its gradient by test_ops.py",
    "sgd_update": "held by 20 training steps in test_networks.py",
    "momentum_update": "held by 20 training steps in test_networks.py",
    "adam_update": "held by 20 training steps in test_networks.py",
}
"""Ops that no row is about, and why; a family file may have a list of its own."""


def test_every_public_op_is_held_against_another_library() -> None:
    """A new op brings a row, or a reason here."""
    held = {op_of(name) for name in ROWS}
    known = set(namespace("base", *NAMESPACES))
    assert not known - held - ELSEWHERE.keys(), "ops without a row"
    assert not (held | ELSEWHERE.keys()) - known, "rows of ops that do not exist"
    assert not held & ELSEWHERE.keys(), "there is a row, so no reason is needed"


@pytest.mark.parametrize("name", ROWS)
def test_row(torch: ModuleType, request: pytest.FixtureRequest, name: str) -> None:
    row = ROWS[name]
    library = torch if row.library == "torch" else request.getfixturevalue(row.library)
    for case in row.cases:
        hold(name, row, case, "float64", library)
    for case in filter(has_floats, row.cases):
        hold(name, row, case, "float32", library)
