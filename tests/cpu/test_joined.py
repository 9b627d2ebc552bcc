"""Tensors joined of parts that are made where they belong: random programs against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm.compiler import available

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")
N = 1024
"""Elements of a channel: a part of one is large enough."""


def random_program(seed, steps=12):
    """Return a graph of channels [1, c, N] that are joined, changed, cut and read again."""
    rng = np.random.default_rng(seed)
    g = gw.Graph()
    values = [g.placeholder("x", (1, 2, N))]
    with g:
        for _ in range(steps):
            a, b, c = (values[-min(rng.geometric(0.3), len(values))] for _ in range(3))
            kind = rng.integers(8)
            if kind < 4:
                made = gw.concat([a, b, c][: rng.integers(2, 4)], axis=1)
            elif kind == 4:
                made = gw.cumsum(a, axis=2) * 0.01  # a step of its own, which a kernel follows
            elif kind == 5:
                made = gw.sort(b, axis=2)
            elif kind == 6:
                made = gw.tanh(a).reshape(a.shape[1], N) if rng.integers(2) else a[:, :1] - 0.5
                made = made.reshape(1, -1, N)
            else:
                made = gw.tanh(a + b.mean(1, keepdims=True))
            values.append(made[:, :6] if made.shape[1] > 6 else made)
        fetched = [
            values[-1].sum(1),
            *(v.mean() for v in values),
            values[rng.integers(len(values))],
        ]
    return g, fetched


def run(g, fetched, kernels):
    x = np.random.default_rng(0).uniform(-1, 1, (1, 2, N)).astype("f")
    with gw.Session(g, kernels=kernels) as session:
        for _ in range(2):
            found = session.run(fetched, {"x": x})
        return found, session.plan(fetched, {"x": x.shape}).head.executor.laid


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_are_as_in_numpy(seed):
    g, fetched = random_program(seed)
    expected, _ = run(g, fetched, "off")
    ours, laid = run(g, fetched, "wait")
    for a, b in zip(ours, expected, strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-5)


def dense_block(x, nested):
    """Return the mean of what convolutions of all so far make, joined with all so far."""
    rng = np.random.default_rng(0)
    made, joined = [gw.tanh(x)], gw.tanh(x)
    for _ in range(3):
        shape = 16, int(joined.shape[1]), 3, 3
        weight = x.graph.constant(rng.standard_normal(shape).astype("f"))
        made.append(gw.nn.relu(gw.cnn.conv2d(gw.tanh(joined), weight, padding=1)))
        joined = gw.concat([joined, made[-1]] if nested else made, axis=1)
    return gw.cnn.avg_pool2d(joined, 2)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("batch", [1, 2])
def test_a_dense_block_copies_nothing_of_one_image(nested, batch):
    g = gw.Graph()
    x = g.placeholder("x", (batch, 16, 8, 8))
    y = dense_block(x, nested)
    feeds = {"x": np.random.default_rng(0).standard_normal(x.shape).astype("f")}
    expected = gw.Session(g, kernels="off").run(y, feeds)
    session = gw.Session(g, kernels="wait")
    np.testing.assert_allclose(session.run(y, feeds), expected, 0, 2e-5 * np.abs(expected).max())
    plan = session.plan(y, {"x": x.shape})
    laid = plan.head.executor.laid
    joins = [step for step, row in enumerate(plan.kernels) if row.ops == ("concat",)]
    assert len(joins) == 3
    assert all((laid.code[step][1] == ()) == (batch == 1) for step in joins)
    where = [row for row in plan.memory().rows if "where it is made" in row.reason]
    assert sum(row.nbytes for row in where) == 0 and len(where) == (6 if batch == 1 else 0)
