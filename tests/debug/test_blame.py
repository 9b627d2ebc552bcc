"""Mutation test of blame: break one vjp at a time, and the checker has to name that node.

Three networks of at least 30 ops. Every node that the gradient passes through is broken in the
first of four ways that shows: a sign, a factor, two inputs mixed up, and a sum that drops a term.
Then the same networks, unbroken, with ties of relu, abs and max: there must be no alarm at all.
Then every op alone, each way on the first of three telling samples in which it shows. The whole
sweep (``tests.support.sweeps``) breaks every node and every sample in all ways, with 208 seeds, and
takes minutes.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.debug.check.local import LocalCheck
from gradwright.graph import Node, Source
from gradwright.op import OPS, Op, run_forward
from gradwright.ops.core.pullback import Pullback
from gradwright.ops.loading import load as load_ops
from gradwright.spec import is_floating
from gradwright.testing import cases, samples
from tests.debug.mutants import MUTATIONS, broken
from tests.support.sweeps import IS_WHOLE, telling

Feeds = dict[str, np.ndarray[Any, Any]]
SEEDS = 208 if IS_WHOLE else 16
"""Checks in which nobody may be blamed; a multiple of 16 has all kinds of them alike."""
Network = tuple[gw.Graph, gw.Tensor, Callable[[np.random.Generator], Feeds]]


# -- three networks --------------------------------------------------------------------------------


def variable(name: str, *shape: int) -> gw.Tensor:
    return gw.graph.active_graph().variable(name, shape)  # type: ignore[union-attr]


def mlp() -> Network:
    """Linear layers, all kinds of norms and activations, a penalty; labels as classes."""
    g = gw.Graph("mlp")
    x, t = g.placeholder("x", (None, 6)), g.placeholder("t", (None,), "int64")
    with g.scope("a"):
        h = gw.nn.relu(x @ variable("w", 6, 8) + variable("b", 8))
        h = gw.nn.layer_norm(h, variable("scale", 8), variable("shift", 8))
    with g.scope("b"):
        u = gw.nn.gelu(h @ variable("w", 8, 8))
        u = gw.nn.rms_norm(u + h, variable("scale", 8))
        u = gw.nn.dropout(gw.nn.silu(u), 0.3)
    with g.scope("c"):
        n = gw.nn.batch_norm(u @ variable("w", 8, 8), name="norm")
        v = gw.maximum(gw.nn.leaky_relu(n), gw.tanh(n) * 0.5)
        v = gw.concat([v, gw.abs(u)], axis=-1)
    with g.scope("d"):
        gate = gw.nn.sigmoid(v @ variable("gate", 16, 5))
        logits = gate * (v @ variable("w", 16, 5)) + variable("b", 5)
    fit = gw.loss.sparse_softmax_cross_entropy(t, logits, name="fit")
    size = gw.sqrt((g["a/w"] ** 2.0).sum() + gw.exp(g["d/b"]).mean())
    loss = gw.identity(fit + size * 0.01 - gw.log1p(gw.square(u).mean()) / 3.0, name="loss")

    def feeds(rng: np.random.Generator) -> Feeds:
        return {"x": grid(rng, (4, 6)), "t": rng.integers(0, 5, 4)}

    return g, loss, feeds


def cnn() -> Network:
    """Convolutions with stride, padding and groups, pooling, and a regression on top."""
    g = gw.Graph("cnn")
    x, t = g.placeholder("x", (None, 2, 7, 7)), g.placeholder("t", (None, 3))
    with g.scope("stem"):
        h = gw.cnn.conv2d(x, variable("w", 4, 2, 3, 3), variable("b", 4), padding=1)
        h = gw.nn.relu(gw.nn.batch_norm(h, name="norm"))
        h = gw.cnn.max_pool2d(h, 2)
    with g.scope("block"):
        left = gw.cnn.conv2d(h, variable("w", 4, 2, 2, 2), groups=2, dilation=1)
        left = gw.nn.elu(left)
        right = gw.cnn.avg_pool2d(gw.pad(h, ((0, 0), (0, 0), (0, 1), (1, 0))), 3, stride=1)
        h = gw.nn.relu6(left + right * variable("mix", 1, 4, 1, 1))
    with g.scope("head"):
        top, bottom = gw.split(h, 2, axis=1)
        pooled = gw.stack([top.max((2, 3)), gw.nn.softplus(bottom.mean((2, 3)))], axis=1)
        flat = gw.reshape(gw.transpose(pooled, (0, 2, 1)), (-1, 4))
        flat = gw.clip(flat, -2.0, 2.0) - gw.flip(flat, axis=1) * 0.5
        y = gw.nn.linear(flat, variable("w", 4, 3), variable("b", 3))
        y = gw.where(y > 0.0, y, y * y * 0.1)
    penalty = gw.erf(g["stem/w"]).mean() + gw.minimum(g["block/w"], 0.3).sum() * 0.1
    fit = gw.loss.huber(t, y, name="fit") + gw.loss.mean_squared_error(t, gw.sin(y))
    spread = gw.tile(g["head/b"], (2,)).cumsum(0)[::2].prod()
    loss = gw.identity(fit + penalty - spread * 0.01, name="loss")

    def feeds(rng: np.random.Generator) -> Feeds:
        return {"x": grid(rng, (2, 2, 7, 7)), "t": grid(rng, (2, 3))}

    return g, loss, feeds


def attention() -> Network:
    """Tied embedding, a block with causal attention written out and one fused, log-softmax."""
    g = gw.Graph("attention")
    ids = g.placeholder("ids", (None, 5), "int64")
    with g:
        table, places = variable("table", 7, 6), variable("places", 5, 6)
        wq, wk, wv, wo = (variable(f"w{k}", 6, 6) for k in "qkvo")
    h = gw.nn.embedding(ids, table) + places
    with g.scope("written"):
        n = gw.nn.rms_norm(h)
        q, k, v = ((n @ w).reshape(-1, 5, 2, 3).transpose(0, 2, 1, 3) for w in (wq, wk, wv))
        scores = q @ gw.swapaxes(k, -1, -2) / np.sqrt(3.0)
        mask = g.constant(np.tril(np.ones((5, 5), bool)))
        weights = gw.nn.softmax(gw.where(mask, scores, -1e9))
        mixed = (weights @ v).transpose(0, 2, 1, 3).reshape(-1, 5, 6)
        h = h + mixed @ wo
    with g.scope("fused"):
        n = gw.nn.layer_norm(h)
        q, k, v = (gw.expand_dims(n @ w, 1) for w in (wq, wk, wv))
        h = h + gw.squeeze(gw.nn.scaled_dot_product_attention(q, k, v, is_causal=True), 1)
    with g.scope("out"):
        first, last = h[:, :-1], gw.gather(h, g.constant(np.array([4, 4])), axis=1)
        scale = gw.rsqrt(gw.squared_difference(last, 0.1).mean(-1, keepdims=True) + 1.0)
        logits = (first * scale[:, :1]) @ table.T  # tied
        chosen = gw.take_along_axis(gw.nn.log_softmax(logits), ids[:, 1:, None], axis=-1)
        loss = gw.neg(chosen).mean(name="loss")

    def feeds(rng: np.random.Generator) -> Feeds:
        return {"ids": rng.integers(0, 7, (3, 5))}

    return g, loss, feeds


def grid(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return multiples of 1/2, so that sums hit 0 and maxima tie."""
    return rng.integers(-3, 4, shape) / 2


