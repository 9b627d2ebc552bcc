"""Addresses: one value for a place inside composites, functions, branches and turns of loops."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gradwright as gw
from gradwright.debug.address import Address
from gradwright.graph import Graph


@pytest.fixture(scope="module")
def graph() -> Graph:
    """A loop in a scope; in it a function, in that a cond with a composite in one branch."""
    g = gw.Graph("nested")
    xs = g.placeholder("xs", (4, 3))
    start = g.placeholder("start", (3,))

    @gw.function("cell")
    def cell(c, x):
        positive = (c.sum() > 0.0).reshape(())
        return gw.cond(
            positive,
            lambda: gw.nn.silu(c + x, name="glow"),
            lambda: gw.sub(c, x, name="fall"),
            name="choose",
        )

    with g.scope("decoder"):
        gw.scan(lambda c, x: (cell(c, x), c), start, xs, name="walk")
    gw.while_loop(
        lambda c: c.sum() < 10.0, lambda c: gw.add(c, 1.0, name="more"), start, name="climb"
    )
    return g


DEEP = "decoder/walk:3:cell::choose:then:glow::mul"
TEXTS = ["xs", "decoder/walk", "norm::mean", "walk:0:add", "walk::add", "choose:else:fall", DEEP]


@pytest.mark.parametrize("text", TEXTS)
def test_text_and_value_are_one(text: str) -> None:
    address = Address.parse(text)
    assert str(address) == text and Address.parse(json.loads(json.dumps(str(address)))) == address
    assert len({address, Address.parse(text)}) == 1


def test_what_it_says_of_itself() -> None:
    deep = Address.parse(DEEP)
    assert deep.node == "mul" and deep.turn == 3
    assert [level.part for level in deep.levels] == [3, None, "then", None]
    assert str(deep.outer) == "decoder/walk:3:cell::choose:then:glow"
    assert str(deep.anywhere) == "decoder/walk::cell::choose:then:glow::mul"
    assert Address("xs").outer is None and Address("xs").turn is None
    made = Address("decoder/walk").into("cell", 3).into("choose").into("glow", "then").into("mul")
    assert made == deep
    nested = Address.parse("outer:1:inner:5:add")
    assert (nested.turn, nested.outer and nested.outer.turn) == (5, 1)


def test_an_open_address_covers_those_of_all_turns() -> None:
    shown, third = Address.parse("a::b:2:c"), Address.parse("a:3:b:2:c")
    assert shown.covers(third) and shown.covers(shown) and not third.covers(shown)
    assert not shown.covers(Address.parse("a:3:b:1:c"))
    assert not shown.covers(Address.parse("a:3:b:2:d"))
    assert not shown.covers(Address.parse("a:3:b"))


@pytest.mark.parametrize("text", ["", "a:", "a:3", ":3:a", "a:x:b", "a:-1:b", "a:b:c:d", "a::"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(gw.errors.GraphError):
        Address.parse(text)


def test_it_leads_through_every_kind_of_inside(graph: Graph) -> None:
    node, within = Address.parse(DEEP).find(graph)
    assert node.op.name == "mul" and len(within) == 4
    assert all(node in sub.nodes for sub in within[-1:])
    assert Address.parse("decoder/walk").find(graph).within == ()
    fall = Address.parse("decoder/walk:0:cell::choose:else:fall").find(graph)
    assert fall.node.op.name == "sub"
    same = [Address.parse(f"decoder/walk:{turn}:cell").find(graph).node for turn in ("0", "3", "")]
    assert len(set(same)) == 1
    assert Address.parse("climb:1000:more").find(graph).node.op.name == "add"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("decoder/walks", "no node in the graph is called 'decoder/walks'"),
        ("decoder/walk:0:sell", "no node inside 'decoder/walk' is called 'sell'"),
        ("decoder/walk:4:cell", "'decoder/walk' has no turn 4"),
        ("decoder/walk:then:cell", "'decoder/walk' is a loop"),
        ("decoder/walk:1:cell:2:choose", "'decoder/walk:1:cell' is neither loop nor cond"),
        ("decoder/walk::cell::choose::fall", "'decoder/walk::cell::choose' has two branches"),
        ("decoder/walk::cell::choose:else:fall::x", "primitive"),
        ("xs::y", "primitive"),
    ],
)
def test_what_is_not_there_is_named(graph: Graph, text: str, said: str) -> None:
    with pytest.raises(gw.errors.GraphError, match=said):
        Address.parse(text).find(graph)


def test_names_are_those_that_a_stepper_meets(graph: Graph) -> None:
    """The turn is the number that the body is given, and the names inside are the stepper's."""
    feeds = {"xs": np.ones((4, 3), "f4"), "start": np.ones(3, "f4")}
    stepper = gw.Stepper(graph, fetches=["decoder/walk"], feeds=feeds)
    stepper.run_to("decoder/walk")
    stepper.into()
    met = {n.name for n in stepper.nodes()}
    (body,) = Address.parse("decoder/walk:3:cell").find(graph).within
    assert {n.name for n in body.nodes if n.kind == "array"} == met
