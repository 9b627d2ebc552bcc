"""Rows of a GPU: what each step runs as, with the text that was generated for it."""

from __future__ import annotations

import functools
from typing import Any

from gradwright.fuse.fused import Fused
from gradwright.ops.matrices.linalg import Matmul
from gradwright.program.program import Instr
from gradwright.program.row import Row, What

from .lying import Lying, Step


def rows(lying: Lying, first: int, chain: int) -> list[Row]:
    """Return the steps of a segment, numbered from ``first``; its launches are chain ``chain``."""
    found = []
    for n, (instr, step) in enumerate(zip(lying.program.instrs, lying.steps, strict=True)):
        op: Any = instr.op
        specs = tuple(lying.program.specs[o] for o in instr.outs)
        space = op.shape if isinstance(op, Fused) else specs[0].shape if specs else ()
        found.append(
            Row(
                first + n,
                _what(instr, step),
                instr.path,
                op.names if isinstance(op, Fused) else (op.name,),
                tuple(map(int, space)),
                specs,
                is_ready=True,
                chain=chain if step.kind == "kernel" else None,
                why=_why(instr, step),
                origins=instr.origins,
                texts=functools.partial(_text, instr, step),
            )
        )
    return found


def _what(instr: Instr, step: Step) -> What:
    if step.kind == "kernel":
        return "product" if isinstance(instr.op, Matmul) else "kernel"
    names: dict[str, What] = {"view": "view", "plans": "plans", "host": "numpy"}
    return names[step.kind]


def _why(instr: Instr, step: Step) -> str:
    if step.kind == "plans":
        return "the host decides between turns"
    if step.kind != "host":
        return ""
    return f"on the host: {step.why or f'no kernel for {instr.op.name}'}"


def _text(instr: Instr, step: Step, kind: str) -> str:
    """Return what a step computes, as IR, or as the Triton text that was generated for it."""
    if kind == "ir":
        return str(instr.op.kernel) if isinstance(instr.op, Fused) else ""
    return step.recorder.source if kind == "triton" and step.recorder is not None else ""