def randomise(g: gw.Graph, rng: np.random.Generator, *, ties: bool) -> None:
    """Give all parameters new values; with ``ties`` on a grid, with zero units."""
    for w in g.trainable:
        if ties:
            array = grid(rng, w.shape)  # type: ignore[arg-type]
            array[..., -1] = 0.0
        else:
            array = rng.standard_normal(w.shape) * 0.6  # type: ignore[arg-type]
        g.values[w.name] = array


NETWORKS = {"mlp": mlp, "cnn": cnn, "attention": attention}


# -- the tests -------------------------------------------------------------------------------------


def on_path(g: gw.Graph, loss: gw.Tensor) -> list[Node]:
    """Return the nodes between the parameters and the loss."""
    reached = {w.node for w in g.trainable}
    for node in gw.graph.ancestors([loss]):
        if not isinstance(node.op, Source) and any(
            t is not None and t.node in reached and is_floating(t.dtype) for t in node.inputs
        ):
            reached.add(node)
    return [n for n in gw.graph.ancestors([loss]) if n in reached and n.kind == "array"]


def analytic(report: Any) -> list[np.ndarray[Any, Any]]:
    return [p.analytic for p in report.parameters.values()]


@pytest.mark.parametrize("name", NETWORKS)
def test_the_broken_node_is_named(name: str) -> None:
    g, loss, feeds = NETWORKS[name]()
    rng = np.random.default_rng(0)
    randomise(g, rng, ties=False)
    data = feeds(rng)

    def check() -> Any:
        return gw.gradient_check(g, loss, data, max_per_param=0, training=True)

    right = check()
    assert right.passed, right
    nodes = on_path(g, loss)
    assert len(nodes) >= 30
    changed, missed = 0, []
    ways = [*MUTATIONS]
    for k, node in enumerate(nodes):
        op = node.op
        for how in ways[k % 4 :] + ways[: k % 4]:
            node.op = broken(op, how)
            report = check()
            if not all(map(np.allclose, analytic(report), analytic(right), [1e-9] * 99)):
                changed += 1
                if [n.name for n in report.blame] != [node.name] or report.passed:
                    missed.append((node.name, how, [n.name for n in report.blame]))
                if not IS_WHOLE:
                    break
        node.op = op
    assert changed >= (3 if IS_WHOLE else 0.9) * len(nodes)
    assert len(missed) <= 0.01 * changed, missed


