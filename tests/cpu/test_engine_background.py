"""When kernels come: from the background, not at all, or again after a release."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu import executor
from gradwright.cpu.bound import Bound
from gradwright.cpu.llvm.compiler import available
from gradwright.cpu.plain import Plain
from gradwright.fuse.fused import Fused
from gradwright.shared import Bounded
from tests.cpu.kernel_plans import Step, mlp

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")


def test_kernels_are_swapped_in_between_two_steps(monkeypatch):
    queued = []
    monkeypatch.setattr(executor.BACKGROUND, "add", queued.append)
    step, other = Step("background"), Step("off")
    losses = []
    for n in range(executor.RUNS + 4):
        losses.append([float(s.run()[s.step.loss]) for s in (step, other)])
        if n + 1 < executor.RUNS:
            assert not queued
        if n == executor.RUNS:
            assert isinstance(step.plan.head.executor.laid, Plain) and len(queued) == 1
            queued[0]()
    assert isinstance(step.plan.head.executor.laid, Bound)
    assert not step.plan.head.executor.plain.registers  # its arrays are let go
    # The last unit of a first gradient, of losses of 1, goes on into losses of 0.01.
    np.testing.assert_allclose(*np.array(losses).T, rtol=2e-6, atol=1e-7)


def test_the_background_thread_binds_and_ends():
    step = Step("background")
    for _ in range(executor.RUNS):
        step.run()
    executor.BACKGROUND.wait(60)
    step.run()
    assert isinstance(step.plan.head.executor.laid, Bound) and not executor.BACKGROUND.is_busy


def test_a_kernel_that_cannot_be_compiled_leaves_numpy(monkeypatch):
    from gradwright.cpu.llvm import bind, compiler

    monkeypatch.setattr(compiler.KERNELS, "compile", lambda key: None)
    monkeypatch.setattr(bind, "CALLS", Bounded(1))  # none that is known
    step, other = Step(), Step("off")
    for s in (step, other):
        s.run()
        s.run()
    assert isinstance(step.plan.head.executor.laid, Plain)
    for name, value in step.state().items():
        np.testing.assert_array_equal(value, other.state()[name])


@pytest.mark.parametrize("op", ["sqrt", "exp", "where", "pow"])
def test_a_kernel_that_cannot_be_compiled_leaves_its_own_ops_to_numpy(monkeypatch, op):
    from gradwright.cpu.llvm import bind, compiler

    refused, compiled = [], compiler.KERNELS.compile

    def compile_others(key):
        if any(value.op == op for value in key[0].values):
            refused.append(key[0])
            return None
        return compiled(key)

    monkeypatch.setattr(compiler.KERNELS, "compile", compile_others)
    monkeypatch.setattr(bind, "CALLS", Bounded(1))  # none that is known
    step, other = Step(), Step("off")
    for s in (step, other):
        for _ in range(4):
            s.run()
    bound = step.plan.head.executor.laid
    assert refused and isinstance(bound, Bound)
    kernels = [instr.op.kernel for instr in bound.program.instrs if isinstance(instr.op, Fused)]
    assert kernels and not any(value.op == op for k in kernels for value in k.values)
    for name, value in step.state().items():
        np.testing.assert_allclose(value, other.state()[name], rtol=1e-4, atol=1e-6)


def test_released_plans_run_again():
    step, other = Step(), Step()
    for s in (step, other):
        s.run()
    step.plan.release()
    step.trainer.session.device.release()
    for s in (step, other):
        s.run()
        s.run()
    for name, value in step.state().items():
        np.testing.assert_array_equal(value, other.state()[name])


def test_replay_and_guard_run_beside_kernels():
    trainer, batch = mlp(session=None)
    g, step = trainer.graph, trainer.parts.taker.current()
    numbers = trainer.parts.taker.next({}).numbers
    feeds = {**batch, **dict(zip(step.numbers, numbers, strict=True)), step.rate: 0.1}
    for how in ({"check": "replay"}, {"device": "guard"}):
        with gw.Session(g, kernels="wait", **how) as session:
            before = g.values["w0"].copy()
            for n in range(3):
                session.run(
                    step.fetches, feeds, step.updates, training=True, commit_if=step.finite, step=n
                )
            assert not np.array_equal(before, g.values["w0"])


def test_later_means_before_the_16th_run_of_what_is_small(monkeypatch):
    step = Step("later")
    for _ in range(executor.LATER - 1):
        step.run()
        assert isinstance(step.plan.head.executor.laid, Plain)
    assert step.plan.head.executor.state == "compiled before run 16"
    step.run()
    assert isinstance(step.plan.head.executor.laid, Bound)
    monkeypatch.setattr(executor, "FEW", 1)
    step = Step("later")
    for _ in range(executor.LATER + 1):
        step.run()
    assert isinstance(step.plan.head.executor.laid, Plain)
    assert step.plan.head.executor.state == "more than 1 steps"


def test_a_step_that_changes_much_waits_for_its_kernels(monkeypatch):
    """Else its first three runs would make new arrays of all that they change."""
    monkeypatch.setattr(executor, "HEAVY", 1000)
    monkeypatch.setattr(executor, "HEAVY_STEP", 0)
    step = Step("background")
    step.run()
    assert isinstance(step.plan.head.executor.laid, Bound)
