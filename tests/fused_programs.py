"""Programs written down value by value, run, and fused into kernels that compute the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwright.fuse import Fused, fuse
from gradwright.fuse.rules import RULES
from gradwright.op import OPS, Op, infer_specs, run_forward
from gradwright.ops.loading import load
from gradwright.program.program import Program
from gradwright.spec import known_spec

load()
ELEMENTS = [name for name, cls in OPS.items() if cls.element and "/" not in name]
"""Ops that are one function of elements."""
IN_KERNELS = {*RULES, *ELEMENTS}
"""Ops that kernels compute."""


def op(name: str, **attrs: Any) -> Op:
    """Return an op by name."""
    return OPS[name](**attrs)


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


def run_plan(program: Program, env: dict[Any, np.ndarray]) -> list[np.ndarray]:
    values = {v: env[t] for v, t in program.sources.items()} | dict(program.constants)
    for instr in program.instrs:
        xs = [None if i is None else values[i] for i in instr.ins]
        values.update(zip(instr.outs, run_forward(instr.op, xs), strict=True))
    return [values[program.numbers[t]] for t in program.outputs]


def kernels(program: Program) -> list[Fused]:
    """Return the kernels of a program."""
    return [i.op for i in program.instrs if isinstance(i.op, Fused)]


def check(program: Program, given: dict[str, np.ndarray], tolerance: float = 1e-12) -> Program:
    """Assert that a fused program computes the same; returns it."""
    with np.errstate(all="ignore"):
        before, fused = run(program, given), fuse(program)
    after = run(fused, given)
    for name, want in before.items():
        got = after[name]
        assert got.dtype == want.dtype and got.shape == want.shape, name
        got, want = (a + 0.0 for a in (got, want))  # bools and ints as floats
        np.testing.assert_allclose(got, want, tolerance, tolerance, err_msg=name)
    made: set[int] = set(fused.sources) | set(fused.constants)
    for instr in fused.instrs:  # every value is made before it is read
        assert made.issuperset(i for i in instr.ins if i is not None)
        made.update(instr.outs)
    return fused
