"""Kernels that read and join where indices say: numpy's numbers, threads, wrong indices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm.compiler import available
from gradwright.errors import LoweringError
from gradwright.fuse import Fused
from gradwright.plan import kept

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")
Array = np.ndarray[Any, Any]


class Drawn:
    """A random program about one op: what feeds it, and what is fetched, a gradient too."""

    def __init__(self, kind: str, seed: int) -> None:
        rng = self.rng = np.random.default_rng(seed)
        self.dtype = rng.choice(["float32", "float64"])
        self.feeds: dict[str, Array] = {}
        self.graph = g = gw.Graph(kind)
        shape = tuple(rng.choice([2, 3, 5, 8, 17, 33], rng.integers(1, 4)).tolist())
        x = g.variable("x", init=rng.standard_normal(shape).astype(self.dtype))
        order = rng.permutation(len(shape)).tolist()
        seen = gw.tanh(gw.transpose(x, order)) if seed % 2 else x
        y = getattr(self, kind)(seen, tuple(shape[i] for i in order) if seed % 2 else shape)
        z = gw.nn.sigmoid(y) * rng.standard_normal(y.shape).astype(self.dtype)
        loss = (z.sum(-1) if z.rank else z).square().sum()
        self.fetches = [y, z, *gw.gradients(loss, [x])]

    def indices(self, low: int, n: int, shape: tuple[int, ...]) -> gw.Tensor:
        dtype = self.rng.choice(["int32", "int64"])
        name = f"i{len(self.feeds)}"
        self.feeds[name] = self.rng.integers(low, n, shape).astype(dtype)
        return self.graph.placeholder(name, shape, dtype)

    def gather(self, x: gw.Tensor, shape: tuple[int, ...]) -> gw.Tensor:
        axis, rank = int(self.rng.integers(len(shape))), int(self.rng.integers(3))
        wide = tuple(self.rng.choice([1, 7, 40], rank).tolist())
        return gw.gather(x, self.indices(-shape[axis], shape[axis], wide), axis)

    def along(self, x: gw.Tensor, shape: tuple[int, ...]) -> gw.Tensor:
        axis = int(self.rng.integers(len(shape)))
        wide = (*shape[:axis], int(self.rng.choice([1, 20])), *shape[axis + 1 :])
        return gw.take_along_axis(x, self.indices(-shape[axis], shape[axis], wide), axis)

    def nd(self, x: gw.Tensor, shape: tuple[int, ...]) -> gw.Tensor:
        n = int(self.rng.integers(1, len(shape) + 1))
        return gw.gather_nd(x, self.indices(-min(shape), min(shape), (6, n)))

    def segments(self, x: gw.Tensor, shape: tuple[int, ...]) -> gw.Tensor:
        rank, n = int(self.rng.integers(1, len(shape) + 1)), int(self.rng.choice([2, 11]))
        ids = self.indices(-1, n, shape[:rank])
        how = self.rng.choice(["sum", "max", "min", "mean"])
        return gw.clip(getattr(gw, f"unsorted_segment_{how}")(x, ids, n), -9.0, 9.0)

    def products(self, x: gw.Tensor, shape: tuple[int, ...]) -> gw.Tensor:
        ids = self.indices(-1, 11, shape[:1])
        return gw.unsorted_segment_prod(gw.cos(x), ids, 11)

    def written(self, x: gw.Tensor, shape: tuple[int, ...]) -> gw.Tensor:
        how, axis = self.rng.choice(["update", "max", "min"]), int(self.rng.integers(len(shape)))
        wide = (*shape[:axis], int(self.rng.choice([1, 20])), *shape[axis + 1 :])
        there, taken = (self.indices(-shape[axis], shape[axis], wide) for _ in range(2))
        values = gw.sin(gw.take_along_axis(x, taken, axis))
        onto = gw.tanh(x) if self.rng.integers(2) else x  # which may be where it is written
        y: gw.Tensor = getattr(gw, f"scatter_{how}")(onto, there, values, axis=axis)
        return y

    def written_nd(self, x: gw.Tensor, shape: tuple[int, ...]) -> gw.Tensor:
        how = self.rng.choice(["update", "max", "min"])
        n = int(self.rng.integers(1, len(shape) + 1))
        there, taken = (self.indices(-min(shape), min(shape), (6, n)) for _ in range(2))
        values = gw.gather_nd(x, taken) * 0.5
        y: gw.Tensor = getattr(gw, f"scatter_nd_{how}")(gw.tanh(x), there, values)
        return y

    def run(self, kernels: Any) -> list[Array]:
        with gw.Session(self.graph, kernels=kernels) as session:
            for _ in range(2):  # the second finds its arena as the first has left it
                found = session.run(self.fetches, self.feeds)
            (plan,) = session.plan_cache.values()
            self.ops = [i.op for p in plan.parts for i in p.executor.laid.program.instrs]
        return list(found)


KINDS = ["gather", "along", "nd", "segments", "products", "written", "written_nd"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_machine_code_reads_and_joins_as_numpy_does(kind: str, seed: int) -> None:
    drawn = Drawn(kind, seed)
    want, found = drawn.run("off"), drawn.run("wait")
    named = sum(len(op.sites) for op in drawn.ops if isinstance(op, Fused))
    assert named >= 2, "both ways are machine code"
    tolerance = 2e-5 if drawn.dtype == "float32" else 1e-11
    for x, y in zip(want, found, strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        np.testing.assert_allclose(y, x, tolerance, tolerance * np.abs(x).max(initial=1.0))


N, E, F = 50, 3000, 64


def messages() -> tuple[gw.Graph, dict[str, Array], list[gw.Tensor]]:
    """Return a graph of sums and largest messages over edges, and one with wide rows."""
    rng = np.random.default_rng(0)
    g = gw.Graph()
    x = g.variable("x", init=rng.standard_normal((N, F)).astype(np.float32))
    source, target = (g.placeholder(k, (E,), "int64") for k in ("source", "target"))
    h = gw.tanh(x)
    sent = gw.gather(h, source, name="sent") * 0.5 + gw.gather(h, target, name="kept")
    total = gw.unsorted_segment_sum(sent, target, N, name="total")
    top = gw.unsorted_segment_max(gw.gather(h, source), target, N)
    slope = gw.gradients((total * gw.clip(top, -1.0, 1.0)).sum(), [x])
    feeds = {k: rng.integers(0, N, E) for k in ("source", "target")}
    return g, feeds, [total, top, *slope]


def test_threads_give_the_same_bits() -> None:
    g, feeds, fetches = messages()
    found = []
    for threads in (1, 2):
        with gw.Session(g, kernels="wait", threads=threads, deterministic=True) as session:
            found.append(session.run(fetches, feeds))
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("key", ["source", "target"])
@pytest.mark.parametrize("index", [N, -N - 1, 2**40, -(2**62)])
def test_a_wrong_index_names_its_node_and_leaves_no_trace(key: str, index: int) -> None:
    g, feeds, fetches = messages()
    wrong = {**feeds, key: feeds[key].copy()}
    wrong[key][E // 2] = index
    with gw.Session(g, kernels="wait") as session:
        want = session.run(fetches, feeds)
        name = {"source": "sent", "target": "kept"}[key]
        with pytest.raises(LoweringError, match=f"'{name}'.*\n?.*index {index} is out of range"):
            session.run(fetches, wrong)
        for x, y in zip(want, session.run(fetches, feeds), strict=True):
            np.testing.assert_array_equal(x, y)


def test_a_plan_from_disk_has_the_same_bits_and_names_the_same_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(kept, "LEAST", 8)
    monkeypatch.delenv("GRADWRIGHT_PLANS", raising=False)
    found, states = [], []
    for _ in range(2):
        g, feeds, fetches = messages()
        with gw.Session(g, kernels="wait") as session:
            found.append(session.run(fetches, feeds))
            (plan,) = session.plan_cache.values()
            states.append(plan.kept.state)
            with pytest.raises(LoweringError, match=r"'sent'.*\n?.*index 50 is out of range"):
                session.run(fetches, {**feeds, "source": feeds["source"] + 1})
    assert states == ["written to disk", "read from disk"]
    for x, y in zip(*found, strict=True):
        np.testing.assert_array_equal(x, y)


def test_nothing_commits_with_a_wrong_index() -> None:
    g = gw.Graph()
    x = g.variable("x", init=np.arange(12.0).reshape(6, 2))
    ids = g.placeholder("ids", (3,), "int64")
    new = x - gw.unsorted_segment_sum(gw.gather(x, ids), ids, 6)
    with gw.Session(g, kernels="wait") as session:
        run = session.prepare([], [ids], {x: new})
        run(np.array([0, 2, 2]))
        before = session.values.array("x").copy()
        with pytest.raises(LoweringError, match="index 6 is out of range"):
            run(np.array([0, 6, 1]))
        np.testing.assert_array_equal(session.values.array("x"), before)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("largest", [True, False])
def test_the_first_in_order_are_those_of_numpy(dtype: str, largest: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-6, 6, (40, 30)).astype(dtype)
    if dtype != "int64":
        x.flat[::7], x.flat[3::11], x.flat[4::13] = np.nan, -0.0, np.inf
    g = gw.Graph()
    values, places = gw.top_k(g.placeholder("x", x.shape, dtype), 5, largest=largest)
    with gw.Session(g, kernels="wait") as session:
        found = session.run([values, places], {"x": x})
    want = values.node.op.forward(x)
    for a, b in zip(want, found, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("how", ["sum", "max", "min"])
def test_sorted_segments_are_those_of_numpy(how: str) -> None:
    rng = np.random.default_rng(0)
    x, ids = rng.standard_normal((900, 6)).astype(np.float32), np.sort(rng.integers(0, 40, 900))
    g = gw.Graph()
    y = getattr(gw, f"segment_{how}")(
        g.placeholder("x", (None, 6)), g.placeholder("i", (None,), "int64")
    )
    with gw.Session(g, kernels="wait") as session:
        found = session.run(y, {"x": x, "i": ids})
        np.testing.assert_allclose(found, y.node.op.forward(x, ids), 1e-5, 1e-5)
        with pytest.raises(LoweringError, match="never fall"):
            session.run(y, {"x": x, "i": ids[::-1]})