@pytest.mark.parametrize("name", NETWORKS)
def test_no_false_alarm_over_many_seeds(name: str) -> None:
    g, loss, feeds = NETWORKS[name]()
    nodes: collections.Counter[str] = collections.Counter()
    elements: collections.Counter[str] = collections.Counter()
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        randomise(g, rng, ties=seed % 2 == 0)
        report = gw.gradient_check(
            g,
            loss,
            feeds(rng),
            max_per_param=1 if seed % 8 < 2 else 0,  # elements take longer than all nodes
            training=seed % 16 < 8,
            seed=seed,
        )
        assert report.passed, f"seed {seed}: {report}"
        nodes.update(n.verdict for n in report.nodes)
        elements.update(p.verdict for p in report.parameters.values())
    assert nodes["kink"] > SEEDS / 2 or name == "attention"  # which is smooth
    assert nodes["unclear"] <= 0.001 * nodes.total(), nodes
    assert elements["unclear"] <= 0.01 * elements.total(), elements


def local(op: Op, xs: Any, ys: Any, sample: gw.Sample) -> LocalCheck:
    check = LocalCheck(op, xs, ys, np.random.default_rng(0))
    if sample.differentiate is not None:
        check.directions = {i: v for i, v in check.directions.items() if i in sample.differentiate}
    return check


load_ops()
CLASSES = [
    pytest.param(cls, id=op_name)
    for op_name, cls in OPS.items()
    if "/" not in op_name and not issubclass(cls, Source) and cls is not Pullback
]


@pytest.mark.parametrize("cls", CLASSES)
def test_every_ops_broken_vjp_is_seen(cls: type[Op]) -> None:
    ways = [*MUTATIONS]
    smooth = [s for s in samples(cls) if s.smooth]
    for sample in (smooth[n] for n in telling(smooth, 3)):
        for op, xs in cases(cls, sample):
            if not ways:
                return
            ys = run_forward(op, xs)
            right = local(op, xs, ys, sample)
            live = [t for t in right.vjp.cotangents.values() if t is not None]
            if not live or not right.directions or not right.outputs:
                continue
            expected = right.exact(right.gs)
            for how in [*ways]:
                wrong = local(broken(op, how), xs, ys, sample)
                found = wrong.exact(wrong.gs)
                if not np.allclose([*found.values()], [*expected.values()], rtol=1e-4):
                    assert wrong.run(causes=False)[0] == "fail", (op, how)
                    if not IS_WHOLE:
                        ways.remove(how)
