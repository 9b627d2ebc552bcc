"""16 bits mean one thing: float32 inside an op, one rounding at its end, in kernels and without."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm.compiler import available
from gradwright.gradient import gradients
from gradwright.op import infer_specs, run_forward
from gradwright.ops.core.elementwise import _Elementwise
from gradwright.ops.core.identity import AddN
from gradwright.spec import TensorSpec, dtype, is_half, kind
from gradwright.testing import samples
from tests.fused_programs import IN_KERNELS
from tests.random_graphs import ALL, is_plain
from tests.test_fused_ops import Batch

HALVES = "float16", "bfloat16"
with_kernels = pytest.mark.skipif(not available(), reason="llvmlite is not installed")


def last_run(graph: gw.Graph, fetches: Any, feeds: Any, kernels: str) -> Any:
    """Return what the plan gives once its kernels have taken over, with nobody looking on."""
    with gw.Session(graph, kernels=kernels) as session, np.errstate(all="ignore"):
        for _ in range(4):
            found = session.run(fetches, feeds, training=True, step=0)
    return found


def units(found: Any, want: Any) -> float:
    """Return the largest difference in units of the last place that a half has."""
    info = ml_dtypes.finfo(want.dtype)
    a, b = found.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(b), float(info.smallest_normal))
        unit = 2.0 ** np.floor(np.log2(size)) * float(info.eps)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        apart = np.where(same, 0.0, np.abs(a - b) / unit)
    return float(np.nan_to_num(apart, nan=np.inf).max(initial=0.0))


def halved(xs: Any, name: str) -> list[Any]:
    with np.errstate(over="ignore"):
        return [
            x if x is None or kind(x.dtype) != "f" else x.astype(dtype(name))
            for x in (None if x is None else np.asarray(x) for x in xs)
        ]


# -- kernels against numpy ------------------------------------------------------------------------

EXACT: tuple[Any, ...] = (
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x / y,
    lambda x, y: x * x,
    lambda x, y: x + 0.003,
    lambda x, y: x * 1.7 / 3.1,
    lambda x, y: (x * 3.0) * 5.0,
    lambda x, y: x * (1.0 / y),
    lambda x, y: -x,
    lambda x, y: gw.sqrt(gw.abs(x)),
    lambda x, y: gw.maximum(x, y),
    lambda x, y: gw.clip(x, -1.3, 2.7),
    lambda x, y: gw.where(gw.is_finite(x), x, y),
    lambda x, y: gw.where(x < y, x * y, y),
    lambda x, y: gw.squared_difference(x, y),
    lambda x, y: gw.nn.leaky_relu(x, negative_slope=0.3),
    lambda x, y: gw.nn.softsign(x),
    lambda x, y: gw.rsqrt(gw.abs(x) + y * y),
    lambda x, y: gw.add_n(x, y, x),
    lambda x, y: gw.cast(gw.cast(x * y, "float32") + 0.1, x.dtype),
)
"""Functions of elements whose steps every machine rounds alike."""


@with_kernels
@pytest.mark.parametrize("name", HALVES)
def test_chains_have_the_same_bits_in_kernels(name: str, rng: np.random.Generator) -> None:
    g = gw.Graph()
    x, y = (g.placeholder(n, (None,), dtype=name) for n in "xy")
    edges = [np.nan, np.inf, -np.inf, 0.0, -0.0, 6e-8, -1e-5, 1e-40, 300.0, 65504.0]
    drawn = [np.r_[rng.standard_normal(150) * 4, rng.permutation(edges)] for _ in range(2)]
    feeds = dict(zip("xy", halved(drawn, name), strict=True))
    made = []
    for _ in range(60):
        values = [x, y]
        for _ in range(rng.integers(2, 7)):
            a, b = (values[i] for i in rng.integers(len(values), size=2))
            values.append(EXACT[rng.integers(len(EXACT))](a, b))
        made += [values[-1], gw.is_finite(values[-1])]
    want = last_run(g, made, feeds, "off")
    found = last_run(g, made, feeds, "wait")
    alone = [g.output(feeds, t)[t.name] for t in made[:40]]
    for number, (a, b) in enumerate(zip(found, want, strict=True)):
        assert np.array_equal(a.astype("f4"), b.astype("f4"), equal_nan=True), number
    for number, (a, b) in enumerate(zip(alone, want[:40], strict=True)):
        assert np.array_equal(a.astype("f4"), b.astype("f4"), equal_nan=True), number


@with_kernels
@pytest.mark.parametrize("start", range(0, len(IN_KERNELS), 40))
def test_samples_in_kernels_are_within_a_unit(start: int) -> None:
    """Odd ops in float16, even ones in bfloat16: values, and gradients."""
    for number, name in enumerate(HALVES):
        batch = Batch(name)
        chosen = [cls for cls in ALL if cls.name in IN_KERNELS][start : start + 40]
        for cls in chosen[number::2]:
            batch.add(cls)
        want = last_run(batch.graph, batch.fetches, batch.feeds, "off")
        found = last_run(batch.graph, batch.fetches, batch.feeds, "wait")
        for t, a, b in zip(batch.fetches, found, want, strict=True):
            if is_plain(t) and is_half(b.dtype):
                assert units(a, b) <= 1, batch.labels[t]


# -- one rounding ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HALVES)
def test_ops_round_once(name: str) -> None:
    for cls in ALL:
        if not (cls.is_composite() or issubclass(cls, _Elementwise | AddN)):
            continue
        for sample in samples(cls)[:2]:
            op, xs = cls(**sample.attrs), halved(sample.inputs, name)
            if not op.rounds_once or cls.name in ("put", "flex_attention", "call"):
                continue
            wide = [x.astype("f4") if x is not None and is_half(x.dtype) else x for x in xs]
            with np.errstate(all="ignore"):
                pairs = zip(run_forward(op, xs), run_forward(op, wide), strict=True)
                for y, exact in pairs:
                    if is_half(y.dtype):
                        assert units(y, exact.astype(y.dtype)) == 0, op


def test_inexact_rewrites_leave_halves_alone() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (None,), dtype="bfloat16")
    feed = np.linspace(0.1, 9, 80).astype(ml_dtypes.bfloat16)
    for y, want in (
        ((x * 3.0) * 5.0, (feed * feed.dtype.type(3)) * feed.dtype.type(5)),
        (x**3.0, np.power(feed, feed.dtype.type(3))),
        ((x + 1.0) + 2.0, (feed + feed.dtype.type(1)) + feed.dtype.type(2)),
    ):
        assert np.array_equal(gw.Session(g, kernels="off").run(y, {"x": feed}), want)


# -- halves and ints ------------------------------------------------------------------------------

PAIRS: dict[str, tuple[Any, Any]] = {
    "xlogy": (gw.xlogy, lambda a, b: a * np.log(b)),
    "div_no_nan": (gw.div_no_nan, lambda a, b: a / b),
    "squared_difference": (gw.squared_difference, lambda a, b: (a - b) ** 2),
    "add_n": (gw.add_n, lambda a, b: a + b),
}


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("whole", ["int32", "int64", "uint8"])
def test_halves_beside_ints(pair: str, name: str, whole: str) -> None:
    call, formula = PAIRS[pair]
    arrays = np.array([0.5, 1.5, 2.75, 3.0]), np.array([1, 2, 3, 7])
    for half in (0, 1):
        names = (name, whole) if half == 0 else (whole, name)
        feeds = [a.astype(dtype(n)) for a, n in zip(arrays[:: 1 - 2 * half], names, strict=True)]
        a, b = (f.astype(np.float64) for f in feeds)
        g = gw.Graph()
        ins = [g.placeholder(f"x{i}", (4,), dtype=n) for i, n in enumerate(names)]
        y = call(*ins)
        (slope,) = gradients([y], [ins[half]], [g.constant(np.ones(4, dtype(name)))])
        step = 1e-6
        up, down = ([a, b] for _ in range(2))
        up[half], down[half] = up[half] + step, down[half] - step
        assert y.dtype == slope.dtype == dtype(name)
        for kernels in ("off", "wait") if available() else ("off",):
            found = last_run(g, [y, slope], dict(zip(("x0", "x1"), feeds, strict=True)), kernels)
            tolerance = 4 * float(ml_dtypes.finfo(name).eps)
            wanted = formula(a, b), (formula(*up) - formula(*down)) / (2 * step)
            for value, want in zip(found, wanted, strict=True):
                assert value.dtype == dtype(name)
                np.testing.assert_allclose(value.astype("f8"), want, tolerance, tolerance)


def test_composites_give_the_dtype_that_they_infer() -> None:
    """Of float16 beside bfloat16, which meet in float32."""
    for cls in ALL:
        if not cls.is_composite() or cls.name == "call":
            continue
        for sample in samples(cls)[:1]:
            op, xs = cls(**sample.attrs), halved(sample.inputs, "bfloat16")
            floats = [i for i, x in enumerate(xs) if x is not None and is_half(x.dtype)]
            if len(floats) < 2:
                continue
            xs[floats[-1]] = xs[floats[-1]].astype(np.float16)
            given = [x if x is None else TensorSpec(x.shape, x.dtype) for x in xs]
            try:
                specs = infer_specs(op, given)
            except gw.GradwrightError:
                continue
            with np.errstate(all="ignore"):
                found = run_forward(op, xs)
            assert [y.dtype for y in found] == [s.dtype for s in specs], op


# -- attention ------------------------------------------------------------------------------------


def _attention(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


KINDS: dict[str, Any] = {
    "whole": gw.nn.scaled_dot_product_attention,
    "masked": lambda q, k, v: gw.nn.scaled_dot_product_attention(
        q, k, v, q.graph.constant(np.zeros((24, 24), bool) == 0)
    ),
    "onnx": lambda q, k, v: gw.nn.attention(q, k, v)[0],
    "flash": gw.nn.flash_attention,
    "grouped": gw.nn.grouped_query_attention,
}


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("how", KINDS)
def test_attention_keeps_scores_in_float32(how: str, name: str, rng: np.random.Generator) -> None:
    drawn = [4 * rng.standard_normal((1, 2, 24, 16)) for _ in range(3)]
    feeds = dict(zip("qkv", halved(drawn, name), strict=True))
    g = gw.Graph()
    ins = [g.placeholder(n, (1, 2, 24, 16), dtype=name) for n in "qkv"]
    y = KINDS[how](*ins)
    y = y[0] if isinstance(y, tuple) else y
    seed = g.constant(halved([rng.standard_normal(y.shape)], name)[0])
    slopes = gradients([y], ins, [seed])
    wide = [feeds[n].astype(np.float64) for n in "qkv"]
    want = _attention(*wide)
    g64 = gw.Graph()
    ins64 = [g64.placeholder(n, (1, 2, 24, 16), dtype="float64") for n in "qkv"]
    y64 = gw.nn.scaled_dot_product_attention(*ins64)
    slopes64 = gradients([y64], ins64, [g64.constant(g.output({}, seed)[seed.name].astype("f8"))])
    exact = gw.Session(g64, kernels="off").run(slopes64, dict(zip("qkv", wide, strict=True)))
    unit = float(ml_dtypes.finfo(name).eps)
    for kernels in ("off", "wait") if available() else ("off",):
        found, *cotangents = last_run(g, [y, *slopes], feeds, kernels)
        apart = np.abs(found.astype("f8") - want) / (np.abs(want) + 0.4)
        assert apart.max() <= 0.6 * unit
        for a, b in zip(cotangents, exact, strict=True):
            assert np.abs(a.astype("f8") - b).max() <= 2 * unit * np.abs(b).max()
