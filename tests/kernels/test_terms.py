"""Kernels that are written as terms, where their own samples do not lead: blocks, ties, faults."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradwrightError
from gradwright.op import find_op, run_forward

pytest.importorskip("triton", reason="Triton has wheels for Linux only")

from gradwright_kernels.rows import scan
from gradwright_kernels.scatter import chains
from tests.kernels.places import launched

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)


def exact(name: str, xs: list[Any], tolerance: float = 0.0, **attrs: Any) -> None:
    """Hold what the device makes of an op against its ``forward``."""
    op = find_op(name)(**attrs)
    got = launched(op, xs)
    assert got is not None
    for y, want in zip(got, run_forward(op, xs), strict=True):
        np.testing.assert_allclose(y, want, rtol=tolerance, atol=tolerance)
        assert y.dtype == np.asarray(want).dtype


def test_hyperbolic_sines_reach_to_the_largest_number() -> None:
    x = np.array([710.4, -710.4, 709.0, 0.0, -1e-300, np.inf])
    exact("sinh", [x], 1e-13)
    exact("cosh", [x], 1e-13)


@pytest.mark.parametrize("axis", [0, 1])
def test_running_sums_go_from_block_to_block(monkeypatch: pytest.MonkeyPatch, axis: int) -> None:
    monkeypatch.setattr(scan, "LONGEST", 4)
    monkeypatch.setattr(scan, "ELEMENTS", 8)
    x = RNG.standard_normal((7, 9)).astype("f4")
    exact("cumsum", [x], 1e-6, axis=axis, exclusive=True, reverse=True)
    exact("cumprod", [RNG.integers(-3, 4, (7, 9))], axis=axis)
    exact("cummax", [np.where(x > 1, np.float32(np.nan), x)], axis=axis)
    exact("logcumsumexp", [np.where(x > 0, x, np.float32(-np.inf))], 1e-6, axis=axis)


@pytest.mark.parametrize("how", ["sum", "prod", "max", "min"])
def test_values_of_one_place_are_joined_in_order(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """To the bit, over several blocks of values and of columns."""
    monkeypatch.setattr(chains, "ELEMENTS", 8)
    monkeypatch.setattr(chains, "WIDEST", 4)
    x, ids = RNG.standard_normal((11, 6)).astype("f4"), np.array([3, 0, 3, -1, 3, 1, 3, 1, 3, 3, 1])
    op = find_op(f"unsorted_segment_{how}")(num_segments=5)
    got = launched(op, [x, ids])
    assert got is not None
    want = np.full((5, 6), {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf}[how], "f4")
    join = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[how]
    for row, place in zip(x, ids, strict=True):
        if place >= 0:
            want[place] = join(want[place], row)
    np.testing.assert_array_equal(got[0], want)


def test_the_last_of_several_writes_counts_and_halves_are_rounded_once() -> None:
    table, ids = np.zeros((4, 3), "f4"), np.array([[1], [1], [3], [1]])
    exact("scatter_nd_update", [table, ids, RNG.standard_normal((4, 3)).astype("f4")])
    g = np.full((60, 1), 0.1, np.float16)
    exact("gather_grad", [g, np.zeros(60, np.int64), np.zeros((2, 1), np.float16)], axis=0)
    g = np.ones((4, 1), bool)  # of which an even number is still true
    exact("gather_grad", [g, np.zeros(4, np.int64), np.zeros((2, 1), bool)], axis=0)


def test_views_may_begin_anywhere() -> None:
    """Behind an element of four bytes no load of sixteen begins: kernels by hand get a copy."""
    g, x, labels = (
        gw.Graph(),
        RNG.standard_normal((4, 3)).astype("f4"),
        np.array([9, 0, 2, 1], "i4"),
    )
    held, named = g.placeholder("x", (4, 3)), g.placeholder("labels", (4,), "int32")
    part, rest = held[1:], named[1:]
    asked = [
        gw.cumsum(part, axis=0),
        gw.loss.sparse_softmax_cross_entropy(rest, part),
        gw.unsorted_segment_sum(part, rest, 3),
    ]
    feeds = {held: x, named: labels}
    with gw.Session(g) as host, gw.Session(g, device="cuda-sim") as session:
        for got, want in zip(session.run(asked, feeds), host.run(asked, feeds), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "int64"])
@pytest.mark.parametrize("descending", [False, True])
def test_rows_are_in_order(dtype: str, descending: bool) -> None:
    """Ties keep their order, NaN is largest, and so are the ends of what a dtype holds."""
    x = RNG.integers(0, 4, (2, 19)).astype(dtype)
    if x.dtype.kind == "f":
        x[:, [2, 9]], x[:, 5], x[:, 11] = np.nan, -np.inf, np.inf
    else:
        x[:, 2], x[:, 9] = np.iinfo(dtype).min, np.iinfo(dtype).max
    exact("sort", [x], axis=1, descending=descending)
    exact("top_k", [x], k=5, largest=descending)
    exact("argmax" if descending else "argmin", [x], axis=1, last=descending)


def test_ints_wrap_around_and_are_compared_as_what_they_are() -> None:
    a, b = (RNG.integers(0, 256, (3, 7)).astype("u1") for _ in range(2))
    for name in ("add", "sub", "mul", "bitwise_xor", "maximum", "greater"):
        exact(name, [a, b])
        exact(name, [a.view("i1"), b.view("i1")])
    exact("bitwise_and", [np.array([2**64 - 1, 5], "u8"), np.array([2**63 + 3, 4], "u8")])
    large = np.array([2**64 - 1, 2**63 + 3, 2**63 + 9], "u8")
    exact("min", [large], axis=0)
    exact("unsorted_segment_min", [large, np.array([0, 2, 2])], num_segments=4)
    exact("matmul", [RNG.integers(-(2**40), 2**40, (2, 3, 5)), RNG.integers(0, 2**40, (5, 4))])


WRONG: dict[str, tuple[Callable[..., gw.Tensor], list[Any]]] = {
    "embedding": (gw.nn.embedding, [np.array([0, -1]), np.ones((4, 2), "f4")]),
    "gather": (gw.gather, [np.ones((1, 2), "f4"), np.array([0, 1])]),
    "gather_nd": (gw.gather_nd, [np.ones((3, 2), "f4"), np.array([[2, 5]])]),
    "take_along_axis": (
        functools.partial(gw.take_along_axis, axis=1), [np.ones((3, 2), "f4"), np.full((3, 1), 2)]
    ),
    "scatter_update": (
        gw.scatter_update, [np.ones((3, 2), "f4"), np.full((3, 1), -3), np.ones((3, 1), "f4")]
    ),
    "unsorted_segment_sum": (
        functools.partial(gw.unsorted_segment_sum, num_segments=2), [np.ones(3), np.arange(3)]
    ),
    "kv_scatter": (
        gw.nn.kv_scatter,
        [np.ones((1, 2, 4, 3), "f4"), np.ones((1, 2, 2, 3), "f4"), np.array([3])],
    ),
    "grouped_matmul": (
        gw.nn.grouped_matmul, [np.ones((3, 2), "f4"), np.ones((2, 2, 2), "f4"), np.array([1, 1])]
    ),
    "token_sample": (gw.nn.token_sample, [np.array([[1.0, np.nan]], "f4")]),
    "reverse_sequence": (gw.reverse_sequence, [np.ones((2, 3), "f4"), np.array([1, 4])]),
}  # fmt: skip
"""Calls with a number that names nothing, by op."""


@pytest.mark.parametrize("name", WRONG)
def test_wrong_numbers_raise_what_the_cpu_raises(name: str) -> None:
    make, given = WRONG[name]
    said = []
    for device in ("cpu", "cuda-sim"):
        g = gw.Graph()
        xs = [g.placeholder(f"x{n}", x.shape, x.dtype) for n, x in enumerate(given)]
        with gw.Session(g, device=device) as session, pytest.raises(GradwrightError) as caught:
            session.run(make(*xs, name="y"), dict(zip(xs, given, strict=True)))
        said.append((type(caught.value), str(caught.value).partition(":")[0]))
    assert said[0] == said[1]
