"""A training step as one plan run by hand, and sessions with kernels beside those without."""

from __future__ import annotations

import numpy as np

import gradwright as gw
from gradwright.cpu.bound import Bound
from gradwright.cpu.plain import Plain
from gradwright.plan import Plan
from gradwright.program.options import PlanOptions
from gradwright.spec import spec_of

RNG = np.random.default_rng(0)


def array(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


def mlp(optimizer=None, **how):
    """Return a trainer of a small classifier and a batch."""
    rng = np.random.default_rng(1)
    g = gw.Graph("mlp")
    h, labels = g.placeholder("x", (None, 12)), g.placeholder("t", (None,), "int64")
    for i, (n, m) in enumerate([(12, 24), (24, 5)]):
        w = g.variable(f"w{i}", init=rng.standard_normal((n, m)).astype("float32") / 4)
        h = h @ w + g.variable(f"b{i}", (m,))
        h = gw.nn.relu(h) if not i else h
    loss = gw.loss.sparse_softmax_cross_entropy(labels, h, name="loss")
    trainer = gw.Trainer(g, loss, optimizer=optimizer, **how)
    x = rng.standard_normal((16, 12)).astype("float32")
    return trainer, {"x": x, "t": rng.integers(0, 5, 16)}


class Step:
    """A training step as one plan, run by hand."""

    def __init__(self, kernels="wait", optimizer=None, **how):
        self.trainer, batch = mlp(optimizer, **how)
        self.graph, self.step = self.trainer.graph, self.trainer.parts.taker.current()
        self.values = self.trainer.values
        self.feeds = {self.graph[k]: v for k, v in batch.items()}
        numbers = self.trainer.parts.taker.next({}).numbers
        self.feeds |= {t: np.array(n) for t, n in zip(self.step.numbers, numbers, strict=True)} | {
            self.step.rate: np.array(0.1)
        }
        self.plan = Plan(
            self.step.fetches,
            {t: spec_of(a) for t, a in self.feeds.items()},
            self.trainer.session.device,
            training=True,
            options=PlanOptions(kernels=kernels),
            updates=self.step.updates,
            commit_if=self.step.finite,
        )

    def run(self, feeds=None):
        env = {**self.feeds, **(feeds or {})}
        with np.errstate(all="ignore"):
            self.plan.run(env, self.values)
            self.committed = self.plan.commit(env, self.values)
        return env

    @property
    def bound(self):
        assert isinstance(self.plan.head.executor.laid, Bound)
        return self.plan.head.executor.laid

    def state(self):
        return {v.name: self.values[v.name].copy() for v in self.step.updates}


def both(graph, fetches, feeds, **how):
    """Return what a session computes with kernels and without, twice each."""
    found = []
    for kernels in ("wait", "off"):
        with gw.Session(graph, kernels=kernels) as session:
            session.run(fetches, feeds, **how)
            found.append(session.run(fetches, feeds, **how))
            kinds = {
                type(p.executor.laid) for plan in session.plan_cache.values() for p in plan.parts
            }
            assert kinds == ({Bound} if kernels == "wait" else {Plain})
    return found


def close(a, b, tolerance=2e-6):
    for x, y in zip(a, b, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)
