"""The promotion table of DESIGN.md, and that half precision accumulates in float32."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import DTypeError
from gradwright.spec import TensorSpec, dtype, dtype_name, promote

DESIGN = Path(__file__).parents[2] / "DESIGN.md"
INTS = [f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64)]
FLOATS = ["bfloat16", "float16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
NAMES = ["bool", *INTS, *FLOATS, *COMPLEX]


def short(name: str) -> str:
    return str(TensorSpec((), name)).partition("[")[0]


def joint(a: str, b: str) -> str:
    """Return the name of the common dtype, "-" if there is none."""
    try:
        return dtype_name(promote(dtype(a), dtype(b)))
    except DTypeError:
        return "-"


def table() -> str:
    """Return the table as it stands in DESIGN.md."""
    rows = [["", *map(short, NAMES)]]
    for a in NAMES:
        found = [joint(a, b) for b in NAMES]
        rows.append([short(a), *("–" if f == "-" else short(f) for f in found)])
    return "\n".join(" ".join(cell.ljust(4) for cell in row).rstrip() for row in rows)


def test_the_written_table_is_the_one_that_holds() -> None:
    assert table() in DESIGN.read_text(), f"DESIGN.md should say:\n{table()}"


def test_within_each_kind_it_is_the_array_apis() -> None:
    """The standard defines no more: across kinds, and for bfloat16, it leaves the choice to us."""
    strict: Any = pytest.importorskip("array_api_strict", reason="pip install -e '.[test]'")
    defined = 0
    standard = [n for n in NAMES if n != "bfloat16" and n != "float16"]
    for a, b in itertools.product(standard, standard):
        try:
            expected = strict.result_type(getattr(strict, a), getattr(strict, b))
        except TypeError:
            continue
        assert joint(a, b) == str(expected).rpartition(".")[2], (a, b)
        defined += 1
    assert defined == 1 + 56 + 4 + 4 + 2 * 4  # uint64 with a signed int is not defined


def test_bfloat16_and_float8_meet_others_as_in_jax(jax: Any) -> None:
    names = [n for n in NAMES if n not in ("uint64",)]
    for a in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        for b in names:
            try:
                expected = jax.numpy.promote_types(a, b).name
            except ValueError:
                expected = "-"
            if b.startswith("complex") and a.startswith("float8"):
                expected = b  # JAX has no complex for them either way
            assert joint(a, b) == expected, (a, b)


def test_the_order_does_not_matter_and_all_roads_lead_to_one_dtype() -> None:
    """A lattice, but for the pair that has no join: uint64 with a signed int."""
    lattice = [n for n in NAMES if n != "uint64"]
    for a, b in itertools.product(NAMES, NAMES):
        assert joint(a, b) == joint(b, a)
    for a, b, c in itertools.product(lattice, repeat=3):
        # Floats beat ints, so that an int between two halves is never what decides.
        assert joint(joint(a, b), c) == joint(a, joint(b, c)), (a, b, c)


# -- accumulation ----------------------------------------------------------------------------------

N = 4096
ONES: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: gw.sum(x),
    "mean": lambda x: gw.mean(x) * N,
    "matmul": lambda x: gw.matmul(x, x),
    "einsum": lambda x: gw.einsum("i,i->", x, x),
    "cumsum": lambda x: gw.cumsum(x, 0)[-1],
    "squared_norm": lambda x: gw.squared_norm(x),
    "norm1": lambda x: gw.norm1(x),
    "norm": lambda x: gw.linalg.norm(x) ** 2,
    "logsumexp": lambda x: gw.exp(gw.logsumexp(x - 1.0)),
    "segment_sum": lambda x: gw.segment_sum(x, np.zeros(N, int))[0],
    "index_add": lambda x: gw.index_add(x[:1] * 0.0, np.zeros(N, int), x)[0],
    "sum_like": lambda x: gw.sum_like(x, x[:1])[0],
    "nansum": lambda x: gw.nansum(x),
}


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ONES)
def test_sums_of_halves_are_taken_in_float32(name: str, half: str) -> None:
    """Adding ones up in bfloat16 ends at 256, in float16 at 2048."""
    g = gw.Graph()
    with g:
        y = ONES[name](g.constant(np.ones(N), dtype=half))
    found = float(g.output({}, y)[y.name])
    assert abs(found / N - 1) < 0.01, found
    assert dtype_name(y.dtype) == half


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_softmax_and_norms_of_halves_are_taken_in_float32(half: str) -> None:
    g = gw.Graph()
    with g:
        x = g.constant(np.linspace(-1.0, 1.0, N), dtype=half)
        share = gw.nn.softmax(x)
        layer, rms = gw.nn.layer_norm(x), gw.nn.rms_norm(x)
    found = {k: v.astype(np.float64) for k, v in g.output({}, share, layer, rms).items()}
    wide = g.output({}, x)[x.name].astype(np.float64)
    e = np.exp(wide)
    tolerance = 1e-3 if half == "float16" else 1e-2
    np.testing.assert_allclose(found[share.name], e / e.sum(), tolerance, 1e-6)
    deep = (wide - wide.mean()) / np.sqrt(wide.var() + 1e-5)
    np.testing.assert_allclose(found[layer.name], deep, tolerance, tolerance)
    np.testing.assert_allclose(
        found[rms.name], wide / np.sqrt((wide**2).mean() + 1e-5), tolerance, tolerance
    )
    assert {dtype_name(y.dtype) for y in (share, layer, rms)} == {half}
