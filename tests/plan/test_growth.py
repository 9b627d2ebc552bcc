"""Long programs: what is done an instruction does not grow with their number."""

from __future__ import annotations

import dataclasses
import random
import threading
import time
from collections import Counter
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.fuse import Fused, fuse, fusion, groups
from gradwright.program.gaps import Gaps
from gradwright.program.memory import Interval, lay_out
from gradwright.program.turns import Turns
from tests.benchmarks.growth import KINDS, exponent
from tests.support.fused_programs import kernels


def fused_of(kind: str, n: int) -> Any:
    g, (loss, *wrt), feeds = KINDS[kind](n)
    ys = [loss, *gw.gradients(loss, wrt)]
    plan = gw.Session(g, kernels="off").plan(ys, {k: v.shape for k, v in feeds.items()})
    return fuse(plan.program)


def test_groups_are_found_within_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "LONG", 64)
    most = Counter[str]()
    before = groups._Former._settle

    def settle(self: Any, group: Any) -> None:
        before(self, group)
        most["bits"] = max(most["bits"], *(g.bits.bit_length() for g in self.group.values()))

    monkeypatch.setattr(groups._Former, "_settle", settle)
    made = fused_of("scattered", 400)
    assert most["bits"] <= 64 and len(kernels(made)) > 10


@pytest.mark.parametrize("kind", ["chain", "wide", "recurrent"])
def test_short_sections_compute_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    g, (loss, *wrt), feeds = KINDS[kind](150)
    ys = [loss, *gw.gradients(loss, wrt)]
    want = gw.Session(g, kernels="off").run(ys, feeds)
    monkeypatch.setattr(groups, "LONG", 16)
    monkeypatch.setattr(fusion, "COMPILED", 100)
    got = gw.Session(g, kernels="wait").run(ys, feeds)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def test_what_all_kernels_cost_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "COMPILED", 500)
    for n in (200, 600):
        made = {dataclasses.replace(op.kernel, in_place=()) for op in kernels(fused_of("chain", n))}
        assert sum(kernel.cost for kernel in made) <= 500
    whole = kernels(fused_of("recurrent", 600))
    assert max(len(op.names) for op in whole) > 1, "what repeats is no dearer for it"


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_a_sum_of_many_terms_is_kernels_of_a_few(dtype: str) -> None:
    rng, g = np.random.default_rng(0), gw.Graph()
    xs = [g.placeholder(f"x{i}", (5,), dtype) for i in range(100)]
    feeds = {x.name: (rng.normal(size=5) * 50).astype(dtype) for x in xs}
    y = gw.add_n(*xs)
    plan = gw.Session(g, kernels="off").plan(y, {k: v.shape for k, v in feeds.items()})
    made = [i.op for i in fuse(plan.program).instrs if isinstance(i.op, Fused)]
    assert max(op.kernel.n_inputs for op in made) <= groups.MAX_INPUTS
    got = gw.Session(g, kernels="wait").run(y, feeds)
    assert np.array_equal(got, gw.Session(g, kernels="off").run(y, feeds))


def best_fit(intervals: list[Interval]) -> int:
    """Return the arena that best fit in order of birth takes, looking at every gap."""
    placed: list[tuple[int, int, int]] = []
    top = 0
    for item in sorted(intervals, key=lambda i: i.start):
        at, gaps = 0, []
        for offset, size, end in sorted(placed):
            if end >= item.start:
                gaps.append((offset - at, at))
                at = max(at, offset + size)
        fitting = [gap for gap in (*gaps, (top - at, at)) if gap[0] >= item.size]
        at = min(fitting)[1] if fitting else at  # or the last gap grows
        top = max(top, at + item.size)
        placed.append((at, item.size, item.end))
    return top


def test_gaps_are_found_and_joined_as_by_looking_at_all() -> None:
    rng = random.Random(0)
    for _ in range(20):
        items = []
        for n in range(120):
            start = rng.randrange(60)
            nbytes = rng.choice((64, 128, 640, rng.randrange(1, 5000)))
            items.append(Interval(n, nbytes, start, start + rng.randrange(12)))
        gaps, ends, offsets = Gaps(), [], {}
        for item in sorted(items, key=lambda i: i.start):
            for end, offset, size in [e for e in sorted(ends) if e[0] < item.start]:
                ends.remove((end, offset, size))
                gaps.give(offset, size)
            offsets[item.value] = gaps.take(item.size)
            ends.append((item.end, offsets[item.value], item.size))
        assert gaps.top == best_fit(items)
        alive = [(i, offsets[i.value]) for i in items]
        for a, x in alive:
            for b, y in alive:
                together = a is not b and a.start <= b.end and b.start <= a.end
                assert not together or x + a.size <= y or y + b.size <= x


def test_thousands_of_gaps_are_one_in_the_end() -> None:
    n = 3000
    gaps = Gaps()
    held = [(gaps.take(64 * (1 + k % 7)), 64 * (1 + k % 7)) for k in range(n)]
    random.Random(0).shuffle(held)
    for offset, size in held:
        gaps.give(offset, size)
    assert gaps.take(gaps.top) == 0
    layout = lay_out([Interval(k, 64, k, k + 1) for k in range(n)])
    assert layout.nbytes == 128


def test_who_prepares_waits_for_the_step_that_runs() -> None:
    turns, order, begun = Turns(), [], threading.Event()

    def prepare() -> None:
        with turns.working():
            begun.set()
            while not turns._running:
                time.sleep(1e-4)
            turns.pause()
            order.append("prepared")

    thread = threading.Thread(target=prepare)
    thread.start()
    begun.wait(10)
    with turns.step():
        time.sleep(0.02)
        order.append("ran")
    thread.join(10)
    assert order == ["ran", "prepared"]


def test_exponents_are_of_the_upper_half() -> None:
    assert abs(exponent([1, 2, 4, 8], [9.0, 9.0, 16.0, 64.0]) - 2) < 1e-9


def test_terms_of_a_long_sum_die_as_they_come() -> None:
    def arena(n: int) -> Any:
        g, (loss, *wrt), feeds = KINDS["recurrent"](n)
        ys = gw.gradients(loss, wrt)
        plan = gw.Session(g, kernels="off").plan(ys, {k: v.shape for k, v in feeds.items()})
        return sum(part.executor.laid.layout.nbytes for part in plan.parts)

    few, many = arena(200), arena(600)
    activations = 100 * 4 * 16 * 4  # of 100 more cells; gradients of w and u would be 8 times that
    assert many - few < 2 * activations
