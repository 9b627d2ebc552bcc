"""The copy of a graph in 16 bits: what it casts and leaves, and its loops and branches."""

from __future__ import annotations

import numpy as np

import gradwright as gw
from gradwright.graph import ancestors
from gradwright.ops.core.movement import Cast
from tests.train.lowered import copy_of, products, run

F32 = np.float32


# -- how the copy is built -------------------------------------------------------------------------


def test_a_variable_is_cast_once_and_numbers_widen_nothing():
    g = gw.Graph()
    x, w = g.placeholder("x", (4, 4)), g.variable("w", (4, 4))
    y = gw.nn.relu((x @ w) * 0.5 + 1.0) @ w @ w
    copy = copy_of(g, y)
    made = copy.of(y)
    casts = [n for n in ancestors([made]) if isinstance(n.op, Cast)]
    assert sorted(n.inputs[0].name for n in casts if n.inputs[0].kind != "array") == ["w", "x"]
    assert len(casts) == 3  # and the result, which stands for one of float32
    by_op = {op: computes for _, op, computes, *_ in copy.table().rows}
    assert by_op == dict.fromkeys(("matmul", "mul", "add", "relu"), "bfloat16")


def test_a_number_that_16_bits_do_not_hold_keeps_float32():
    g = gw.Graph()
    x, w = g.placeholder("x", (4, 4)), g.variable("w", (4, 4), init=1.0)
    y = (x @ w) - 1e9
    z = (x @ w) + 1e-12
    copy = copy_of(g, y, z, precision="float16")
    found = run([copy.of(t) for t in (y, z)], {"x": np.ones((4, 4))})
    assert (found[0] == F32(4 - 1e9)).all() and (found[1] == 4).all()


def test_names_say_what_stands_for_what():
    g = gw.Graph()
    with g.scope("hidden"):
        w = g.variable("w", (3, 2))
        gw.nn.relu(gw.matmul(g.placeholder("x", (4, 3)), w, name="product"), name="out")
    made = copy_of(g, "hidden/out").of(g["hidden/out"])
    names = {n.name for n in ancestors([made]) if n.derived}
    assert names == {
        f"optimizer/bfloat16/hidden/{n}" for n in ("w", "x", "product", "out", "out/float32")
    }
    assert {n.origin.name for n in ancestors([made]) if n.derived} >= {"hidden/product", "hidden/w"}


def test_what_nothing_changes_in_is_shared():
    g = gw.Graph()
    x, w = g.placeholder("x", (4, 3)), g.variable("w", (3, 2))
    early, late = gw.exp(x), gw.sum(gw.exp(x) @ w)
    copy = copy_of(g, early, late)
    assert copy.of(early) is early and copy.of(w) is w and copy.of(late) is not late


def test_layers_that_are_kept_stay_in_float32():
    g = gw.Graph()
    h = g.placeholder("x", (4, 3))
    for name in ("body", "head"):
        with g.scope(name):
            h = gw.nn.linear(h, g.variable("w", (3, 3)), name="fc")
    rows = copy_of(g, h, precision=gw.Precision(keep=("head/*",))).table().rows
    assert {row[0]: row[2] for row in rows} == {"body/fc": "bfloat16", "head/fc": "float32"}


def test_float64_is_left_alone():
    g = gw.Graph()
    x, w = g.placeholder("x", (4, 3), "float64"), g.variable("w", (3, 2), dtype="float64")
    y = x @ w
    assert copy_of(g, y).of(y) is y


def test_composites_are_opened_where_they_hold_products():
    g = gw.Graph()
    x = g.placeholder("x", (2, 5, 8))
    y, *_ = gw.nn.multi_head_attention(x, x, x, num_heads=2, name="attention")
    copy = copy_of(g, y)
    by_op = {op: computes for name, op, computes, *_ in copy.table().rows if "/" in name}
    assert by_op["matmul"] == "bfloat16" and by_op["masked_softmax"] == "float32"
    data = {"x": np.random.default_rng(0).standard_normal((2, 5, 8)).astype(F32)}
    low, exact = run([copy.of(y), y], data)
    assert 0 < np.abs(low - exact).max() < 0.03


# -- control flow ----------------------------------------------------------------------------------


def recurrent():
    g = gw.Graph()
    rng = np.random.default_rng(0)
    w = g.variable("w", init=rng.standard_normal((4, 4)).astype(F32) * F32(0.5))
    xs = g.placeholder("xs", ("T", 3, 4))

    def step(c, x):
        new = gw.tanh(x + c @ w)
        return new, new.sum()

    last, sums = gw.scan(step, gw.zeros_like(xs[0]), xs, name="scan")
    gw.identity(last.sum() + sums.sum(), name="loss")
    return g, w, {"xs": rng.standard_normal((6, 3, 4)).astype(F32)}


def test_steps_of_a_scan_compute_in_16_bits_and_the_weight_is_cast_before_them():
    g, w, data = recurrent()
    copy = copy_of(g, "loss")
    loss = copy.of(g["loss"])
    assert {tuple(d) for _, d in products([loss])} == {("bfloat16", "bfloat16")}
    (scan,) = [n for n in ancestors([loss]) if n.op.name == "scan"]
    assert [t.dtype.name for t in scan.inputs] == ["float32", "float32", "bfloat16"]
    (low,) = gw.gradients(loss, [w])
    (exact,) = gw.gradients(g["loss"], [w])
    assert low.dtype == np.float32
    low, exact, a, b = run([low, exact, loss, g["loss"]], data)
    assert np.linalg.norm(low - exact) < 0.02 * np.linalg.norm(exact)
    assert 0 < abs(a - b) < 0.02


def test_branches_loops_and_functions_compute_in_16_bits():
    @gw.function("block")
    def block(x, w):
        return gw.nn.softmax(x @ w)

    g = gw.Graph()
    x, w = g.placeholder("x", (3, 3)), g.variable("w", init=np.eye(3, dtype=F32) * F32(1.001))
    chosen = gw.cond(x.sum() > 0.0, lambda: x @ w, lambda: gw.exp(x) @ w)
    looped = gw.while_loop(lambda c: c.sum() < 100.0, lambda c: c @ w + 1.0, x)
    called = block(x, w)
    plain = gw.cond(x.sum() > 0.0, lambda: x * 2.0, lambda: x)
    tensors = [chosen, looped, called, plain]
    copy = copy_of(g, *tensors)
    low = [copy.of(t) for t in tensors]
    found = products(low)
    assert len(found) >= 4 and all(d == ["bfloat16"] * 2 for _, d in found)
    assert low[3] is plain
    for sign in (1, -1):
        data = {"x": sign * np.ones((3, 3), F32)}
        for a, b in zip(run(low, data), run(tensors, data), strict=True):
            np.testing.assert_allclose(a, b, rtol=0.02)
    np.testing.assert_array_equal(run(low[:1], {"x": np.ones((3, 3), F32)})[0], F32(1))
