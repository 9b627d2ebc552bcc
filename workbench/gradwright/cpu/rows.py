"""Rows of the CPU: what each step runs as, and why some are left to numpy."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from ..fuse.dense import Dense
from ..fuse.fused import Fused
from ..fuse.rules import HALVES, VALUES, has_rule, rule_of
from ..op import Op
from ..ops.matrices.linalg import Matmul
from ..program.lowering import Found
from ..program.program import Instr, Program
from ..program.row import Row, What
from .bound import Bound
from .call import Native, NativeReturning
from .followed import Followed
from .plain import Plain
from .untapped import Untapped


def rows(plain: Plain, bound: Bound | None, first: int, chain: int, *, is_ready: bool) -> list[Row]:
    """Return the steps of a segment, as numpy's and, if there are kernels, as those.

    They are numbered from ``first``, chains from ``chain``; ``is_ready``: kernels run by now.
    """
    held = plain if bound is None else bound
    program, launchers = held.program, held.found
    code: Mapping[int, tuple[int, tuple[int, ...]]] = {} if bound is None else bound.code
    n_body = len(program.instrs) if program.n_body is None else program.n_body
    chains: dict[Any, int] = {}
    found = []
    for n, instr in enumerate(program.instrs):
        calls_code = bound is not None and isinstance(launchers[n], NativeReturning)
        what, why = _kind(instr, launchers[n], program, n in code or calls_code)
        if bound is not None and bound.is_view(n):
            what, why = "view", ""
        elif what in ("numpy", "plans") and bound is None:
            why = ""  # the line above the table says why for all
        number, functions = code.get(n, (None, ()))
        in_last = bound is not None and n >= len(program.instrs) - len(bound.overwrites)
        phase = number, n >= n_body, in_last
        found.append(
            Row(
                first + n,
                what,
                instr.path,
                _ops(instr.op),
                _space(instr, program),
                tuple(program.specs[o] for o in instr.outs),
                is_ready or bound is None or what in ("view", "numpy", "plans"),
                None if number is None else chains.setdefault(phase, chain + len(chains)),
                why,
                instr.origins,
                functools.partial(_text, instr.op, functions),
            )
        )
    return found


def _text(op: Op, functions: tuple[int, ...], kind: str) -> str:
    """Return what a step computes as IR, or the LLVM text of the functions that it became."""
    if kind == "ir":
        made = op.fused if isinstance(op, Followed) else op
        return str(made.kernel) if isinstance(made, Fused) else ""
    if kind != "llvm" or not functions:
        return ""
    from .llvm.compiler import KERNELS  # llvmlite, which no import of ours may load
    from .llvm.kernels.emit import emit

    of = {address: key for key, address in KERNELS.addresses.copy().items()}
    return "\n".join(emit(*of[a]) for a in functions if a in of)


def _kind(instr: Instr, found: Found, program: Program, is_code: bool) -> tuple[What, str]:
    """Return what a step runs as, and what keeps it from being machine code."""
    op = instr.op
    if isinstance(op, Fused):
        return "kernel", ""
    if is_code and isinstance(op, Dense):
        return "copy", ""
    if is_code:
        return ("product" if isinstance(op, Matmul) else "machine code"), ""
    plans = getattr(found, "plans", None)
    if plans is not None:
        inner = [plan.kernels for plan in plans()]
        return "plans", "; ".join(k.said() for k in inner) or "made when it first runs"
    return "numpy", _reason(instr, found, program)


def _reason(instr: Instr, found: Found, program: Program) -> str:
    op, specs = instr.op, program.specs
    ins = [None if i is None else specs[i] for i in instr.ins]
    outs = [specs[o] for o in instr.outs]
    if any(s is not None and s.by_reference for s in [*ins, *outs]):
        return "its values are objects of Python"
    if not all(s.is_concrete for s in outs):
        return "the size of its result is known when it has run"
    odd = [str(s.dtype) for s in [*ins, *outs] if s is not None and s.dtype not in VALUES | HALVES]
    if odd and (isinstance(found, Native) or rule_of(op) is not None):
        return f"kernels do not compute in {odd[0]}"
    if isinstance(found, Native):
        return "machine code does not take its arrays as they lie"
    if has_rule(op, ins, outs):
        return "alone, and of this size, numpy is as fast"
    return f"no kernel for {op.name}{'' if rule_of(op) is None else ' on these shapes'}"


def _ops(op: Op) -> tuple[str, ...]:
    if isinstance(op, Fused | Followed | Untapped):
        return op.names
    return (op.viewing.name if isinstance(op, Dense) else op.name,)


def _space(instr: Instr, program: Program) -> tuple[int, ...]:
    """Return the sizes that a step loops over; none where they are not known."""
    shape: Any = instr.op.shape if isinstance(instr.op, Fused) else ()
    if not isinstance(instr.op, Fused) and instr.outs:
        spec = program.specs[instr.outs[0]]
        shape = spec.shape if spec.is_concrete else ()
    return tuple(map(int, shape))
