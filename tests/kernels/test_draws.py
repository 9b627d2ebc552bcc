"""Random tensors on the simulated GPU: the bits of the CPU, and normals within four units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradwright.op import find_op, run_forward
from tests.cpu.sketches import ulps

pytest.importorskip("triton", reason="Triton has wheels for Linux only")

from tests.kernels.places import launched

KEY = np.array([12345678901234, (7 << 32) + 3], np.uint64)
"""A seed and a step of more than 32 bits."""
EXACT: list[tuple[str, dict[str, Any]]] = [
    ("bernoulli", {"p": 0.3, "dtype": "bool"}),
    ("bernoulli", {"p": 1.0}),
    ("randint", {"low": -3, "high": 2**40}),
    ("randint", {"high": 50, "dtype": "int8"}),
    ("uniform", {}),
    *(("uniform", {"low": -1.0, "high": 0.3, "dtype": d}) for d in ("float32", "float64")),
    *(("uniform", {"low": -1.0, "high": 0.3, "dtype": d}) for d in ("float16", "bfloat16")),
]


@pytest.mark.parametrize(("name", "attrs"), EXACT)
def test_bools_integers_and_uniforms_have_the_bits_of_the_cpu(
    name: str, attrs: dict[str, Any]
) -> None:
    op = find_op(name)(shape=(3, 401), stream=1, **attrs)
    (y,), (want,) = launched(op, [KEY]), run_forward(op, [KEY])
    assert y.dtype == want.dtype and y.tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normals_are_within_four_units_of_the_last_place(dtype: str) -> None:
    op = find_op("normal")(shape=(1201,), stream=5, mean=0.0, std=0.3, dtype=dtype)
    (y,), (want,) = launched(op, [KEY]), run_forward(op, [KEY])
    assert ulps(y, want.astype(np.longdouble)).max() <= 4
