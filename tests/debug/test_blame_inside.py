"""Mutants inside of loops, branches, calls and composites, three deep: who is named, in which turn.

Every node of the bodies below is broken in four ways; the check has to name it by its address, in
the first turn in which its cotangents are wrong. Healthy loops, chaotic ones too, blame nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.debug.address import Address
from gradwright.debug.check.chain.cache import forget
from gradwright.debug.check.local import LocalCheck
from gradwright.debug.check.nodes import check_node
from gradwright.debug.float64 import Float64Run
from gradwright.debug.inside import Met, opened
from gradwright.graph import Node
from gradwright.op import Op, run_forward
from gradwright.ops.control.scan_op import Scan
from tests.debug.mutants import MUTATIONS, broken

RNG = np.random.default_rng(5)
XS = RNG.standard_normal((3, 2, 4))
Network = tuple[gw.Graph, gw.Tensor]


# -- networks with insides -------------------------------------------------------------------------


def recurrent() -> Network:
    """A scan over steps; in it a function, in that a cond with other formulas in its branches."""
    g = gw.Graph("recurrent")
    xs, start = g.placeholder("xs", (3, 2, 4)), g.variable("start", (2, 4), init=0.3)
    w = g.variable("w", (4, 4), init=RNG.standard_normal((4, 4)) / 2)
    b = g.variable("b", (4,), init=RNG.standard_normal(4) / 2)

    @gw.function("cell")
    def cell(h, x):
        return gw.cond(
            (x.sum() > 0.0).reshape(()),
            lambda: gw.tanh(h @ w + x) * gw.nn.sigmoid(x + b),
            lambda: gw.div(h, 1.0 + gw.exp(x * b), name="fall"),
            name="choose",
        )

    with g.scope("decoder"):
        last, ys = gw.scan(
            lambda h, x: (cell(h, x) + 0.5 * h, gw.square(h)), start, xs, name="walk"
        )
    return g, gw.add(last.mean(), gw.sin(ys).sum() * 0.1, name="loss")


def iterative() -> Network:
    """A while loop of Newton steps inside of a map; backwards in time, a scan in a scan."""
    g = gw.Graph("iterative")
    xs = g.placeholder("xs", (3, 2, 4))
    w = g.variable("w", (4,), init=np.abs(RNG.standard_normal(4)) + 0.5)

    def root(x):
        a = gw.nn.softplus(x * w).mean()
        return gw.while_loop(
            lambda c: c[0] < 3,
            lambda c: [c[0] + 1, gw.mul(c[1] + gw.div(a, c[1], name="part"), 0.5, name="half")],
            [g.constant(np.int64(0)), a + 1.0],
            name="newton",
        )[1]

    roots = gw.map_fn(root, xs, name="each")

    def outer(c, row):
        inner, _ = gw.scan(
            lambda d, v: (gw.cos(d * v + w, name="wave"), None), c, row, name="inner"
        )
        return inner * 0.7 + c, gw.log1p(gw.square(inner), name="size")

    last, sizes = gw.scan(outer, w, xs, reverse=True, name="outer")
    return g, gw.add(roots.sum(), last.sum() + sizes.mean(), name="loss")


NETWORKS = {"recurrent": recurrent, "iterative": iterative}


def met_inside(g: gw.Graph, loss: gw.Tensor) -> Iterator[Met]:
    """Yield all that runs inside of nodes of the user's, at any depth, in order."""
    run = Float64Run([loss, *g.trainable], {"xs": XS}, values=g.values.snapshot())

    def within(op: Op, xs: Sequence[Any], at: Address) -> Iterator[Met]:
        for level in opened(op, xs, at):
            for met in level:
                yield met
                if met.op.name in ("scan", "while", "cond", "call"):
                    yield from within(met.op, met.inputs, met.address)

    for node in run.nodes:
        if node.op.name in ("scan", "while", "cond", "call"):
            xs = [None if t is None else run.env[t] for t in node.inputs]
            yield from within(node.op, xs, Address(node.name))


