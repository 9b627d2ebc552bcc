"""Rules of ops, groups and the fused op: kernels in numpy compute what the ops compute."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.catalogue import load
from gradwright.fuse import Fused, evaluate, fuse
from gradwright.fuse.builder import Builder
from gradwright.fuse.functions import FUNCTIONS
from gradwright.fuse.rules import RULES, has_rule
from gradwright.op import OPS, Op, infer_specs, run_forward
from gradwright.rewrite import Program
from gradwright.spec import known_spec

load()


def program_of(*steps: tuple[Op, Sequence[Any]], given: dict[str, np.ndarray]) -> Program:
    """Return a program of named values: ``(op, [inputs..., "->", outputs...])``; all leave."""
    program = Program(lambda op, ins, outs: True)
    names: Any = program.numbers
    for name, array in given.items():
        names[name] = program.new_value(known_spec(array).with_shape(array.shape))
        program.sources[names[name]] = name  # type: ignore[assignment]
    for op, wiring in steps:
        cut = list(wiring).index("->")
        ins = [None if i is None else names[i] for i in wiring[:cut]]
        specs = [None if i is None else program.specs[i] for i in ins]
        made = program.emit(op, ins, infer_specs(op, specs), None, op.name)  # type: ignore[arg-type]
        names.update(zip(wiring[cut + 1 :], made, strict=False))
    return program


def leave(program: Program, *names: str) -> Program:
    """Say which values leave."""
    program.outputs = list(names)  # type: ignore[arg-type]
    return program


def run(program: Program, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run a program instruction by instruction."""
    names: Any = program.numbers
    values = {names[k]: a for k, a in given.items()} | dict(program.constants)
    for instr in program.instrs:
        xs = [None if i is None else values[i] for i in instr.ins]
        values.update(zip(instr.outs, run_forward(instr.op, xs), strict=True))
    return {str(t): values[names[t]] for t in program.outputs}


def kernels(program: Program) -> list[Fused]:
    """Return the kernels of a program."""
    return [i.op for i in program.instrs if isinstance(i.op, Fused)]


def check(program: Program, given: dict[str, np.ndarray], tolerance: float = 1e-12) -> Program:
    """Assert that a fused program computes the same; returns it."""
    before, fused = run(program, given), fuse(program)
    after = run(fused, given)
    for name, want in before.items():
        got = after[name]
        assert got.dtype == want.dtype and got.shape == want.shape, name
        np.testing.assert_allclose(
            got.astype(np.float64), want.astype(np.float64), tolerance, tolerance, err_msg=name
        )
    made: set[int] = set(fused.sources) | set(fused.constants)
    for instr in fused.instrs:  # every value is made before it is read
        assert made.issuperset(i for i in instr.ins if i is not None)
        made.update(instr.outs)
    return fused


# -- rules ----------------------------------------------------------------------------------------

SAMPLED = [
    (name, number)
    for name in sorted(RULES)
    if name not in ("pullback",)
    for number, _ in enumerate(OPS[name].samples(np.random.default_rng(0)))
]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("name", "number"), SAMPLED)
def test_a_rule_computes_what_the_op_computes(name: str, number: int, dtype: str) -> None:
    sample = list(OPS[name].samples(np.random.default_rng(0)))[number]
    arrays = [
        a.astype(dtype) if isinstance(a, np.ndarray) and a.dtype == np.float64 and a.ndim else a
        for a in (None if x is None else np.asarray(x) for x in sample.inputs)
    ]
    given = {f"x{i}": a for i, a in enumerate(arrays) if a is not None}
    op = OPS[name](**sample.attrs).for_mode(True)
    ins = [None if a is None else f"x{i}" for i, a in enumerate(arrays)]
    n = len(infer_specs(op, [None if a is None else known_spec(a) for a in arrays]))
    outs = [f"y{i}" for i in range(n)]
    program = leave(program_of((op, [*ins, "->", *outs]), given=given), *outs)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        check(program, given, 1e-12 if dtype == "float64" else 2e-6)
