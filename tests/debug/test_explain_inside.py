"""A gradient's path through loops, branches, calls and composites, at any depth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.debug.address import Address
from tests.debug.explained import Net, held_against_the_gradient, recurrence

# -- turns of loops --------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "verdict"), [(0.5, "small"), (1.0, "ordinary"), (1.9, "large")])
def test_rates_of_a_recurrence(size: float, verdict: str) -> None:
    """h·w with w = size·(a rotation): what is carried changes by that much in every turn."""
    g, loss = recurrence(size, act=lambda v: v * 1.0)
    feeds = {"x": np.zeros((30, 6))}
    found = gw.explain_gradient(g, loss, "h0", feeds)
    held_against_the_gradient(found, g, loss, feeds)
    assert found.verdict == verdict
    turns = found.turns["rnn"]
    assert turns.numbers == tuple(range(29, -1, -1))
    np.testing.assert_allclose(turns.rate, size, rtol=1e-5)
    if verdict != "ordinary":
        cause = next(c for c in found.causes if c.kind == "turns")
        assert f"by {size:.3g} per turn" in cause.text
        assert "matmul 'rnn:" in cause.text
        np.testing.assert_allclose(cause.gain, size**30, rtol=1e-4)


def test_norms_of_turns_are_those_of_the_carries() -> None:
    """Held against the gradient with respect to each carry of the loop written out."""
    g, loss = recurrence(0.7)
    x = np.random.default_rng(2).standard_normal((30, 6))
    found = gw.explain_gradient(g, loss, "h0", {"x": x})
    w, h = g.values["w"].astype("f8"), g.values["h0"].astype("f8")
    carries = [h]
    for v in x:
        carries.append(np.tanh(carries[-1] @ w + 0.01 * v.astype("f4")))
    back, norms = 2 * carries[-1], []
    for after in carries[:0:-1]:
        back = (back * (1 - after**2)) @ w.T
        norms.append(np.linalg.norm(back))
    np.testing.assert_allclose(found.turns["rnn"].norms, norms, rtol=1e-6)


def test_weights_of_a_recurrence() -> None:
    """What a loop captures gets most from the last turns; the path goes through such a one."""
    g, loss = recurrence(0.5)
    found = gw.explain_gradient(g, loss, "w", {"x": np.ones((30, 6))})
    assert found.verdict == "ordinary"
    inner = [s.address for s in found.steps if s.address.levels]
    assert inner
    assert all(a.turn is not None and a.turn > 20 for a in inner)
    assert all(a.find(g).node.op.title for a in inner)


def test_the_turn_that_kills_it() -> None:
    """The relu is off in turn 7 alone: nothing passes to what comes before it."""
    g = gw.Graph()
    x, h0 = g.placeholder("x", (20, 4)), g.variable("h0", (4,), init=1.0)
    last, _ = gw.scan(lambda h, v: (gw.nn.relu(h + v, name="gate"), ()), h0, x, name="loop")
    loss = gw.sin(last).sum(name="loss")
    rows = np.zeros((20, 4))
    rows[7] = -5.0
    rows[8] = 1.0
    found = gw.explain_gradient(g, loss, h0, {"x": rows})
    assert (found.verdict, found.culprits) == ("zero", ("loop:7:gate",))
    assert found.turns["loop"].norms[-1] == 0
    backwards, _ = gw.scan(
        lambda h, v: (gw.nn.relu(h + v, name="gate"), ()), h0, x, reverse=True, name="back"
    )
    loss = gw.sin(backwards).sum(name="loss_2")
    rows[6] = 1.0
    found = gw.explain_gradient(g, loss, h0, {"x": rows})
    assert found.culprits == ("back:7:gate",)


def test_a_while_loop() -> None:
    g = gw.Graph()
    x = g.variable("x", init=1.1)
    y = gw.while_loop(lambda c: c < 1e6, lambda c: c * c * 1.5, x, name="loop")
    found = gw.explain_gradient(g, gw.square(y).sum(name="loss"), x, {})
    assert found.verdict == "large"
    assert found.turns["loop"].numbers == (4, 3, 2, 1, 0)
    assert any(n.startswith("loop:") for n in found.culprits)
    z = gw.while_loop(lambda c: c < 9.0, lambda c: gw.floor(c * 2.0, name="f"), x, name="steps")
    found = gw.explain_gradient(g, gw.square(z).sum(name="loss2"), x, {})
    assert (found.verdict, found.causes[0].kind) == ("zero", "flat")
    assert found.culprits[0].startswith("steps:")


# -- branches, calls, composites -------------------------------------------------------------------


def test_a_branch() -> None:
    net = Net()
    z = gw.cond(
        net.x.sum() < 1e9,
        lambda: gw.stop_gradient(net.z, name="held") * 1.0,
        lambda: net.z,
        name="choose",
    )
    found = net.why(net.loss(z))
    assert (found.verdict, found.culprits) == ("zero", ("choose:then:held",))
    assert found.causes[0].kind == "detached"


def test_a_call_within_a_branch_within_a_loop() -> None:
    g = gw.Graph()
    x, w = g.placeholder("x", (3, 4)), g.variable("w", (4,), init=1.0)

    @gw.function("head")
    def head(v: gw.Tensor) -> Any:
        return gw.nn.relu(v * w - 100.0, name="off")

    def row(v: gw.Tensor) -> Any:
        return gw.cond(v.sum() > 0.0, lambda: gw.exp(head(v)), lambda: v, name="choose")

    loss = gw.map_fn(row, x, name="rows").sum(name="loss")
    feeds = {"x": [[1.0] * 4, [-1.0] * 4, [2.0] * 4]}
    found = gw.explain_gradient(g, loss, w, feeds)
    held_against_the_gradient(found, g, loss, feeds)
    assert found.verdict == "zero"
    address = Address.parse(found.culprits[0])
    assert str(address.anywhere) == "rows::choose:then:head::off"
    assert address.turn in (0, 2)
    assert address.find(g).node.name == "off"
    assert "test_explain_inside.py" in found.causes[0].text


def test_a_map_whose_rows_are_dead_one_after_the_other() -> None:
    """A map carries nothing: its rows are alive or not, and there is no rate."""
    net = Net()
    y = gw.map_fn(lambda r: gw.nn.relu(r - 100.0), net.z, name="rows")
    found = net.why((y.sum() + net.z.mean() * 0.0 + 1.0).rename("loss"))
    assert found.verdict == "zero"
    assert any(n.startswith("rows:") for n in found.culprits)


def test_a_composite_is_opened_where_it_matters() -> None:
    """The norm divides by next to nothing: that is the division inside."""
    net = Net(scale=1e-6)
    n = gw.nn.layer_norm(net.h, eps=1e-20, name="ln")
    found = net.why(gw.sin(n).sum(name="loss"))
    assert found.verdict == "large"
    assert found.culprits[0].startswith("ln::")
    healthy = Net()
    n = gw.nn.layer_norm(healthy.h, name="ln")
    found = healthy.why(healthy.loss(n @ healthy.w2))
    assert not any(s.address.levels for s in found.steps)


# -- addresses -------------------------------------------------------------------------------------


def test_addresses_lead_to_the_nodes() -> None:
    """Every step of a path through a call, a branch, loops and composites is found in the graph."""
    g = gw.Graph()
    x, w = g.placeholder("x", (4, 3, 6)), g.variable("w", (6, 6), gw.init.orthogonal(seed=0))

    @gw.function("block")
    def block(v: gw.Tensor) -> Any:
        return gw.nn.layer_norm(v @ w * 1e-9, eps=1e-30)

    def row(v: gw.Tensor) -> Any:
        h, _ = gw.scan(lambda c, u: (gw.tanh(c @ w + u), ()), v[0], v, reverse=True, name="inner")
        return gw.cond(h.sum() < 1e9, lambda: block(h[None]), lambda: h[None], name="choose")

    loss = gw.sin(3.0 * gw.map_fn(row, x, name="outer")).sum(name="loss")
    feeds = {"x": np.random.default_rng(0).standard_normal((4, 3, 6))}
    found = gw.explain_gradient(g, loss, w, feeds)
    held_against_the_gradient(found, g, loss, feeds)
    depths = {len(s.address.levels) for s in found.steps}
    assert {0, 1, 2, 3} <= depths
    for step in found.steps:
        assert step.address.find(g).node.op.title == step.op
        assert Address.parse(str(step.address)) == step.address
        assert "test_explain_inside.py" in step.where