def bodies(g: gw.Graph) -> Iterator[tuple[Address, Node]]:
    """Yield the nodes in bodies with their addresses in any turn."""

    def within(node: Node, at: Address) -> Iterator[tuple[Address, Node]]:
        attributes = node.op.attributes()
        for key, part in (("body", None), ("then_branch", "then"), ("else_branch", "else")):
            for inner in attributes[key].nodes if key in attributes else ():
                if inner.kind == "array":
                    there = at.into(inner.name, part)  # type: ignore[arg-type]
                    yield there, inner
                    yield from within(inner, there)

    for node in g.nodes:
        yield from within(node, Address(node.name))


def wrong(met: Met, how: str) -> bool:
    """Tell whether a mutant's cotangents are other than right at these values."""
    found = []
    for op in (met.op, broken(met.op, how)):
        check = LocalCheck(op, met.inputs, met.outputs, np.random.default_rng(1))
        found.append(np.array([*check.exact(check.gs).values()]))
    return not np.allclose(*found, rtol=1e-4)


def analytic(report: Any) -> list[np.ndarray[Any, Any]]:
    return [p.analytic for p in report.parameters.values()]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_mutant_inside_is_named_with_its_turn(name: str) -> None:
    g, loss = NETWORKS[name]()
    met: dict[str, list[Met]] = {}
    for found in met_inside(g, loss):
        met.setdefault(str(found.address.anywhere), []).append(found)
    right = analytic(gw.gradient_check(g, loss, {"xs": XS}, max_per_param=0))
    count, missed = 0, []
    for address, node in bodies(g):
        op = node.op
        if op.name in ("scan", "while", "cond", "call"):
            continue
        ran = met.get(str(address.anywhere), [])
        if not any(x is not None and x.dtype.kind == "f" for m in ran for x in m.inputs):
            continue
        for how in MUTATIONS:
            first = next((m.address for m in ran if wrong(m, how)), None)
            if first is None:
                continue
            node.op = broken(op, how)
            forget()  # a body never changes otherwise
            report = gw.gradient_check(g, loss, {"xs": XS}, max_per_param=0)
            if all(map(np.allclose, analytic(report), right, [1e-9] * 99)):
                assert report.passed, report  # nobody asks for what is wrong
                continue
            count += 1
            if [n.address for n in report.faults] != [first] or report.passed:
                missed.append((str(first), how, report.faults))
        node.op = op
    forget()
    assert count >= 40
    assert len(missed) <= 0.01 * count, missed
    assert gw.gradient_check(g, loss, {"xs": XS}, max_per_param=2).passed


@pytest.mark.parametrize("name", NETWORKS)
def test_healthy_loops_raise_no_alarm(name: str) -> None:
    g, loss = NETWORKS[name]()
    for seed in range(12):
        rng = np.random.default_rng(seed)
        xs = np.round(rng.standard_normal(XS.shape) * 4) / 4  # ties too
        report = gw.gradient_check(
            g, loss, {"xs": xs}, max_per_param=int(seed < 2), seed=seed, training=seed % 2 == 0
        )
        assert report.passed and not report.faults, report


def test_a_small_fault_behind_large_slopes_is_seen() -> None:
    slope = gw.define_op("test/slope", lambda x: 3.0 * x, vjp=lambda g, y, x: 3.3 * g)
    g = gw.Graph()
    w = g.variable("w", (3,), init=[0.2, 0.4, 0.6])
    ys = gw.map_fn(lambda x: 1e3 * x + 1e-4 * slope(x, name="slope"), w, name="each")
    report = gw.gradient_check(g, ys.sum(name="loss"))
    (fault,) = report.faults
    assert str(fault.address) == "each:0:slope" and str(fault.turns) == "in 3 of 3 turns"
    assert not report.passed and "test_blame_inside.py" in fault.where


