"""Running ops, places in sorted vectors, bins and segments: machine code as numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm.compiler import available
from gradwright.cpu.lowerings import counts, places

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")
Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)


def alike(op: Callable[..., Any], *xs: Array, off: float = 0.0) -> None:
    """Hold machine code to the op's own numbers, and that of two threads to that of one."""
    g = gw.Graph()
    given = [g.placeholder(f"x{k}", x.shape, x.dtype) for k, x in enumerate(xs)]
    made = op(*given)
    ys = list(made) if isinstance(made, tuple) else [made]
    want = ys[0].node.op.forward(*xs)
    found = []
    for threads in (1, 2):
        with gw.Session(g, kernels="wait", threads=threads, deterministic=True) as session:
            found.append(session.run(ys, dict(zip(given, xs, strict=True))))
    for w, one, two in zip(want if isinstance(want, tuple) else [want], *found, strict=True):
        assert w.dtype == one.dtype and w.shape == one.shape
        np.testing.assert_array_equal(one, two)
        size = np.abs(w[np.isfinite(w)]).max(initial=1.0)
        np.testing.assert_allclose(one, w, off, off * size)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collect what machine code is bound for; None: it was not."""
    bound: list[Any] = []

    def noted(bind: Any) -> Any:
        def run(*xs: Any, **how: Any) -> Any:
            bound.append(bind(*xs, **how))
            return bound[-1]

        return run

    for module, name in (
        (places, "bind_running"),
        (places, "bind_search"),
        (places, "bind_kernel"),
        (counts, "bind_kernel"),
    ):
        monkeypatch.setattr(module, name, noted(getattr(module, name)))
    return bound


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("shape, axis", [((7, 1100), 1), ((3, 60, 70), 1)])
def test_running_ops_are_those_of_numpy(
    dtype: str, shape: tuple[int, ...], axis: int, compiled: list[Any]
) -> None:
    x = (RNG.standard_normal(shape) * 3).astype(dtype)
    odd = np.rint(x)
    if dtype != "int32":
        odd.flat[::97], odd.flat[5::89] = np.nan, -np.inf
    off = {"float32": 2e-6, "float64": 1e-13}.get(dtype, 0.0)
    for reverse, exclusive in ((False, True), (True, False)):
        how = {"reverse": reverse, "exclusive": exclusive}
        alike(lambda t, how=how: gw.cumsum(t, axis, **how), x, off=off)
        alike(lambda t, how=how: gw.cumprod(t, axis, **how), np.sign(x), off=off)
    for extreme in (gw.cummax, gw.cummin):
        alike(lambda t, extreme=extreme: extreme(t, axis), odd)
    n = 6
    if dtype != "int32":
        inf = np.where(np.isnan(odd), -np.inf, odd)
        alike(lambda t: gw.logcumsumexp(t, axis), inf, off=off)
        a = np.where(RNG.random(shape) < 0.1, 0, np.tanh(x)).astype(dtype)
        alike(lambda a, t: gw.nn.linear_scan(a, t, axis=axis, reverse=True), a, x, off=8 * off)
        n = 8
    assert len(compiled) == 2 * n and None not in compiled


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_places_in_sorted_vectors_are_those_of_numpy(dtype: str, compiled: list[Any]) -> None:
    a = np.sort(np.rint(RNG.standard_normal(90) * 9)).astype(dtype)
    x = np.rint(RNG.standard_normal((7, 5)) * 9).astype(dtype)
    if dtype != "int64":
        a[-2:], a[0], x.flat[:3] = np.nan, -np.inf, (np.nan, np.inf, -np.inf)
    for side in ("left", "right"):
        for n in (0, 1, 64, 90):
            alike(lambda a, x, side=side: gw.searchsorted(a, x, side=side), a[:n], x)
    assert len(compiled) == 16 and None not in compiled


def test_bins_are_those_of_numpy(compiled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "LEAST", 2)
    x = np.rint(RNG.standard_normal(900) * 4).astype(np.float32) / 10  # on edges, and beside
    for bins, ends in ((7, None), (10, (-0.5, 0.5)), (3, (0.1, 0.2))):
        alike(lambda x, bins=bins, ends=ends: gw.histogram(x, bins, ends), x)
    x[3] = np.nan
    alike(lambda x: gw.histogram(x, 5, (-0.3, 0.3)), x)
    assert len(compiled) == 8 and None not in compiled


@pytest.mark.parametrize("how", ["sum", "prod", "max", "min"])
def test_segments_in_order_are_those_of_numpy(
    how: str, compiled: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers have one axis or more, and leave some segments empty."""
    monkeypatch.setattr(places, "LEAST", 2)
    op, x = getattr(gw, f"segment_{how}"), RNG.standard_normal((6, 10, 7)) * 2
    ids = np.sort(RNG.integers(0, 9, (60,)) * 2).reshape(6, 10)
    for dtype, off in (("float32", 1e-6), ("int64", 0.0)):
        alike(op, x.astype(dtype), ids, off=off)
        alike(op, x.astype(dtype), ids[:, 0].astype(np.int32), off=off)
    assert len(compiled) == 8 and None not in compiled
