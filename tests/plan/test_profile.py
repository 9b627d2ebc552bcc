"""plan.profile: each step timed alone, with its rate, and nothing committed."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm.compiler import available
from gradwright.errors import FeedError

KERNELS = [
    "off",
    pytest.param("wait", marks=pytest.mark.skipif(not available(), reason="llvmlite")),
]
RNG = np.random.default_rng(0)
GIVEN = {"x": RNG.standard_normal((16, 8)).astype("f4")}


def training() -> tuple[gw.Graph, gw.Tensor, dict[gw.Tensor, gw.Tensor]]:
    g = gw.Graph()
    x = g.placeholder("x", ("B", 8))
    w = g.variable("w", init=RNG.standard_normal((8, 4)).astype("f4"))
    loss = gw.tanh(gw.matmul(x, w, name="product")).sum(name="loss")
    (grad,) = gw.gradients(loss, [w])
    return g, loss, {w: w - grad * 0.1}


@pytest.mark.parametrize("kernels", KERNELS)
def test_steps_have_times_and_rates(kernels: str) -> None:
    g, loss, updates = training()
    with gw.Session(g, kernels=kernels) as session:
        plan = session.plan(loss, {"x": (16, 8)}, updates, training=True)
        profile = plan.profile(GIVEN, repeats=3)
        (product,) = profile.of("product")
        assert product.flops == 2 * 16 * 8 * 4 and "GFLOP/s" in product.rate
        assert product.nbytes == 4 * (16 * 8 + 8 * 4 + 16 * 4)
        assert all(step.seconds > 0 for step in profile)
        assert profile.total == pytest.approx(sum(profile.by_what().values()))
        times = [step.seconds for step in profile.slowest(3)]
        assert times == sorted(times, reverse=True)
        rows = [row.node for row in plan.kernels if row.what != "view"]
        assert [step.row.node for step in profile] == rows
        assert ("kernel" in profile.by_what()) == (kernels == "wait")
        assert f"in {len(profile)} steps" in repr(profile) and "product" in str(profile)
        assert "<table>" in profile._repr_html_()


@pytest.mark.parametrize("kernels", KERNELS)
def test_a_profile_changes_no_variable_and_no_later_step(kernels: str) -> None:
    losses = []
    for profiled in (False, True):
        g, loss, updates = training()
        with gw.Session(g, kernels=kernels) as session:
            g.values["w"] = np.full((8, 4), 0.25, "f4")
            found = [session.run(loss, GIVEN, updates=updates) for _ in range(3)]
            if profiled:
                before = g.values["w"].copy()
                session.plan(loss, {"x": (16, 8)}, updates).profile(GIVEN, repeats=2)
                np.testing.assert_array_equal(g.values["w"], before)
            found += [session.run(loss, GIVEN, updates=updates) for _ in range(3)]
        losses.append([float(y) for y in found])
    assert losses[0] == losses[1] and len(set(losses[0])) == 6


@pytest.mark.parametrize("kernels", KERNELS)
def test_segments_that_values_decide_on_are_profiled_in_order(kernels: str) -> None:
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    y = gw.exp(gw.boolean_mask(x, x > 0.0), name="positive").sum()
    with gw.Session(g, kernels=kernels) as session:
        plan = session.plan(y, {"x": (6,)})
        profile = plan.profile({x: np.arange(-3.0, 3.0, dtype="f4")}, repeats=2)
    nodes = [step.row.node for step in profile]
    assert nodes.index("boolean_mask") < len(nodes) - 1 and profile.of("positive")


def test_feeds_are_those_of_the_plan() -> None:
    g, loss, _ = training()
    plan = gw.Session(g).plan(loss, {"x": (16, 8)})
    with pytest.raises(FeedError, match="'x' is not fed"):
        plan.profile({})
    with pytest.raises(FeedError, match="which the plan was made for"):
        plan.profile({"x": np.ones((3, 8), "f4")})


def test_a_plan_that_draws_is_profiled_without_a_key() -> None:
    g = gw.Graph()
    y = gw.nn.dropout(g.placeholder("x", (64,)), 0.5).sum(name="y")
    session = gw.Session(g, kernels="off")
    plan = session.plan(y, {"x": (64,)}, training=True)
    assert plan.profile({"x": np.ones(64, "f4")}, repeats=1).of("dropout")