def test_a_fault_that_begins_in_a_later_turn_is_named_there() -> None:
    late = gw.define_op(
        "test/late",
        lambda x: x**3,
        vjp=lambda g, y, x: gw.where(x > 1.5, 1.1, 1.0) * 3.0 * x * x * g,
    )
    g = gw.Graph()
    w = g.variable("w", (), init=0.1)
    start = g.constant(np.int64(0))
    _, y = gw.while_loop(
        lambda c: c[0] < 8,
        lambda c: [c[0] + 1, late(c[1], name="late") * 0.25 + 0.3 + c[1]],
        [start, w],
        name="climb",
    )
    report = gw.gradient_check(g, gw.log(y, name="loss"))
    (fault,) = report.faults
    values = [0.1]
    while len(values) < 8:
        values.append(values[-1] ** 3 * 0.25 + 0.3 + values[-1])
    wrong_turns = [i for i, v in enumerate(values) if v > 1.5]
    assert fault.address.turn == wrong_turns[0] > 2
    assert str(fault.turns) == f"in {len(wrong_turns)} of 8 turns"
    assert "'climb:" in report.findings[0].text and "1.1 times" in report.findings[0].text
    assert report.to_dict()["blame"][0]["inner"][0]["address"] == str(fault.address)


def test_a_loop_whose_own_reverse_is_wrong_is_blamed_itself() -> None:
    class Skewed(Scan):
        """A scan whose gradient is a tenth too large."""

        def pull(self, gs: Any, ys: Any, xs: Any, wanted: Any) -> Any:
            return [
                g * 1.1 if isinstance(g, gw.Tensor) else g for g in super().pull(gs, ys, xs, wanted)
            ]

    g = gw.Graph()
    w = g.variable("w", (4,), init=[0.1, 0.2, 0.3, 0.4])
    last, _ = gw.scan(lambda c, x: (gw.sin(c + x), None), 0.5, w, name="walk")
    node = last.node
    assert gw.gradient_check(g, last * 1.0).passed
    node.op = Skewed(**node.op.attributes())
    (fault,) = gw.gradient_check(g, last * 1.0).faults
    assert (str(fault.address), fault.inner) == ("walk", ())


def test_a_chaotic_loop_is_right_where_every_turn_is() -> None:
    """Differences through 60 turns of the logistic map say nothing, its turns do."""
    g = gw.Graph()
    w = g.variable("w", (), init=0.3)
    y, _ = gw.scan(lambda c, _: (3.9 * c * (1.0 - c), None), w, None, length=60, name="chaos")
    run = Float64Run([y], {}, values=g.values.snapshot())
    (node,) = run.nodes
    xs = [None if t is None else run.env[t] for t in node.inputs]
    ys = run_forward(node.op, xs)
    assert LocalCheck(node.op, xs, ys, np.random.default_rng(0)).run()[0] in ("fail", "unclear")
    assert check_node(node, node.op, xs, ys, np.random.default_rng(0)).verdict == "ok"


def test_a_constant_exponent_in_a_loop_needs_no_slope() -> None:
    """d/dp (−1)^p is no number, and nobody asks for it."""
    off = gw.define_op("test/off", lambda x: 2.0 * x, vjp=lambda g, y, x: 1.9 * g)
    g = gw.Graph()
    w = g.variable("w", (3,), init=[-1.0, -2.0, 1.5])
    two = g.constant(np.float32(2.0), name="two")
    good = gw.map_fn(lambda x: gw.pow(x, two, name="power"), w).sum()
    assert gw.gradient_check(g, good).passed
    bad = gw.map_fn(lambda x: off(gw.pow(x, two, name="power"), name="off"), w, name="each").sum()
    assert [str(n.address) for n in gw.gradient_check(g, bad).faults] == ["each:0:off"]


def test_a_vjp_mended_in_its_cell_is_right_in_loops_that_exist() -> None:
    def defined(factor: float) -> Callable[..., gw.Tensor]:
        return gw.define_op("test/mended", lambda x: 3.0 * x, vjp=lambda g, y, x: factor * g)

    slope = defined(2.0)
    g = gw.Graph()
    w = g.variable("w", (2,), init=[1.0, 2.0])
    loss = gw.map_fn(lambda x: slope(x, name="slope"), w, name="each").sum()
    assert [str(n.address) for n in gw.gradient_check(g, loss).faults] == ["each:0:slope"]
    defined(3.0)
    assert gw.gradient_check(g, loss).passed
