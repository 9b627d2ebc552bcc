"""Gradients of rows and values: what two tensors stand for."""

from __future__ import annotations

import pytest

import gradwright as gw
from gradwright.spec import Dim, TensorSpec
from gradwright.spec.rows import RowsSpec

N, D = 40, 3


def test_a_spec_says_what_two_tensors_stand_for() -> None:
    k = Dim.symbol("K")
    spec = RowsSpec.of(
        TensorSpec((k,), "int32"), TensorSpec((k, D), "bfloat16"), TensorSpec((N, D))
    )
    assert (spec.rows, spec.values) == (TensorSpec((k,), "int64"), TensorSpec((k, D), "bfloat16"))
    assert str(spec.joined(spec)) == "bf16[40, 3] in 2*K rows"
    assert str(spec.once) == "bf16[40, 3] in min(40, K) rows"
    assert spec.substitute({"K": 4}).nbytes == 4 * 8 + 4 * D * 2
    for rows, values, error in (
        (TensorSpec((4,)), TensorSpec((4, D)), gw.errors.DTypeError),
        (TensorSpec((4,), "int64"), TensorSpec((5, D)), gw.errors.ShapeError),
        (TensorSpec((4,), "int64"), TensorSpec((4, D, 1)), gw.errors.ShapeError),
        (TensorSpec((4, 1), "int64"), TensorSpec((4, D)), gw.errors.ShapeError),
    ):
        with pytest.raises(error):
            RowsSpec.of(rows, values, TensorSpec((N, D)))
    with pytest.raises(gw.errors.ShapeError, match="no rows"):
        RowsSpec(TensorSpec(()), 3)
