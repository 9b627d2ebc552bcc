"""Rules that look at no formula: what is dead, passed on, constant, or computed twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..op import Op, run_forward
from ..ops.control.scan import scan
from ..ops.core.exponential import Exp
from ..ops.core.identity import Identity
from ..ops.core.like import BroadcastLike
from ..program.program import Instr, Recipe
from .editor import Editor
from .table import rule

FOLD_BYTES = 1 << 20
"""Results above this size are computed in each run instead of being kept by the plan."""


@rule(
    "dead", "", "what no output needs", "nothing", example=lambda x, w: BroadcastLike()(w, Exp()(x))
)
def _dead(at: Editor, instr: Instr) -> None:
    """What no output needs goes: the editor does so from the start, whatever is left out."""


@rule(
    "alias",
    lambda op: op.alias_of is not Op.alias_of,
    "f(x), f passing x on",
    "x",
    example=lambda x: Identity()(x) * 2.0,
)
def _alias(at: Editor, instr: Instr) -> int | None:
    """An op whose only result is one of its inputs goes, such as a sum_like of equal shapes."""
    index = instr.op.alias_of([None if i is None else at.specs[i] for i in instr.ins])
    return None if index is None else instr.ins[index]


@rule(
    "fold",
    lambda op: op.namespace != "control",
    "f(c)",
    "c′",
    of_constants=True,
    example=lambda x: x * Exp()(x.graph.constant([0.5])),
)
def _fold(at: Editor, instr: Instr) -> Sequence[int] | None:
    """What depends on constants alone is computed once, up to 1 MB a result."""
    constants, key = at.constants, (instr.op, instr.ins)
    if key in at.folded:  # such as the same large mask, forward and backward
        return at.folded[key]
    specs = [at.specs[o] for o in instr.outs]
    if any(not s.is_concrete or s.nbytes > FOLD_BYTES for s in specs):
        return None
    xs = [None if i is None else constants[i] for i in instr.ins]
    with np.errstate(all="ignore"):
        try:
            ys = run_forward(instr.op, xs, training=at.program.training)
        except Exception:  # it fails again when run, and is explained there
            return None
    if any(y.shape != s.shape or y.dtype != s.dtype for y, s in zip(ys, specs, strict=True)):
        return None  # the same
    sized = any(i is not None and at.is_sized(i) for i in instr.ins)
    at.folded[key] = [
        at.constant(y, Recipe(instr.op, instr.ins, n, o), sized=sized)
        for n, (y, o) in enumerate(zip(ys, instr.outs, strict=True))
    ]
    return at.folded[key]


@rule(
    "cse",
    lambda op: True,
    "f(x), f(x)",
    "f(x)",
    example=lambda x: Exp()(x) * Exp()(x),
    changes=True,
)
def _cse(at: Editor, instr: Instr) -> Sequence[int] | None:
    """Equal ops on equal inputs are computed once; random ops are equal if their streams are."""
    key = instr.op, instr.ins, instr.recompute
    other = at.seen.setdefault(key, instr)
    if other is instr:
        return None
    if not at.is_there(other) or (other.op, other.ins, other.recompute) != key:
        at.seen[key] = instr
        return None
    first, second = at.take_first(instr, other)
    at.seen[key] = at.root = first
    at.begin(second)
    # Sizes that only a run tells have other names for each of the two.
    if not at.replace("cse", first.outs, checked=False):
        return None
    both = first.origin.derived and second.origin.derived
    if both and first.origin.serial > second.origin.serial:
        # It runs when the node would that was made first, wherever a walk came to it: so one step
        # of several in a plan is ordered, and thereby rounded, as a step alone.
        first.origins, first.path = second.origins, second.path
    return ()


@rule(
    "residuals",
    lambda op: op.without_residuals is not Op.without_residuals,
    "y, r = f(x)",
    "y = f(x)",
    example=lambda x, w: scan(lambda c, t: (c * t, c), w, x)[0],
    changes=True,
)
def _residuals(at: Editor, instr: Instr) -> Sequence[int] | None:
    """Ops make no residuals, such as the tape of a loop, where no gradient reads any."""
    n = instr.op.n_public or 0
    if n >= len(instr.outs) or any(o in at.leaving or at.users[o] for o in instr.outs[n:]):
        return None
    lean = instr.op.without_residuals()
    if lean is instr.op:
        return None
    at.replace_op("residuals", lean, n)
    return ()
