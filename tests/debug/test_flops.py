"""Floating-point operations, against counts by hand and against what PyTorch counts."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import gradwright as gw
from gradwright.op import OPS, Op


def count(tensor, **sizes):
    return gw.debug.flops([tensor], sizes)[tensor.node.name]


@pytest.fixture
def g():
    return gw.Graph()


def test_products_convolutions_and_attention_as_counted_by_hand(g):
    x = g.placeholder("x", ("B", 3, 32, 32))
    w = g.variable("w", (8, 3, 3, 3))
    y = gw.cnn.conv2d(x, w, stride=2, padding=1)  # 16 × 16 windows of 27, 8 times
    assert count(y, B=5) == 2 * 5 * 8 * 16 * 16 * 27
    assert count(gw.cnn.conv2d(x, w, g.variable("bias", (8,))), B=1) == 8 * 30 * 30 * (2 * 27 + 1)
    grouped = gw.cnn.conv2d(y, g.variable("w2", (8, 2, 3, 3)), groups=4)
    assert count(grouped, B=1) == 2 * 8 * 14 * 14 * 18
    back = gw.cnn.conv_transpose2d(y, g.variable("w3", (8, 4, 2, 2)), stride=2)
    assert count(back, B=1) == 2 * (8 * 16 * 16) * (4 * 2 * 2)
    assert count(gw.cnn.max_pool2d(x, 2), B=1) == 3 * 16 * 16 * 4
    q = g.placeholder("q", ("B", 4, "T", 8))
    k, v = g.placeholder("k", ("B", 4, "S", 8)), g.placeholder("v", ("B", 4, "S", 6))
    flash = gw.nn.flash_attention(q, k, v)
    assert count(flash, B=2, T=5, S=7) == 2 * (2 * 4) * 5 * 7 * (8 + 6)
    a, b = g.placeholder("a", ("N", 3, 4)), g.placeholder("b", (4, 5))
    assert count(a @ b, N=7) == 2 * 7 * 3 * 5 * 4
    assert count(gw.einsum("nij,jk->nik", a, b), N=7) == 2 * 7 * 3 * 5 * 4


def test_recurrent_layers_count_both_products_of_every_step(g):
    x = g.placeholder("x", ("T", "B", 6))
    w, r = g.variable("w", (2, 4 * 5, 6)), g.variable("r", (2, 4 * 5, 5))
    y, *_ = gw.rnn.lstm(x, w, r, direction="bidirectional")
    assert count(y, T=7, B=3) == 7 * 3 * 2 * (2 * 20 * 6 + 2 * 20 * 5)


def test_elements_count_one_reductions_what_they_read_and_moves_nothing(g):
    x = g.placeholder("x", ("B", 10))
    counts = {
        gw.nn.relu(x): 30, x + 1.0: 30, x.sum(0): 30, gw.max(x, 1): 30, x.T: 0,
        x.reshape((5, -1)): 0, gw.concat([x, x]): 0, gw.cast(x, "float16"): 0,
    }  # fmt: skip
    assert {y.name: count(y, B=3) for y in counts} == {y.name: n for y, n in counts.items()}
    ids = g.placeholder("ids", ("B",), dtype="int64")
    assert count(gw.nn.embedding(ids, g.variable("table", (100, 10))), B=3) == 0


def test_control_flow_counts_its_bodies(g):
    c, xs, w = g.placeholder("c", (4,)), g.placeholder("xs", ("T", 4)), g.variable("w", (4, 4))
    last, _ = gw.scan(lambda c, x: (c @ w + x, None), c, xs)
    assert count(last, T=10) == 10 * (2 * 4 * 4 + 4)
    some = gw.cond(c.sum() > 0.0, lambda: c @ w, lambda: gw.exp(c))
    assert count(some) == 2 * 4 * 4
    loop = gw.while_loop(lambda c: c.sum() < 5.0, lambda c: gw.exp(c), c)
    body = count(loop)
    assert 4 <= body <= 20, "once"


def test_sizes_that_nobody_tells_count_as_one(g):
    x = g.placeholder("x", ("B", "H", 8))
    y = x @ g.variable("w", (8, 3))
    assert [count(y), count(y, B=2), count(y, B=2, H=5)] == [48, 96, 480]


def test_gradients_of_convolutions_and_attention_as_pytorch_counts_them(g, torch):
    from torch.utils.flop_counter import FlopCounterMode

    rng = np.random.default_rng(0)
    image, weight = rng.standard_normal((2, 4, 9, 9)), rng.standard_normal((6, 4, 3, 3))
    x, w = g.placeholder("x", image.shape), g.variable("w", weight.shape)
    y = gw.cnn.conv2d(x, w, stride=2)
    gw.gradients(y.sum(), [x, w])
    products = {n.name for n in g.all_nodes if n.op.name.startswith("conv")}
    ours = sum(n for k, n in gw.debug.flops(g.all_nodes).items() if k in products)
    tx, tw = (torch.tensor(a, dtype=torch.float32, requires_grad=True) for a in (image, weight))
    with FlopCounterMode(display=False) as counter:
        torch.nn.functional.conv2d(tx, tw, stride=2).sum().backward()
    assert ours == counter.get_total_flops() == 3 * 2 * (2 * 6 * 4 * 4) * (4 * 3 * 3)
    with FlopCounterMode(display=False) as counter:
        q, k, v = (torch.zeros((1, 2, 5, 4)) for _ in range(3))
        torch.bmm(torch.softmax(torch.bmm(q[0], k[0].mT), -1), v[0])
    at = g.placeholder("q", (1, 2, 5, 4))
    assert counter.get_total_flops() == count(gw.nn.flash_attention(at, at, at))


def test_a_model_of_composites_counts_what_they_stand_for(g):
    x = g.placeholder("x", (2, 3, 8))
    y = gw.nn.linear(x, g.variable("w", (8, 4)), g.variable("b", (4,)))
    assert count(y) == 2 * (6 * 4) * 8 + 6 * 4
    q = gw.nn.scaled_dot_product_attention(x, x, x)
    assert count(q) >= 2 * 2 * (2 * 3 * 3) * 8, "both products"


def test_every_op_that_numbers_can_be_given_has_a_count():
    gw.ops.table()  # defines all
    rng = np.random.default_rng(0)
    nodes = []
    for cls in [c for c in OPS.values() if c.registered and "/" not in c.name and c.namespace]:
        scratch = gw.Graph()
        with contextlib.suppress(gw.errors.GradwrightError, NotImplementedError, StopIteration):
            sample = next(iter(cls.samples(rng)))
            ins = [None if x is None else scratch.constant(x) for x in sample.inputs]
            made = cls(**sample.attrs)(*ins)
            nodes.append((made[0] if isinstance(made, tuple) else made).node)
    for node in nodes:  # what could not be built has no count; the counting itself never fails
        found = gw.debug.flops([node])[node.name]
        assert isinstance(found, int) and found >= 0, node.op
    assert len(nodes) > 500


def odd(x, flops):
    """Return the result of an op of somebody's own, which is counted by this function."""

    class Odd(Op):
        name = "odd"

        def infer(self, x):
            return x

        def forward(self, x):
            return x

        def flops(self, ins, outs):
            return flops(ins, outs)

    return Odd()(x)


