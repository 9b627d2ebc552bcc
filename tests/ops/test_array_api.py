"""Ops marked ``array_api`` run on arrays of any library that keeps to the Array API standard."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.op import OPS, run_forward
from gradwright.ops.loading import load
from gradwright.ops.numerics.standard import STANDARD
from gradwright.testing.common import samples

load()
MARKED = [name for name, cls in OPS.items() if cls.array_api]
FAMILIES = {
    "arithmetic": {
        *("add", "sub", "mul", "div", "neg", "abs", "square", "sqrt", "floor_div", "mod", "round"),
    },
    "functions": {"exp", "log", "expm1", "log1p", "sin", "tan", "arcsin", "arctan2", "arctanh"},
    "comparison": {"less", "greater_equal", "equal", "is_nan", "logical_and", "logical_not"},
    "reductions": {"sum", "mean", "max", "min", "argmax", "argmin", "any", "all"},
    "arrays": {
        *("matmul", "where", "clip", "maximum", "concat", "stack", "transpose", "flip", "roll"),
    },
}


@pytest.fixture(scope="module")
def strict() -> ModuleType:
    return pytest.importorskip("array_api_strict", reason="pip install -e '.[test]'")


@pytest.mark.parametrize("name", MARKED)
def test_forward_runs_on_strict_arrays(strict: Any, name: str) -> None:
    """The strict library refuses all that the standard does not promise."""
    for sample in samples(OPS[name]):
        op = OPS[name](**sample.attrs)
        xs = [None if x is None else np.asarray(x) for x in sample.inputs]
        with np.errstate(all="ignore"):
            wanted = run_forward(op, xs)
            found = op.forward(*(None if x is None else strict.asarray(x) for x in xs))
        for y, w in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
            assert type(y).__module__.startswith("array_api_strict"), f"{type(y)} came out"
            y = np.asarray(y)
            assert y.dtype == w.dtype and y.shape == w.shape
            np.testing.assert_allclose(y, w, 1e-12, err_msg=f"{name} of {sample}")


@pytest.mark.parametrize("family", FAMILIES)
def test_whole_families_are_marked(family: str) -> None:
    assert not FAMILIES[family] - set(MARKED)


def test_each_name_of_the_standard_exists(strict: Any) -> None:
    assert not [name for name in STANDARD.values() if not hasattr(strict, name)]
    assert all(getattr(np, name) is ufunc for ufunc, name in STANDARD.items() if name != "round")


def test_a_forward_of_its_own_is_not_taken_to_keep_to_the_standard() -> None:
    class Half(type(gw.ops.elementwise.Neg()).__mro__[1]):  # the base of unary ops
        """Half of a number.

        y = x/2
        """

        ufunc = np.negative

        def forward(self, x: Any) -> Any:
            return x / 2

    assert gw.ops.elementwise.Neg.array_api and not Half.array_api
