"""Kernels looked into: who touches what, values line by line, what is wrong, what it takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError, LoweringError
from gradwright.op import OPS, Op
from gradwright.program import lowering
from gradwright.program.insight import insight

pytest.importorskip("triton", reason="Triton has wheels for Linux only")

import triton
import triton.language as tl

from gradwright_kernels import Steps, check_kernel, cost, prepare, see
from gradwright_kernels.compile.compiler import compile_call
from gradwright_kernels.seen.launch import NOBODY, SEVERAL
from gradwright_kernels.seen.tracing import OUTSIDE
from tests.kernels.steps import gated

Array = np.ndarray[Any, Any]
BLOCK = 16


@triton.jit
def halved(x):
    return x * 0.5


@triton.jit
def half_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, BUG: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if BUG == "overlap":
        at = tl.program_id(0) * (BLOCK - 1) + tl.arange(0, BLOCK)
    inside = at < n
    if BUG == "long":
        inside = at <= n
    if BUG == "short":
        inside = at < n - 1
    x = tl.load(x_ptr + at, mask=inside)
    y = halved(x)
    if BUG == "wrong":
        y = y * 1.01
    tl.store(y_ptr + at, y, mask=inside)


@pytest.fixture(scope="module")
def half() -> Iterator[Any]:
    """Return an op whose kernel has the bug that its attribute names."""
    made = gw.define_op(
        "seen/half",
        lambda x, bug="", slope=0.5: x * 0.5,
        vjp=lambda g, y, x, bug, slope: g * slope,
    )

    @gw.lowering("seen/half", device="cuda")
    def lower(op: Any, ins: Any, outs: Any) -> Any:
        (x,) = ins
        if op.bug == "no kernel":
            return None
        args = {"x_ptr": x.dtype, "y_ptr": x.dtype, "n": x.size, "BLOCK": BLOCK, "BUG": op.bug}
        run = prepare(half_kernel, triton.cdiv(x.size, BLOCK), args)
        return lambda xs, ys: run(*xs, *ys)

    yield made
    OPS.pop("seen/half")
    lowering._table.pop(("seen/half", "cuda"))


def rows(n: int = 45) -> Array:
    return np.random.default_rng(0).standard_normal((n // 9, 9)).astype("f4")


def test_programs_and_elements_know_each_other(half: Any) -> None:
    x = rows()
    seen = see(half.op(), x, names=["input", "result"], nodes=["node"])
    np.testing.assert_array_equal(seen.results[0], x * 0.5)
    [launch] = seen.launches
    assert (launch.n_programs, launch.programs, launch.nodes) == (3, [0, 1, 2], ("node",))
    assert [o.name for o in launch.operands] == ["input", "result"]
    reads, writes = launch.owners(0)
    np.testing.assert_array_equal(reads.reshape(-1), np.arange(45) // BLOCK)
    assert (writes == NOBODY).all() and launch.at(1, 20) == ([], [1])
    load, store = launch.of(2)
    assert (load.how, store.how, load.masked) == ("loads", "stores", 3)
    np.testing.assert_array_equal(load.elements, np.arange(32, 45))
    assert launch.nbytes() == 2 * 45 * 4 and not launch.findings
    with pytest.raises(GraphError, match="program 3 of half_kernel was not looked at"):
        launch.of(3)


def test_a_program_is_walked_line_by_line(half: Any) -> None:
    x = rows()
    [launch] = see(half.op(), x).launches
    walk = launch.walk(1)
    assert [s.name for s in walk.sources] == ["half_kernel", "halved"]
    texts = {s.first + k: t for s in walk.sources for k, t in enumerate(s.lines)}
    set_by = {v.name: (texts[n.place[1]].strip(), v) for n in walk.lines for v in n.changed}
    assert set_by["inside"][0] == "inside = at < n" and set_by["inside"][1].kind == "bool[16]"
    np.testing.assert_array_equal(set_by["y"][1].value, x.reshape(-1)[16:32] * 0.5)
    assert {line.depth for line in walk.lines} == {0, 1}
    [pointer] = [v for v in walk.lines[0].changed if v.name == "x_ptr"]
    assert (pointer.argument, pointer.kind) == (0, "*f32")
    loads = [line for line in walk.lines if line.accesses[0] < line.accesses[1]]
    assert [texts[line.place[1]].split("(")[0].strip() for line in loads] == [
        "x = tl.load",
        "tl.store",
    ]


BUGS = {
    "long": ("line {load}, program 2: x_ptr (input 0) loads element 45 of 45", OUTSIDE),
    "overlap": ("line {store}, program 1: y_ptr (output 0) stores what another program", SEVERAL),
    "short": ("line {store}: y_ptr (output 0) has element 44 of 45, which no program writes", None),
}


@pytest.mark.parametrize("bug", BUGS)
def test_what_is_wrong_is_named_and_the_launch_goes_on(half: Any, bug: str) -> None:
    [launch] = see(half.op(bug=bug), rows()).launches
    source = launch.source()
    place = {
        name: source.first + next(k for k, t in enumerate(source.lines) if f"tl.{name}" in t)
        for name in ("load", "store")
    }
    said, mark = BUGS[bug]
    assert any(str(f).startswith(said.format(**place)) for f in launch.findings)
    assert {a.program for a in launch.accesses} == {0, 1, 2}
    if mark == OUTSIDE:
        assert (launch.of(2)[0].lanes == OUTSIDE).sum() == 1
    if mark == SEVERAL:
        assert (launch.owners(1)[1] == SEVERAL).sum() == 2


def test_a_check_says_three_things(half: Any) -> None:
    found = check_kernel(half, rows())
    assert found.passed and [v.sign for v in found.verdicts] == ["✓", "✓", "✓"]
    wrong = check_kernel(half.op(bug="wrong"), rows())
    assert not wrong["forward"].is_right and wrong["gradient"].is_right
    steep = check_kernel(half.op(slope=0.6), rows())
    assert steep["forward"].is_right and steep["gradient"].is_right is False
    assert steep["gradient"].text.startswith("of input 0, element [")
    long = check_kernel(half.op(bug="long"), rows())
    assert "loads element 45 of 45" in long["memory"].text and long["gradient"].is_right is None
    assert "<table>" in found._repr_html_() and "half_kernel" in str(found)
    with pytest.raises(LoweringError, match="no kernel for seen/half"):
        check_kernel(half.op(bug="no kernel"), rows())


def test_steps_of_a_training_are_what_the_host_computes() -> None:
    """Every kernel of a step, on the numbers of the step; none of them does anything wrong."""
    trainer, batch = gated()
    steps = Steps.of(trainer, batch)
    before = trainer.values.array("up").copy()
    for row in steps.rows:
        if row.what not in ("kernel", "product"):
            continue
        seen, expected = steps.see(row.number), steps._forward(row.number)
        assert not [f for launch in seen.launches for f in launch.findings], row
        for y, e in zip(seen.results, expected, strict=True):
            np.testing.assert_allclose(y, e, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(trainer.values.array("up"), before)
    assert steps.at("matmul_2") is not None and steps.at("nothing") is None
    with pytest.raises(GraphError, match="runs no kernel"):
        steps.see(next(r.number for r in steps.rows if r.what == "view"))


def test_the_cost_is_the_compilers_and_bytes_over_bandwidth(half: Any) -> None:
    op: Op = gw.nn.softmax.op(axis=-1)
    [launch] = see(op, rows()).launches
    found = insight("cuda-sim").cost(launch, 90, 450)
    assert found.resources == compile_call(launch.call, 90).resources()
    assert found.memory_seconds == pytest.approx(360 / 3.35e12) and found.bound == "memory"
    assert 0 < found.occupancy <= 1 and "softmax" in found.ptx
    assert cost(launch, 80).chip.startswith("A100")