def test_an_op_that_cannot_say_its_count_is_named(g):
    x = g.placeholder("x", ("B", 4))
    assert count(odd(x, lambda ins, outs: 2 * ins[0].size), B=3) == 24
    assert count(odd(x, lambda ins, outs: 2.5)) == 2
    for wrong in (lambda i, o: 1 / 0, lambda i, o: np.nan, lambda i, o: np.inf, lambda i, o: None):
        with pytest.raises(gw.errors.GraphError, match="odd does not say how much") as raised:
            count(odd(x, wrong))
        assert "flops(ins, outs)" in str(raised.value)
    inside = gw.scan(lambda c, v: (odd(c + v, lambda i, o: 1 / 0),) * 2, x[0], x)[1]
    with pytest.raises(gw.errors.GraphError, match="odd does not say"):
        count(inside)


@pytest.mark.parametrize(
    ("nodes", "sizes"),
    [(3, None), ("x", None), (["x"], None), ([None], None), (None, None), ("graph", 8),
     ("graph", {"B": "8"}), ("graph", {"B": -1}), ("graph", {"B": 1.5}), ("graph", {"B": True}),
     ("graph", {8: 8})],
)  # fmt: skip
def test_what_is_no_graph_and_no_size_is_told_so(g, nodes, sizes):
    y = gw.nn.relu(g.placeholder("x", ("B", 4)))
    with pytest.raises(gw.errors.GraphError):
        gw.debug.flops(g if nodes == "graph" else nodes, sizes)
    with pytest.raises(gw.errors.GraphError, match=r"\[y\] for one alone"):
        gw.debug.flops(y)
    assert gw.debug.flops([y], {"B": np.int64(2)}) == gw.debug.flops((y.node,), {"B": 2})
