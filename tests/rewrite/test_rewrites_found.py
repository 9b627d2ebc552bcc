"""Rewrites of what users write out and of whole models: what is found, logged, verified."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError, LoweringError
from gradwright.rewrite import RULES, rewrite, verify_rewrites
from gradwright.rewrite.table import Rule, register
from gradwright.rewrite.verify import Verifier
from tests.support.graph_programs import feeds_for, program_of, run

# -- written out -----------------------------------------------------------------------------------


def names(program):
    return [i.op.name for i in program.instrs]


def layer_norm(x, w, b, root):
    centred = x - x.mean(-1, keepdims=True)
    return root(centred, (centred**2.0).mean(-1, keepdims=True) + 1e-5) * w + b


@pytest.mark.parametrize(
    "root",
    [
        lambda c, v: c / gw.sqrt(v),
        lambda c, v: c * gw.rsqrt(v),
        lambda c, v: c / v**0.5,
        lambda c, v: c * v ** (-0.5),
        lambda c, v: c * (1.0 / gw.sqrt(v)),
        lambda c, v: gw.reciprocal(gw.sqrt(v)) * c,
    ],
)
def test_layer_norm_written_out_is_one_op(root):
    g = gw.Graph()
    x, w, b = g.placeholder("x", ("B", 4)), g.placeholder("w", (4,)), g.placeholder("b", (4,))
    y = layer_norm(x, w, b, root)
    program = verify_rewrites(program_of(y))
    assert names(program) == ["layer_norm"]
    feeds = feeds_for([x, w, b], 2, None)
    mean = feeds["x"].mean(-1, keepdims=True)
    deviation = np.sqrt(feeds["x"].var(-1, keepdims=True) + 1e-5)
    expected = (feeds["x"] - mean) / deviation * feeds["w"] + feeds["b"]
    np.testing.assert_allclose(run(program, feeds)[0], expected, rtol=1e-5, atol=1e-6)


def test_softmax_written_out_does_not_overflow():
    g = gw.Graph()
    x = g.placeholder("x", (3,))
    e, shifted = gw.exp(x), gw.exp(x - x.max(-1, keepdims=True))
    forms = [
        (e / e.sum(-1, keepdims=True), "softmax", [0.0, 0.5, 0.5]),
        (shifted / shifted.sum(-1, keepdims=True), "softmax", [0.0, 0.5, 0.5]),
        (
            gw.log(e / e.sum(-1, keepdims=True)),
            "log_softmax",
            [-1000 - np.log(2), -np.log(2), -np.log(2)],
        ),
        (
            x - gw.log(e.sum(-1, keepdims=True)),
            "log_softmax",
            [-1000 - np.log(2), -np.log(2), -np.log(2)],
        ),
        (gw.log(e.sum(-1)), "logsumexp", 1000 + np.log(2)),
        (
            x.max(-1) + gw.log(shifted.sum(-1)),
            "logsumexp",
            1000 + np.log(2),
        ),
    ]
    for y, name, expected in forms:
        program = verify_rewrites(program_of(y))
        assert names(program) == [name]
        (found,) = run(program, {"x": np.array([0.0, 1000.0, 1000.0], np.float32)})
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("last", [True, False])
def test_cross_entropy_written_out_has_a_stable_gradient(last):
    """The gradient of −Σ y·log(softmax(x)) is softmax(x)·Σy − y, also where shares are 0."""
    g = gw.Graph()
    x, y = g.placeholder("x", ("B", 4)), g.placeholder("y", ("B", 4))
    axis = -1 if last else 0
    loss = -(y * gw.log(gw.nn.softmax(x, axis=axis))).sum()
    (dx,) = gw.gradients(loss, [x])
    session = gw.Session(g, check="rewrites")
    logits = np.array([[0.0, 500.0, 1.0, -500.0], [1.0, 2.0, 3.0, 4.0]], np.float32)
    labels = np.array([[0, 0, 0, 1], [0.25, 0.25, 0.5, 0]], np.float32)
    value, found = session.run([loss, dx], {"x": logits, "y": labels})
    wide = logits.astype(np.float64)
    p = np.exp(wide - wide.max(axis, keepdims=True))
    p /= p.sum(axis, keepdims=True)
    np.testing.assert_allclose(found, p * labels.sum(axis, keepdims=True) - labels, atol=1e-6)
    assert np.isfinite(value)
    assert session.run([loss], {"x": logits, "y": labels})[0] == value


@pytest.mark.parametrize("last", [True, False])
def test_its_gradient_through_the_shares_is_as_stable(last):
    """Where the gradient of the shares is asked for too, what passes them is found by a rule."""
    g = gw.Graph()
    x, y = g.placeholder("x", ("B", 4)), g.placeholder("y", ("B", 4))
    axis = -1 if last else 0
    p = gw.nn.softmax(x, axis=axis)
    dx, _ = gw.gradients(-(y * gw.log(p)).sum(), [x, p])
    session = gw.Session(g, check="rewrites")
    logits, labels = np.array([[0.0, 500.0], [900.0, 0.0]] * 2, np.float32).T, np.eye(4)[:2]
    found = session.run(dx, {"x": logits, "y": labels})
    wide = np.exp(logits - logits.max(axis, keepdims=True), dtype=np.float64)
    shares = wide / wide.sum(axis, keepdims=True)
    np.testing.assert_allclose(found, shares * labels.sum(axis, keepdims=True) - labels, atol=1e-6)
    counts = session.plan([dx], {"x": (2, 4), "y": (2, 4)}).rewrites.counts
    assert counts["log_softmax_grad" if last else "log_softmax_grad_of_parts"] == 1


def test_attention_scales_queries_rather_than_scores():
    g = gw.Graph()
    q, k, v = (g.placeholder(name, ("B", 64, 8)) for name in "qkv")
    y = gw.nn.softmax((q @ k.mT) * 0.35) @ v
    program = verify_rewrites(program_of(y))
    assert names(program) == ["transpose", "mul", "matmul", "softmax", "matmul"]
    assert program.specs[program.instrs[1].outs[0]].shape == (2, 64, 8)
    whole = program_of(y, lowers=("scaled_dot_product_attention",))
    assert names(verify_rewrites(whole)) == ["scaled_dot_product_attention"]


@pytest.mark.parametrize(
    "build",
    [
        lambda x: 0.5 * x * (1.0 + gw.erf(x / np.sqrt(2))),
        lambda x: x * (0.5 * (gw.erf(x * np.sqrt(0.5)) + 1.0)),
        lambda x: (x * (1.0 + gw.erf(x / 1.4142135381698608))) * 0.5,
        lambda x: gw.nn.gelu(x),
    ],
)
def test_gelu_is_found_in_any_order(build):
    g = gw.Graph()
    x = g.placeholder("x", ("B", 4))
    y = build(x)
    assert names(verify_rewrites(program_of(y, lowers=("gelu",)))) == ["gelu"]
    tail = rewrite(program_of(y))
    (found,) = run(tail, {"x": np.full((2, 4), -9.0, np.float32)})
    np.testing.assert_allclose(found, -9 * 1.1285884059538324e-19, rtol=1e-4)


@pytest.mark.parametrize("places", [True, False])
def test_gradients_of_all_pieces_are_joined(places):
    g = gw.Graph()
    x = g.placeholder("x", ("B", 3, 4))
    parts = [x[:, i] if places else x[:, i : i + 1] for i in (2, -3, 1)]
    loss = sum((part * part * (n + 1.0)).sum() for n, part in enumerate(parts))
    (dx,) = gw.gradients(loss, [x])
    program = verify_rewrites(program_of(dx))
    assert "strided_slice_grad" not in names(program)
    feeds = feeds_for([x], 2, None)
    factor = np.array([4.0, 6.0, 2.0], np.float32)[:, None]
    np.testing.assert_allclose(run(program, feeds)[0], feeds["x"] * factor, rtol=1e-6)
    (some,) = gw.gradients(
        (parts[0] ** 2.0).sum() + gw.exp(parts[1]).sum(), [x]
    )  # one place is left
    assert names(verify_rewrites(program_of(some))).count("strided_slice_grad") == 2


def test_moved_axes_meet_and_cancel():
    g = gw.Graph()
    x = g.placeholder("x", ("B", 3, 4))
    there = gw.transpose(x, (0, 2, 1))
    back = gw.transpose(gw.nn.relu(there * 2.0) + 1.0, (0, 2, 1))
    assert names(verify_rewrites(program_of(back))) == ["mul", "relu", "add"]


# -- the log ---------------------------------------------------------------------------------------


def test_the_log_says_what_changed_and_for_whom():
    g = gw.Graph("logged")
    x = g.placeholder("x", ("B", 4))
    e = gw.exp(x, name="<i>")
    y = gw.log(e.sum(-1, keepdims=True), name="top")
    log = gw.Session(g).plan(y, {"x": (2, 4)}).rewrites
    (entry,) = log.by_rule("logsumexp")
    assert log.counts == {"logsumexp": 1}
    assert [line.op.name for line in entry.before] == ["log", "exp", "sum"]
    assert [line.op.name for line in entry.after] == ["logsumexp"]
    assert {node.name for node in entry.origins} == {"<i>", "sum", "top"}
    assert len(log.before) == 3
    assert len(log.after) == 1
    text = str(log)
    assert "test_rewrites_found.py" in text
    assert "3 instructions became 1: logsumexp 1" in text
    html = log._repr_html_()
    assert "<i>" not in html
    assert "&lt;i&gt;" in html
    (instr,) = gw.Session(g).plan(y, {"x": (2, 4)}).program.instrs
    assert instr.origin.name == "top"
    assert {node.name for node in instr.origins} == {"<i>", "sum", "top"}


def test_a_long_chain_that_becomes_one_instruction_names_some_of_its_nodes():
    g = gw.Graph()
    x = g.placeholder("x", (2,))
    for _ in range(1000):
        x = x * 1.001
    program = rewrite(program_of(x))
    (instr,) = program.instrs
    assert instr.op.name == "mul" and 2 <= len(instr.origins) <= 64
    (found,) = run(program, {"x": np.ones(2, "f4")})
    np.testing.assert_allclose(found, np.full(2, 1.001**1000), rtol=1e-4)


def test_unknown_names_are_refused():
    with pytest.raises(GraphError, match=r"no rewrite 'mul_on'(.|\n)*'mul_one'"):
        gw.Session(gw.Graph(), skip_rewrites=["mul_on"])


# -- verification ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda at, instr: at.make(instr.op, instr.ins[0], instr.ins[0]), "changes values"),
        (lambda at, instr: instr.ins[1], "changes values"),
    ],
)
def test_a_wrong_rule_is_named(wrong, says):
    g = gw.Graph()
    x, y = g.placeholder("x", ("B", 4)), g.placeholder("y", ("B", 4))
    z = gw.nn.relu(x - y)
    bad = Rule("bad", "Wrong.", "x − y", "x − x", ("sub",), wrong, lambda x, y: x - y)
    register(bad)
    try:
        with pytest.raises(LoweringError, match=f"rewrite 'bad' {says}"):
            gw.Session(g, check="rewrites").plan(z, {"x": (2, 4), "y": (2, 4)})
        rewrite(program_of(z), ["bad"], Verifier(program_of(z)))
    finally:
        del RULES["bad"]
        gw.rewrite.table.refresh()


def test_a_rule_of_another_spec_does_not_fit():
    g = gw.Graph()
    x = g.placeholder("x", ("B", 4))
    narrow = Rule(
        "narrow", "Wrong.", "x", "x₀", ("exp",), lambda at, i: at.constant(np.zeros(3)), None
    )
    register(narrow)
    try:
        assert names(rewrite(program_of(gw.exp(x)))) == ["exp"]
    finally:
        del RULES["narrow"]
        gw.rewrite.table.refresh()


# -- whole models ----------------------------------------------------------------------------------


def decoder():
    """Return the loss of a small decoder, partly written out, its gradients and feeds."""
    g = gw.Graph("decoder")
    x = g.placeholder("x", ("B", 6, 8))
    labels = g.placeholder("labels", ("B", 6), "int64")
    weights = []

    def weight(name, *shape):
        weights.append(g.variable(name, shape, init=gw.init.he_normal()))
        return weights[-1]

    h = x
    for layer in range(2):
        with g.scope(f"block_{layer}"):
            w = g.variable("scale", (8,), init=1.0)
            weights.append(w)
            b = g.variable("shift", (8,), init=0.0)
            weights.append(b)
            z = layer_norm(h, w, b, lambda c, v: c / gw.sqrt(v))
            q, k, v = gw.split(z @ weight("qkv", 8, 24), 3, axis=-1)
            e = gw.exp((q @ k.mT) / np.sqrt(8.0) + (gw.nn.causal_mask(q @ k.mT) - 1.0) * 1e4)
            h = h + (e / e.sum(-1, keepdims=True)) @ v
            z = gw.nn.rms_norm(h) @ weight("up", 8, 16)
            h = h + (0.5 * z * (1.0 + gw.erf(z / np.sqrt(2.0)))) @ weight("down", 16, 8)
    loss = gw.loss.sparse_softmax_cross_entropy(labels, h @ weight("out", 8, 5))
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.standard_normal((3, 6, 8)).astype(np.float32),
        "labels": rng.integers(0, 5, (3, 6)),
    }
    return g, [loss, *gw.gradients(loss, weights)], feeds


def test_a_decoder_trains_alike_with_and_without_rewrites():
    g, targets, feeds = decoder()
    plain = gw.Session(g, skip_rewrites=RULES).run(targets, feeds)
    session = gw.Session(g, check="rewrites")
    for want, found in zip(plain, session.run(targets, feeds), strict=True):
        np.testing.assert_allclose(found, want, rtol=2e-4, atol=2e-6)
    counts = session.plan(targets, {k: v.shape for k, v in feeds.items()}).rewrites.counts
    assert counts["cse"] > 5
    gw.Session(g, check="replay").run(targets, feeds)


def test_a_thousand_changes_stop_at_a_fixed_point():
    g = gw.Graph()
    y = g.placeholder("x", (2, 2))
    for _ in range(300):
        y = gw.transpose(y.neg().neg() * 1.0)
    program = rewrite(program_of(y))
    assert names(program) == []
    assert len(program.log) >= 600


def test_sizes_that_only_a_run_tells():
    g = gw.Graph()
    x = g.placeholder("x", ("B",))
    found = gw.nonzero(x * 1.0 > 0.0)
    y = gw.gather(x, found[0] if isinstance(found, tuple) else found[:, 0]) * 1.0 - (-x.sum())
    session = gw.Session(g, check="rewrites")
    for values in ([1.0, -1.0, 3.0], [-1.0, -1.0], [2.0]):
        feed = np.array(values, np.float32)
        np.testing.assert_allclose(
            session.run(y, {"x": feed}), feed[feed > 0] + feed.sum(), rtol=1e-6
        )
