"""Rewrites: program -> program, same values; each can be left out by name."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from ..op import run_forward
from .program import Program

FOLD_BYTES = 1 << 20
"""Results above this size are computed in each run instead of being kept by the plan."""


def forward_alias(program: Program) -> int:
    """Drop instructions whose output is one of their inputs, such as sum_like of equal shapes."""
    replaced: dict[int, int] = {}
    kept = []
    for instr in program.instrs:
        specs = [None if i is None else program.specs[i] for i in instr.ins]
        index = instr.op.alias_of(specs)
        source = None if index is None else instr.ins[index]
        if source is None:
            kept.append(instr)
        else:
            replaced[instr.outs[0]] = source
    program.instrs = kept
    program.substitute(replaced)
    return len(replaced)


def fold_constants(program: Program) -> int:
    """Compute what depends on constants alone, up to 1 MB a result."""
    kept, folded = [], 0
    with np.errstate(all="ignore"):
        for instr in program.instrs:
            known = all(i is None or i in program.constants for i in instr.ins)
            specs = [program.specs[o] for o in instr.outs]
            small = all(s.is_concrete and s.nbytes <= FOLD_BYTES for s in specs)
            if not known or not small or instr.op.namespace == "control":
                kept.append(instr)
                continue
            xs = [None if i is None else program.constants[i] for i in instr.ins]
            try:
                ys = run_forward(instr.op, xs, training=program.training)
            except Exception:  # it fails again when run, and is explained there
                kept.append(instr)
                continue
            if any(
                y.shape != s.shape or y.dtype != s.dtype for y, s in zip(ys, specs, strict=True)
            ):
                kept.append(instr)  # the same
                continue
            program.constants.update(zip(instr.outs, ys, strict=True))
            folded += 1
    program.instrs = kept
    return folded


def share_common(program: Program) -> int:
    """Compute equal ops on equal inputs once; random ops are equal only with equal streams."""
    seen: dict[Any, tuple[int, ...]] = {}
    replaced: dict[int, int] = {}
    kept = []
    same_constant: dict[Any, int] = {}
    for number, array in program.constants.items():
        if program.specs[number].by_reference:
            continue  # their bytes say where they lie
        is_uniform = not any(array.strides)  # a stand-in of any size, one element in memory
        if array.nbytes <= 64 or is_uniform:
            content = array.flat[:1].tobytes() if is_uniform else array.tobytes()
            other = same_constant.setdefault((array.dtype, array.shape, content), number)
            if other != number:
                replaced[number] = other
    for instr in program.instrs:
        ins = tuple(None if i is None else replaced.get(i, i) for i in instr.ins)
        key = instr.op.key(), ins
        held = seen.setdefault(key, instr.outs)
        if held is instr.outs:
            kept.append(instr)
        else:
            replaced.update(zip(instr.outs, held, strict=True))
    removed = len(program.instrs) - len(kept)
    program.instrs = kept
    program.substitute(replaced)
    return removed


def drop_dead(program: Program) -> int:
    """Drop what no output needs."""
    needed = {program.numbers[t] for t in program.outputs}
    kept = []
    for instr in reversed(program.instrs):
        if any(o in needed for o in instr.outs):
            needed.update(i for i in instr.ins if i is not None)
            kept.append(instr)
    removed = len(program.instrs) - len(kept)
    program.instrs = kept[::-1]
    program.constants = {k: a for k, a in program.constants.items() if k in needed}
    program.sources = {k: t for k, t in program.sources.items() if k in needed}
    return removed


def drop_residuals(program: Program) -> int:
    """Let ops make no residuals, such as the tape of a loop, where no gradient reads any."""
    needed = {program.numbers[t] for t in program.outputs}
    needed.update(i for instr in program.instrs for i in instr.ins if i is not None)
    count = 0
    for instr in program.instrs:
        n = instr.op.n_public
        if n is not None and n < len(instr.outs) and needed.isdisjoint(instr.outs[n:]):
            lean = instr.op.without_residuals()
            if lean is not instr.op:
                instr.op, instr.outs, count = lean, instr.outs[:n], count + 1
    return count


RULES: dict[str, Callable[[Program], int]] = {
    "alias": forward_alias,
    "fold": fold_constants,
    "cse": share_common,
    "dead": drop_dead,
    "residuals": drop_residuals,
}


def rewrite(program: Program, skip: Collection[str] = ()) -> Program:
    """Apply all rules but those skipped; dead code always goes: shapes need no computing."""
    for name, rule in RULES.items():
        if name in skip and name != "dead":
            continue
        count = rule(program)
        if count:
            program.log.append(f"{name}: {count}")
    return program
