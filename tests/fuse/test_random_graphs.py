"""Random graphs of all ops and all rewrites: a plan computes what the nodes compute one by one.

The tests go through the ops and through the rewrites in an order that a seed fixes, so each is
drawn twice; what is drawn beside them is hypothesis's. For more, as many seconds as wanted
with fresh seeds:

    GRADWRIGHT_FUZZ=600 python -m tests.fuse.test_random_graphs
"""

from __future__ import annotations

import collections
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import gradwright as gw
from gradwright.cpu.llvm.compiler import available
from gradwright.errors import GradwrightError
from gradwright.op import OPS, run_forward
from gradwright.program.lowering import _table
from gradwright.rewrite import RULES
from tests.fuse.reference import Reference, problem, units
from tests.support.random_graphs import ALL, Choose, RandomGraph, is_plain, resized

TIMES = 2
"""How often each op is drawn and each rewrite fires, at least."""
OPS_EACH = 12
"""How many ops a graph has beside what wires them, and the examples of rewrites."""
DRAWN: collections.Counter[str] = collections.Counter()
FIRED: collections.Counter[str] = collections.Counter()
WHOLE = {name for rule in RULES.values() for name in rule.lowers}
"""Composites that some rewrites make, which they do only where a device runs them whole."""


def decks() -> list[tuple[list[Any], list[str]]]:
    """Return the ops and the rewrites of one graph after the other; each rewrite has three."""
    rng = np.random.default_rng(0)
    ops, rules = ([x[i] for i in rng.permutation(len(x))] for x in (ALL, list(RULES)))
    n = -(-len(ops) // OPS_EACH)
    third = n // 3
    return [(ops[i::n], rules[i % third :: third]) for i in range(n)]


DECKS = decks()


def lower_whole(put: Callable[[Any, Any, Any], None]) -> None:
    """Let the device run some composites by their own ``forward``."""

    def make(op: Any, ins: Any, outs: Any) -> Any:
        def launch(xs: Any, ys: Any) -> None:
            for y, found in zip(ys, run_forward(op, xs), strict=True):
                y[...] = found

        return launch

    for name in sorted(WHOLE):
        if (name, "cpu") not in _table:
            put(_table, (name, "cpu"), make)


def check(drawn: RandomGraph, kernels: str, checkpoint: Any) -> None:
    """Run a graph through a session and node by node, twice, and where sizes are open at others."""
    named = [*drawn.fetches, *drawn.updates]
    unit, slopes = units(named, drawn.updates), set(drawn.slopes.values())
    reference, values = Reference(drawn), drawn.graph.values.snapshot()
    how = {"kernels": kernels, "checkpoint": checkpoint, "values": values}
    with gw.Session(drawn.graph, **how) as session:
        for step in range(5 if drawn.open else 2):
            feeds = resized(drawn.feeds, max(step - 1, 0))
            want = reference.run(feeds, step)
            try:
                found = session.run(
                    drawn.fetches, feeds, drawn.updates, training=drawn.training,
                    commit_if=drawn.commit_if, step=step,
                )  # fmt: skip
            except GradwrightError as error:
                # Rounding makes a matrix singular, or ops do not take such sizes.
                if want is None or "singular" in str(error) or step > 1:
                    return
                raise
            if want is None:
                return
            found += [values.array(v.name) for v in drawn.updates]
            fired = fired_in(session)
            if not step:
                FIRED.update(fired)
            saves = any(not RULES[name].exact for name in fired)
            for i, t in enumerate(named):
                if not is_plain(t):
                    continue
                size = 1.0 if t in slopes else 0.0
                says = problem(found[i], want[i], unit[t], size=size, may_save=saves)
                if says and (more := again(drawn, step)):
                    says = problem(found[i], more[i], unit[t], size=size, may_save=saves)
                assert not says, f"run {step}: {t.name} ({t.node.op!r}): {says}"


def again(drawn: RandomGraph, step: int) -> list[tuple[Any, ...]] | None:
    """Return the reference's results of a step from 16 disturbed runs: two may miss a jump.

    The pitch of a constant signal is one: all its autocorrelations are alike but for rounding.
    """
    reference = Reference(drawn, disturbed=16)
    return [reference.run(resized(drawn.feeds, max(s - 1, 0)), s) for s in range(step + 1)][-1]


def fired_in(session: gw.Session) -> collections.Counter[str]:
    """Return which rewrites fired for the plans of a session, and how often."""
    parts = [part for plan in session.plan_cache.values() for part in plan.parts]
    return collections.Counter(e.rule for part in parts for e in part.executor.plain.program.log)


# -- in tests -------------------------------------------------------------------------------------


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run all composites whole that some rewrite makes."""
    lower_whole(monkeypatch.setitem)


# Shrinking would take minutes; ``fuzz`` leaves out ops instead.
@settings(max_examples=TIMES, phases=[Phase.generate], suppress_health_check=[*HealthCheck])
@pytest.mark.parametrize("number", range(len(DECKS)))
@given(data=st.data())
def test_a_plan_computes_what_its_nodes_compute(whole: None, number: int, data: Any) -> None:
    def choose(n: int) -> int:
        return data.draw(st.integers(0, n - 1)) if n > 1 else 0

    ops, rules = DECKS[number]
    # A kernel takes LLVM 25 ms: every eighth graph has machine code.
    kernels = "wait" if number % 8 == 0 and available() else "off"
    check(RandomGraph(choose, ops, rules), kernels, "sqrt" if number % 4 == 1 else None)
    DRAWN.update(op.name for op in ops)


def test_each_op_was_drawn_and_each_rewrite_fired() -> None:
    if not DRAWN:
        pytest.skip("counts what the tests before it have drawn")
    assert not {op.name: DRAWN[op.name] for op in ALL if DRAWN[op.name] < TIMES}
    assert not {name: FIRED[name] for name in RULES if FIRED[name] < TIMES}


# -- by hand --------------------------------------------------------------------------------------


def numbers(seed: int) -> Choose:
    """Return choices of a seed."""
    rng = np.random.default_rng(seed)
    return lambda n: int(rng.integers(n))


def attempt(
    seed: int, ops: Sequence[str], rules: Sequence[str], kernels: str, checkpoint: Any
) -> Exception | None:
    """Return what is wrong with a graph, if something is."""
    try:
        drawn = RandomGraph(numbers(seed), [OPS[name] for name in ops], rules)
        check(drawn, kernels, checkpoint)
    except Exception as error:
        return error
    return None


def fewest(names: list[str], fails: Callable[[list[str]], bool]) -> list[str]:
    """Return names without those that are not needed to fail."""
    for at in reversed(range(len(names))):
        less = names[:at] + names[at + 1 :]
        names = less if fails(less) else names
    return names


def report(seed: int, ops: list[str], rules: list[str], how: Any, error: Exception) -> None:
    """Print a graph that fails, with as few ops and rewrites as fail alike."""

    def fails(ops: list[str], rules: list[str]) -> bool:
        return type(attempt(seed, ops, rules, *how)) is type(error)

    ops = fewest(ops, lambda less: fails(less, rules))
    rules = fewest(rules, lambda less: fails(ops, less))
    print(f"attempt{(seed, ops, rules, *how)}")
    error = attempt(seed, ops, rules, *how) or error
    traceback.print_exception(error, limit=-3, file=sys.stdout)
    sys.stdout.flush()


def fuzz(seconds: float) -> None:
    """Draw graphs from fresh seeds; print those that fail."""
    end, seed, count = time.time() + seconds, time.time_ns() % 2**31, 0
    while time.time() < end:
        seed, count, choose = seed + 1, count + 1, numbers(seed + 1)
        ops = [ALL[choose(len(ALL))].name for _ in range(1 + choose(15))]
        rules = [list(RULES)[choose(len(RULES))] for _ in range(choose(4))]
        how = ["off", "wait"][available() and choose(5) < 2], [None, None, "sqrt"][choose(3)]
        error = attempt(seed, ops, rules, *how)
        if error:
            report(seed, ops, rules, how, error)
    print(f"{count} graphs")


if __name__ == "__main__":
    lower_whole(lambda table, key, value: table.update({key: value}))
    fuzz(float(os.environ.get("GRADWRIGHT_FUZZ", "60")))
