"""Samples of all ops through machine code: values and gradients are those of numpy's plans.

Many ops are one plan, since a kernel takes LLVM 25 ms and ops of one kind share theirs.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.bound import Bound
from gradwright.cpu.llvm import bind, gemm
from gradwright.cpu.llvm.compiler import KERNELS, available
from gradwright.fuse import Fused, fusion, steps
from gradwright.gradient import gradients
from gradwright.op import Op
from gradwright.shared import Bounded
from gradwright.testing import cases, samples
from gradwright.testing.common import cast, known_specs, stand_in, wanted
from tests.fuse.reference import Reference, problem, units
from tests.support.random_graphs import ALL, is_plain, is_real
from tests.support.sweeps import spread, telling

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")
OPS_EACH = 24
"""How many ops share a plan."""


class Batch:
    """A graph of samples of many ops side by side, with what to fetch of them."""

    def __init__(self, dtype: str) -> None:
        self.graph, self.dtype = gw.Graph("ops"), dtype
        self.feeds: dict[gw.Tensor, Any] = {}
        self.fetches: list[gw.Tensor] = []
        self.updates: dict[gw.Tensor, gw.Tensor] = {}
        self.commit_if, self.training = None, True
        self.slopes: set[gw.Tensor] = set()
        self.labels: dict[gw.Tensor, str] = {}
        self.rng = np.random.default_rng(5)

    def add(self, cls: type[Op]) -> None:
        """Add the samples of an op whose arrays can be of the dtype, and the gradients of each.

        Two of them in float32; one in float64, whose kernels are the same but for the dtype.
        """
        found = samples(cls)
        for number in telling(found, 1 if self.dtype == "float64" else 2):
            sample = found[number]
            for op, xs in cases(cls, sample):
                with np.errstate(over="ignore"):
                    arrays = xs if self.dtype == "float64" else cast(op, xs, self.dtype)
                if arrays is not None:
                    self._add(op, arrays, sample, f"sample {number} of {op!r}")

    def _add(self, op: Op, xs: Any, sample: gw.Sample, label: str) -> None:
        graph, ins = self.graph, []
        for x, spec in zip(xs, known_specs(op, xs), strict=True):
            ins.append(None if x is None else self._feed(spec, x))
        with graph:
            graph.add(op, ins)
        node = graph.latest
        fetched = list(node.outputs)
        live = [y for y in node.public if is_real(y) and y.spec.is_concrete]
        with np.errstate(all="ignore"):
            wrt = wanted(op, xs, sample, ins) if live else []
        if wrt:
            seeds = [self._feed(y.spec, self._drawn(y)) for y in live]
            slopes = gradients(live, wrt, seeds, unreachable="zero")
            self.slopes.update(slopes)
            fetched += slopes
        self.fetches += fetched
        self.labels.update(dict.fromkeys(fetched, label))

    def _feed(self, spec: Any, x: Any) -> gw.Tensor:
        t = stand_in(self.graph, f"x{len(self.graph.nodes)}", spec)
        self.feeds[t] = x
        return t

    def _drawn(self, y: gw.Tensor) -> Any:
        return self.rng.standard_normal(y.shape).astype(y.dtype)


STARTS = range(0, len(ALL), OPS_EACH)
RUNS = [(n, "float32") for n in STARTS] + [(n, "float64") for n in spread(STARTS, 9)]


@pytest.mark.parametrize("start, dtype", RUNS)
def test_samples_through_machine_code(start: int, dtype: str) -> None:
    batch = Batch(dtype)
    for cls in ALL[start : start + OPS_EACH]:
        batch.add(cls)
    unit = units(batch.fetches, {})
    want = Reference(batch).run(batch.feeds, 0)
    assert want is not None
    with gw.Session(batch.graph, kernels="wait") as session:
        for _ in range(2):  # the second finds its arena as the first has left it
            found = session.run(batch.fetches, batch.feeds, training=True, step=0)
            (plan,) = session.plan_cache.values()
            fired = any(plan.rewrites.counts)
            for t, y, runs in zip(batch.fetches, found, want, strict=True):
                size = 1.0 if t in batch.slopes else 0.0
                says = is_plain(t) and problem(y, runs, unit[t], size=size, may_save=fired)
                assert not says, f"{t.name}, {batch.labels[t]}: {says}"
        segments = [part.executor.laid for part in plan.parts]
    if dtype == "float64" and start == 0:
        kernels = [i.op for s in segments for i in s.program.instrs if isinstance(i.op, Fused)]
        assert kernels and all(isinstance(s, Bound) for s in segments)


def test_hundreds_of_shapes_run_the_same_machine_code(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, bound in ((steps, "MAX_FITS"), (fusion, "MAX_KERNELS")):
        monkeypatch.setattr(module, bound, 32)  # these two hold 20 MB before they are emptied
    for calls in (bind, gemm):
        monkeypatch.setattr(calls, "CALLS", Bounded(32))
    g = gw.Graph()
    x, w = g.placeholder("x", (None, None, 8)), g.variable("w", init=rng.standard_normal((8, 8)))
    h = gw.nn.softmax(x @ w @ x.mT) @ gw.nn.gelu(x @ w)
    fetches = [h.std(), *gw.gradients(h.std(), [w, x])]
    with gw.Session(g, kernels="wait", max_plans=6) as session:

        def run(n: int) -> int:
            """Run n shapes, narrow ones first, and six whose plans stay; return what is held."""
            shapes = [(2, 3), (3, 30), *(tuple(rng.integers(2, 40, 2)) for _ in range(n))]
            for shape in [*shapes, *((20, t) for t in range(20, 26))]:
                session.run(fetches, {"x": rng.standard_normal((*shape, 8)).astype("f4")})
            gc.collect()
            return sys.getallocatedblocks()  # tracemalloc would take three times as long

        run(12)
        compiled, before = len(KERNELS.addresses), run(30)
        after = run(150)
    assert len(KERNELS.addresses) == compiled
    assert after - before < 800  # 350 of them in tables; a plan is thousands
