"""Contract probes: the constructs that break graph engines, each through every room of the house.

Each probe is one small graph. It goes through gradients of order 1 and 2 against finite
differences in float64, the plan with replay, the guard device, the archive, and the stepper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import gradwright as gw


@dataclass
class Probe:
    """A scalar loss, what to differentiate, and what to feed."""

    graph: gw.Graph
    loss: gw.Tensor
    wrt: list[gw.Tensor]
    feeds: dict[str, Any]
    training: bool = False
    updates: dict[gw.Tensor, gw.Tensor] = field(default_factory=dict)


RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 6))


def split_and_top_k() -> Probe:
    g = gw.Graph()
    x = g.placeholder("x", (None, 6), "float64")
    a, _, c = gw.split(x, 3, axis=1)
    values, indices = gw.top_k(a * c, 1)
    loss = (values * values).sum() + (indices * 0).sum().astype("float64") + (a * x[:, :2]).sum()
    return Probe(g, loss, [x], {"x": X})


def cond_capturing() -> Probe:
    g = gw.Graph()
    x = g.placeholder("x", (None, 6), "float64")
    w = g.variable("w", (6,), init=RNG.standard_normal(6), dtype="float64")
    loss = gw.cond(x.sum() > -1e9, lambda: ((x * w) ** 2.0).sum(), lambda: x.sum())
    return Probe(g, loss, [x, w], {"x": X})


def batch_norm_statistics() -> Probe:
    g = gw.Graph()
    x = g.placeholder("x", (None, 6), "float64")
    scale = g.variable("scale", (6,), init=RNG.standard_normal(6), dtype="float64")
    bias = g.variable("bias", (6,), init=RNG.standard_normal(6), dtype="float64")
    mean = g.variable("mean", (6,), dtype="float64", trainable=False)
    var = g.variable("var", (6,), init=1.0, dtype="float64", trainable=False)
    y = gw.nn.batch_norm(x, scale, bias, mean, var)
    y = y[0] if isinstance(y, tuple) else y
    return Probe(g, (y**3.0).sum(), [x, scale, bias], {"x": X}, True, dict(g.updates))


def dropout() -> Probe:
    g = gw.Graph()
    x = g.placeholder("x", (None, 6), "float64")
    y = gw.nn.dropout(x * x, p=0.4)
    return Probe(g, (y * y).sum(), [x], {"x": X}, True)


def boolean_mask() -> Probe:
    g = gw.Graph()
    x = g.placeholder("x", (None, 6), "float64")
    kept = gw.boolean_mask(x, x > 0.2)
    return Probe(g, (kept**3.0).sum(), [x], {"x": X})


def reshape_to_a_tensor() -> Probe:
    g = gw.Graph()
    x = g.placeholder("x", (None, 6), "float64")
    shape = g.placeholder("shape", (2,), "int64")
    y = (x * x).reshape(shape)
    return Probe(g, (y.sum(axis=0) ** 2.0).sum(), [x], {"x": X, "shape": np.array([8, 3])})


def tied_embedding() -> Probe:
    g = gw.Graph()
    ids = g.placeholder("ids", (None,), "int64")
    table = g.variable("table", (5, 3), init=RNG.standard_normal((5, 3)), dtype="float64")
    h = gw.tanh(gw.nn.embedding(ids, table))
    logits = h @ table.T
    loss = gw.loss.sparse_softmax_cross_entropy(ids, logits)
    return Probe(g, loss, [table], {"ids": np.array([0, 3, 3, 1])})


def composite_layer_norm() -> Probe:
    g = gw.Graph()
    x = g.placeholder("x", (None, 6), "float64")
    w = g.variable("w", (6,), init=RNG.standard_normal(6), dtype="float64")
    b = g.variable("b", (6,), init=RNG.standard_normal(6), dtype="float64")
    y = gw.nn.layer_norm(x, w, b)
    return Probe(g, (y**3.0).sum(), [x, w, b], {"x": X})


def op_of_a_cell() -> Probe:
    @gw.register("probe/softcap")
    class Softcap(gw.Op):
        """Squash softly: y = c·tanh(x / c)."""

        cap: float = gw.attr(2.0, doc="Largest magnitude.")

        def infer(self, x):
            return x

        def forward(self, x):
            return self.cap * np.tanh(x / self.cap)

        def vjp(self, gs, ys, xs):
            ratio = ys[0] / self.cap
            return (gs[0] * (1.0 - ratio * ratio),)

    g = gw.Graph()
    x = g.placeholder("x", (None, 6), "float64")
    with g.cell("ops"):
        y = Softcap(cap=1.5)(x)
    return Probe(g, (y * y).sum(), [x], {"x": X})


def chain() -> Probe:
    g = gw.Graph()
    y = x = g.placeholder("x", (2,), "float64")
    w = g.variable("w", (2,), init=[1e-6, 2e-6], dtype="float64")
    for _ in range(1_667):
        y = y + w * y - w
    return Probe(g, (y * y).sum(), [x, w], {"x": np.array([0.5, -1.0])})


PROBES: list[Callable[[], Probe]] = [
    split_and_top_k, cond_capturing, batch_norm_statistics, dropout, boolean_mask,
    reshape_to_a_tensor, tied_embedding, composite_layer_norm, op_of_a_cell,
]  # fmt: skip


def values_of(probe: Probe) -> list[np.ndarray]:
    with gw.Session(probe.graph) as session:
        return session.run(probe.wrt, dict(probe.feeds.items()))


@pytest.mark.parametrize("build", PROBES)
def test_gradients_of_order_1_and_2(build):
    probe = build()
    g, rng = probe.graph, np.random.default_rng(1)
    grads = gw.gradients(probe.loss, probe.wrt)
    seeds = [g.placeholder(f"seed{i}", t.shape, "float64") for i, t in enumerate(grads)]
    second = gw.gradients(grads, probe.wrt, seeds, unreachable="zero")
    at = values_of(probe)
    seed_values = {s.name: rng.standard_normal(a.shape) for s, a in zip(seeds, at, strict=True)}
    feeds = {**probe.feeds, **seed_values}
    with gw.Session(g) as session:

        def run(fetches, moved):
            return session.run(fetches, {**feeds, **moved}, training=probe.training, step=3)

        exact1, exact2 = run([grads, second], {})
        for i, t in enumerate(probe.wrt):
            v = rng.standard_normal(at[i].shape)
            h = 1e-6
            up, down = ({t: at[i] + s * h * v} for s in (1, -1))
            ends = [run([probe.loss, grads], m) for m in (up, down)]
            slope1 = (ends[0][0] - ends[1][0]) / (2 * h)
            np.testing.assert_allclose((exact1[i] * v).sum(), slope1, rtol=1e-6, atol=1e-7)
            slope2 = sum(
                ((a - b) * s).sum() / (2 * h)
                for a, b, s in zip(ends[0][1], ends[1][1], seed_values.values(), strict=True)
            )
            np.testing.assert_allclose((exact2[i] * v).sum(), slope2, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("build", PROBES)
def test_devices_and_replay_agree(build):
    probe = build()
    grads = gw.gradients(probe.loss, probe.wrt)
    plain = None
    for device, check in (("cpu", None), ("cpu", "replay"), ("guard", "replay")):
        values = probe.graph.values.snapshot()
        with gw.Session(probe.graph, device, check=check, values=values) as session:
            out = session.run(
                [probe.loss, grads], probe.feeds, probe.updates, training=probe.training
            )
            again = session.run([probe.loss, grads], probe.feeds, training=False)
        held = [out[0], *out[1], again[0], *(values[v.name] for v in probe.updates)]
        if plain is None:
            plain = held
        for a, b in zip(plain, held, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    if probe.updates:
        moved = [
            float(np.abs(values[v.name] - probe.graph.values[v.name]).max()) for v in probe.updates
        ]
        assert min(moved) > 0.01


@pytest.mark.parametrize("build", PROBES)
def test_archive_round_trip(build, tmp_path):
    probe = build()
    probe.graph.save(tmp_path / "probe.gw")
    loaded = gw.load(tmp_path / "probe.gw")
    assert [n.name for n in loaded.nodes] == [n.name for n in probe.graph.nodes]
    loss = loaded[probe.loss.name]
    grads = gw.gradients(loss, [loaded[t.name] for t in probe.wrt])
    expected = gw.Session(probe.graph).run(
        [probe.loss, gw.gradients(probe.loss, probe.wrt)], probe.feeds, training=probe.training
    )
    got = gw.Session(loaded).run([loss, grads], probe.feeds, training=probe.training)
    np.testing.assert_array_equal(got[0], expected[0])
    for a, b in zip(got[1], expected[1], strict=True):
        np.testing.assert_array_equal(a, b)
    assert [v.name for v in loaded.updates] == [v.name for v in probe.graph.updates]


@pytest.mark.parametrize("build", PROBES)
@pytest.mark.parametrize("max_bytes", [1 << 30, 0])
def test_stepper_gives_the_sessions_numbers(build, max_bytes):
    probe = build()
    grads = gw.gradients(probe.loss, probe.wrt)
    expected = gw.Session(probe.graph).run(
        [probe.loss, *grads], probe.feeds, training=probe.training, step=0
    )
    s = gw.Stepper(
        probe.graph, [probe.loss, *grads], probe.feeds, training=probe.training, max_bytes=max_bytes
    )
    assert s.run().reason == "end"
    s.back(3)
    s.step(3)
    for a, b in zip(s.results(), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_a_chain_of_5_000_nodes_goes_everywhere(tmp_path):
    probe = chain()
    g, (x, w) = probe.graph, probe.wrt
    assert len(g.nodes) > 5_000
    dx, dw = gw.gradients(probe.loss, [x, w])
    with gw.Session(g) as session:
        loss, gx, gw_ = session.run([probe.loss, dx, dw], probe.feeds)
        h = 1e-6
        up, down = (session.run(probe.loss, {"x": probe.feeds["x"] + s * h}) for s in (1, -1))
    np.testing.assert_allclose(gx.sum(), (up - down) / (2 * h), rtol=1e-6)
    s = gw.Stepper(g, [probe.loss, dx, dw], probe.feeds)
    s.run()
    np.testing.assert_allclose(s.results()[2], gw_, rtol=1e-12)
    g.save(tmp_path / "chain.gw")
    loaded = gw.load(tmp_path / "chain.gw")
    assert len(loaded.nodes) == len(g.nodes)
    out = loaded.output(probe.feeds, probe.loss.name)[probe.loss.name]
    np.testing.assert_array_equal(out, loss)
