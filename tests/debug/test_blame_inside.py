"""Mutants inside of loops, branches, calls and composites, three deep: who is named, in which turn.

Every node of the bodies below is broken in four ways; the check has to name it by its address, in
the first turn in which its cotangents are wrong. Healthy loops, chaotic ones too, blame nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.debug.address import Address
from gradwright.debug.check.blame import LocalCheck
from gradwright.debug.float64 import Float64Run
from gradwright.debug.inside import Met, opened
from gradwright.graph import Node
from gradwright.op import Op
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


@pytest.mark.parametrize("name", NETWORKS)
def test_a_mutant_inside_is_named_with_its_turn(name: str) -> None:
    g, loss = NETWORKS[name]()
    met: dict[str, list[Met]] = {}
    for found in met_inside(g, loss):
        met.setdefault(str(found.address.anywhere), []).append(found)
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
            count += 1
            node.op = broken(op, how)
            report = gw.gradient_check(g, loss, {"xs": XS}, max_per_param=0)
            if [n.address for n in report.faults] != [first] or report.passed:
                missed.append((str(first), how, report.faults))
        node.op = op
    assert count >= 45
    assert len(missed) <= 0.01 * count, missed
    assert gw.gradient_check(g, loss, {"xs": XS}, max_per_param=2).passed
