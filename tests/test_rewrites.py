"""Rewrites: each rule fires on its own example, can be left out, and changes no value."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradwrightError, GraphError, LoweringError
from gradwright.graph import ancestors
from gradwright.lowering import find_launch
from gradwright.op import infer_specs, run_forward
from gradwright.rewrite import RULES, Program, rewrite, verify_rewrites
from gradwright.rewrite.examples import example
from gradwright.rewrite.table import Rule, register
from gradwright.rewrite.verify import Verifier, difference

NAMES = list(RULES)
SPECIALS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.5, -3.5, 0.5, 7.0, -1e-3]
EXTREMES = [1e30, -1e30, 1e-30, -1e-30, 1e-42, 3e38, 88.0, -104.0]


def program_of(*targets, sizes=None, training=False, lowers=()):
    """Return the program of tensors as it comes from the graph, with all its values numbered."""
    sizes = {"B": 2, **(sizes or {})}
    program = Program(
        lambda op, ins, outs: op.name in lowers or find_launch(op, "cpu", ins, outs) is not None,
        training,
    )
    graph = targets[0].graph
    specs = {}
    for node in ancestors(targets):
        t = node.outputs[0]
        if node.kind in ("placeholder", "variable", "rng"):
            specs[t] = t.spec.substitute(sizes)
            program.numbers[t] = program.new_value(specs[t])
            program.sources[program.numbers[t]] = t
        elif node.kind == "constant":
            program.numbers[t] = program.constant(graph.values.array(node.name))
        else:
            op = node.op.for_mode(training).bind(sizes)
            ins = [None if i is None else program.numbers[i] for i in node.inputs]
            outs = infer_specs(op, [None if i is None else program.specs[i] for i in ins])
            made = program.emit(op, ins, outs, node, node.name)
            program.numbers.update(zip(node.outputs, made, strict=True))
    program.outputs = list(targets)
    return program


def run(program, feeds):
    """Run a program instruction by instruction with plain forwards; returns its outputs."""
    values = {**program.constants}
    values.update((i, feeds[t.name]) for i, t in program.sources.items())
    with np.errstate(all="ignore"):
        for instr in program.instrs:
            assert all(i is None or i in values for i in instr.ins), "read before it is made"
            xs = [None if i is None else values[i] for i in instr.ins]
            ys = run_forward(instr.op, xs, training=program.training)
            for o, y in zip(instr.outs, ys, strict=True):
                assert y.shape == program.specs[o].shape
                assert y.dtype == program.specs[o].dtype
                values[o] = y
    return [values[program.numbers[t]] for t in program.outputs]


def feeds_for(tensors, size, pool, seed=0):
    rng = np.random.default_rng(seed)
    found = {}
    for t in tensors:
        shape = t.spec.substitute({"B": size}).shape
        if t.dtype.kind == "b":
            found[t.name] = rng.random(shape) < 0.5
        elif t.dtype.kind in "iu":
            found[t.name] = rng.integers(-3, 9, shape).astype(t.dtype)
        elif pool is None:
            found[t.name] = rng.standard_normal(shape).astype(t.dtype)
        else:
            with np.errstate(over="ignore"):
                found[t.name] = rng.choice(pool, shape).astype(t.dtype)
    return found


def only(name):
    """Return the names of all rules but one."""
    return [n for n in NAMES if n != name]


def fired(program):
    return set(program.log.counts)


# -- every rule -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_fires_on_its_example_and_can_be_left_out(name):
    rule = RULES[name]
    y = example(rule)
    assert name in fired(verify_rewrites(program_of(y, lowers=rule.lowers)))
    program = program_of(y, lowers=rule.lowers)
    if name != "dead":  # which always goes
        assert name not in fired(rewrite(program, [name]))
    assert rule.doc.endswith(".")
    assert rule.before
    assert rule.after


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", NAMES)
def test_values_agree_with_the_rule_left_out(name, dtype):
    rule = RULES[name]
    try:
        y = example(rule, dtype)
    except GradwrightError:
        pytest.skip(f"the example has no {dtype}")
    for size in (0, 1, 2, 5):
        plain = rewrite(program_of(y, sizes={"B": size}, lowers=rule.lowers), NAMES)
        mine = rewrite(program_of(y, sizes={"B": size}, lowers=rule.lowers), only(name))
        every = rewrite(program_of(y, sizes={"B": size}, lowers=rule.lowers))
        for pool in (None, SPECIALS, SPECIALS + EXTREMES):
            feeds = feeds_for(y.graph.placeholders, size, pool)
            (want,) = run(plain, feeds)
            exact = rule.exact
            for found in (*run(mine, feeds), *run(every, feeds)):
                # What rounds or saves the plain form may differ where that is not finite.
                if name == "softmax":  # a row that holds infinity has none
                    found = np.where(np.isnan(want).any(-1, keepdims=True), want, found)
                assert not difference(want, found, exact=exact)
                exact = exact and all(RULES[r].exact for r in fired(every))


def test_no_rule_is_exact_by_name_alone():
    """A rule that changes a sign of zero, or a NaN, does not pass for exact."""
    zero = np.array([0.0, -0.0], np.float32)
    assert difference(zero, zero + 0.0, exact=True)
    assert not difference(zero, zero + 0.0, exact=False)
    assert difference(np.array([np.nan]), np.array([1.0]), exact=True)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_left_to_rewrite(name):
    program = rewrite(program_of(example(RULES[name]), lowers=RULES[name].lowers))
    held = [str(instr) for instr in program.instrs]
    program.log.entries.clear()
    rewrite(program)
    assert not program.log.entries
    assert [str(instr) for instr in program.instrs] == held


# -- what stays -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [
        lambda x, y: x * 0.0,
        lambda x, y: x + 0.0,
        lambda x, y: x - (-0.0),
        lambda x, y: 0.0 - x,
        lambda x, y: x - x,
        lambda x, y: x / x,
        lambda x, y: gw.exp(gw.log(x)),
        lambda x, y: gw.sqrt(x) ** 2.0,
        lambda x, y: x**0.5,
        lambda x, y: (x + 12582912.0) - 12582912.0,
        lambda x, y: (x + 1e8) + (-1e8),
        lambda x, y: (x * 1e30) * 1e30,
        lambda x, y: (x * 1e-30) * 1e-30,
        lambda x, y: gw.logical_not(x < y),
        lambda x, y: -(x - y),
        lambda x, y: gw.where(x > y, x, y),
    ],
)
def test_what_would_change_values_stays(build):
    g = gw.Graph()
    x, y = (g.placeholder(name, ("B", 4)) for name in "xy")
    z = build(x, y)
    feeds = feeds_for([x, y], 64, SPECIALS + EXTREMES)
    sizes = {"B": 64}
    (want,) = run(rewrite(program_of(z, sizes=sizes), NAMES), feeds)
    (found,) = run(rewrite(program_of(z, sizes=sizes)), feeds)
    assert not difference(want, found, exact=True)


def test_what_broadcasts_or_promotes_stays():
    g = gw.Graph()
    x = g.placeholder("x", (4,))
    wide = x * g.constant(np.ones((3, 1), np.float32))
    promoted = x * g.constant(np.ones((), np.float64))
    zeros = g.placeholder("i", (4,), "int32") + g.constant(np.zeros((), np.int64))
    program = rewrite(program_of(wide, promoted, zeros))
    assert [i.op.name for i in program.instrs] == ["mul", "mul", "add"]


def test_inner_values_that_are_needed_elsewhere_keep_their_ops():
    g = gw.Graph()
    x = g.placeholder("x", ("B", 4))
    e = gw.exp(x)
    shares = e / e.sum(-1, keepdims=True)
    alone = rewrite(program_of(shares))
    shared = rewrite(program_of(shares, e))
    assert [i.op.name for i in alone.instrs] == ["softmax"]
    assert [i.op.name for i in shared.instrs] == ["exp", "sum", "div"]
    scaled = x * 3.0
    twice = rewrite(program_of(scaled, scaled * 5.0))
    assert [i.op.name for i in twice.instrs] == ["mul", "mul"]


def test_random_ops_are_one_only_with_one_stream():
    g = gw.Graph()
    x = g.placeholder("x", (64,))
    y = gw.nn.dropout(x, p=0.5) + gw.nn.dropout(x, p=0.5)
    program = rewrite(program_of(y, training=True))
    assert [i.op.name for i in program.instrs] == ["dropout", "dropout", "add"]
    evaluated = rewrite(program_of(y, training=False))
    assert [i.op.name for i in evaluated.instrs].count("dropout") == 2


def test_copies_that_run_again_are_not_merged():
    g = gw.Graph()
    x = g.placeholder("x", (4,))
    program = program_of(gw.exp(x) + gw.exp(x))
    program.instrs[1].recompute = 1
    assert [i.op.name for i in rewrite(program).instrs] == ["exp", "exp", "add"]
    program = program_of(x.neg().neg())
    program.instrs[1].recompute = 1  # it must not reach back for what was to be let go
    assert len(rewrite(program).instrs) == 2


# -- written out ----------------------------------------------------------------------------------


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
    counts = session.plan([loss, dx], {"x": (2, 4), "y": (2, 4)}).rewrites.counts
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


# -- the log --------------------------------------------------------------------------------------


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
    assert "test_rewrites.py" in text
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


# -- verification ---------------------------------------------------------------------------------


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


# -- whole models ---------------------------------------------------------------------------------


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
