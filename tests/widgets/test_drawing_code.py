"""Nodes as code: what is copied builds the same nodes again."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import gradwright as gw
from gradwright.op import OPS
from gradwright_widgets.drawing.code import program


def built(code):
    """Return the graph that code builds."""
    names = {}
    exec(compile(code, "<copied>", "exec"), names)
    return names["g"]


def small():
    g = gw.Graph('di"gits')
    x = g.placeholder("x", ("B", 1, 8, "W"))
    with g.scope("body"):
        w = g.variable("w", (4, 1, 3, 3), init=gw.init.he_normal(seed=0))
        y = gw.nn.relu(gw.cnn.conv2d(x, w, stride=(2, 1), padding="same"))
        parts = gw.split(y, 2, axis=1)
        y = parts[0] * 2.0 + parts[1]
    loss = y.reshape((-1, 8)).mean(name="loss")
    return g, loss


def test_a_whole_graph_is_built_again_and_computes_the_same():
    g, loss = small()
    again = built(program(g, g.nodes))
    assert [n.op for n in again.nodes] == [n.op for n in g.nodes]
    assert [str(t.spec) for n in again.nodes for t in n.outputs] == [
        str(t.spec) for n in g.nodes for t in n.outputs
    ]
    again.values["body/w"] = g.values["body/w"]
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 1, 8, 6)).astype("f4")}
    ours, theirs = g.output(feeds, loss), again.output(feeds, again.nodes[-1].outputs[0])
    assert [*ours.values()] == [*theirs.values()]


def test_a_part_takes_what_it_reads_as_placeholders():
    g, _ = small()
    code = program(g, [g["body/relu"].node, g["body/conv2d"].node])
    assert 'x = g.placeholder("x", ("B", 1, 8, "W"))' in code
    assert "conv2d = gw.cnn.conv2d(x, w, stride=(2, 1), padding='same')" in code
    assert [n.op.name for n in built(code).nodes] == [
        "placeholder",
        "placeholder",
        "conv2d",
        "relu",
    ]


def test_every_op_that_has_a_line_is_built_again_by_it():
    gw.ops.table()  # defines all
    rng = np.random.default_rng(0)
    written = 0
    for cls in [c for c in OPS.values() if c.namespace and "/" not in c.name]:
        g, node = gw.Graph(), None
        with contextlib.suppress(Exception):  # samples that only their own harness can build
            sample = next(iter(cls.samples(rng)))
            made = cls(**sample.attrs)(*[x if x is None else g.constant(x) for x in sample.inputs])
            node = (made[0] if isinstance(made, tuple) else made).node
        if node is None:
            continue
        try:
            code = program(g, [node])
        except gw.errors.GraphError as error:
            assert "holds a body" in str(error), cls.name
            continue
        again = built(code).nodes[-1]
        assert again.op == node.op, code
        assert [str(t.spec).count(",") for t in again.outputs] == [
            str(t.spec).count(",") for t in node.outputs
        ], code
        written += 1
    assert written > 600


def test_values_and_names_stay_data():
    g = gw.Graph("class")
    x = g.placeholder("import", (3,), dtype="int64")
    y = x + g.constant([1, 2, 3])
    g.constant(["info", "nan"], dtype="str")
    z = gw.cast(y, "float16") * np.float16("inf")
    z.node.graph.constant(np.arange(100.0), name='__import__("os")')
    again = built(program(g, g.nodes))
    assert len(again.nodes) == len(g.nodes)
    held = [again.values.array(n.name) for n in again.nodes if n.kind == "constant"]
    assert [h.tolist() for h in held[:2]] == [[1, 2, 3], ["info", "nan"]]
    assert np.isinf(held[2]) and held[3].shape == (100,)


def test_what_holds_a_body_says_so():
    g = gw.Graph()
    xs = g.placeholder("xs", ("T", 2))
    last, _ = gw.scan(lambda c, x: (c + x, None), np.zeros(2, "f4"), xs)
    with pytest.raises(gw.errors.GraphError, match="holds a body"):
        program(g, [last.node])
