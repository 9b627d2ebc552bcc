"""Who is at fault: every node by itself, and what runs inside of it, down to the op and the turn.

A node whose vjp disagrees with its forward is opened: a composite, a call, the branch that a cond
takes, the turns of a loop one after the other. Where every node inside is right, and the node's
cotangents are those that the chain rule makes of theirs, it is right too, whatever differences
through hundreds of turns say.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...graph import Node, SubGraph, Tensor
from ...op import Op, run_forward
from ...ops.control.branch import Cond
from ...ops.control.call import Call
from ...ops.control.loop_op import LoopOp
from ...ops.core.identity import StopGradient
from ...ops.core.pullback import active_from
from ..address import Address
from ..float64 import Float64Run
from ..inside import has_inside, opened, sources
from .blame import NodeCheck, WrongTurns
from .composed import composed
from .local import LocalCheck
from .second import second_order

Array = np.ndarray[Any, Any]
MOST = 2_000
"""How many nodes are checked inside of one that disagrees; later turns of a loop are not seen."""
FEW = 200
"""And inside of a loop, branch or call that agrees, where a small fault may hide behind others."""
AGREE = 1e-6
"""Relative difference of two ways to compute the same cotangents in float64, through all turns."""
_WORST = ("ok", "kink", "unclear")


def check_node(
    node: Node,
    op: Op,
    xs: Sequence[Array | None],
    ys: Sequence[Array],
    rng: np.random.Generator,
    *,
    at: Address | None = None,
    training: bool = False,
    rtol: float = 1e-5,
    active: Collection[int] | None = None,
    reached: Collection[int] | None = None,
    order: int = 1,
    looks: Looks | None = None,
) -> NodeCheck:
    """Check one node on its arrays; one at fault is opened to see who inside is.

    What holds nodes of the user's, a loop, a branch or a call, is opened in any case, for as many
    ``looks`` as there are.

    A vjp at a kink may be any of many, so there it must also be right close by, or lie between the
    slopes on both sides: beside the ties of a large pool are others at all distances. Only
    cotangents of the ``active`` inputs are looked at, with cotangents for the ``reached`` outputs:
    what nobody asks for may be missing, or infinite, such as that of the exponent of (-1.0) ** 2.0.
    With ``order=2`` a vjp that is right has to have the right derivative, too.
    """
    began = time.perf_counter()
    options: Any = {"training": training, "rtol": rtol}
    address = Address(node.name) if at is None else at
    asked: Any = {"active": active, "reached": reached}
    check = LocalCheck(op, xs, ys, rng, **asked, **options)
    opens = has_inside(op)
    verdict, reason, found = check.run(causes=not opens)  # who is inside has the cause
    inner: tuple[NodeCheck, ...] = ()
    settled = False
    verdicts: set[str] = set()
    wrong = verdict in ("fail", "unclear")
    looks = looks or Looks(FEW)
    if opens and (wrong or (isinstance(op, LoopOp | Cond | Call) and looks.left > 0)):
        looks = Looks(MOST) if wrong else looks
        inside = check_inside(op, xs, rng, address, looks, order=order, **asked, **options)
        inner = tuple(c for c in inside.checks if c.verdict == "fail")
        verdicts = {c.verdict for c in inside.checks}
        if inner:
            verdict = "fail"
            reason += f"{'; ' * bool(reason)}inside it {', '.join(repr(c.op) for c in inner)}"
        elif wrong and inside.all and _agrees(check):
            worst = max((_WORST.index(v) for v in verdicts if v in _WORST), default=0)
            verdict, settled = _WORST[worst], True
            reason = "" if verdict == "ok" else reason
        elif verdict == "fail" and "kink" in verdicts:
            verdict = "kink"
        elif verdict == "fail":
            _, reason, found = check.run()
    if verdict == "kink" and not settled:
        moved = check.beside()
        ys = run_forward(op, moved, training=training)
        sides = LocalCheck(op, moved, ys, rng, **asked, **options).run()
        if any(c.comparison.verdict == "fail" and not c.comparison.is_between for c in sides[2]):
            verdict, reason, found = "fail", f"beside its kink, {sides[1]}", sides[2]
    if order == 2 and verdict in ("ok", "kink"):
        ends = {"active": list(check.directions), "reached": check.outputs}
        lost = second_order(op, xs, check.beside(), rng, **ends, **options)
        if lost:
            verdict, reason, found = "fail", "; ".join(map(str, lost)), tuple(lost)
    if verdict == "ok" and (check.is_surrogate or "surrogate" in verdicts):
        verdict = "surrogate"
    seconds = time.perf_counter() - began
    return NodeCheck(address, op.name, node.where, verdict, reason, found, inner, seconds)


@dataclass
class Looks:
    """How many nodes may still be looked at."""

    left: int


class Looked(NamedTuple):
    """The checks inside of a node, and whether all that runs there was looked at."""

    checks: list[NodeCheck]
    all: bool


def check_inside(
    op: Op,
    xs: Sequence[Array | None],
    rng: np.random.Generator,
    at: Address,
    looks: Looks,
    *,
    training: bool = False,
    rtol: float = 1e-5,
    active: Collection[int] | None = None,
    reached: Collection[int] | None = None,
    order: int = 1,
) -> Looked:
    """Check the nodes that run inside of a node; of a loop up to the first turn with a fault.

    In later turns those at fault are checked again, to say in how many turns they are.
    """
    options: Any = {"training": training, "rtol": rtol}
    checks: list[NodeCheck] = []
    wrong: dict[Node, int] = {}
    on_path: set[Tensor] | None = None
    read: set[Tensor] = set()
    turns, whole = 0, True
    for level in opened(op, xs, at, training=training):
        if looks.left <= 0:
            whole = False
            break
        if on_path is None:
            on_path = _on_path(op, xs, level.sub, active)
            read = _read(op, level.sub, reached)
        turns += 1
        found = bool(wrong)
        for met in level:
            if found and met.node not in wrong:
                continue
            looks.left -= 1
            asked: Any = {
                "active": [i for i, t in enumerate(met.node.inputs) if t in on_path],
                "reached": [i for i, t in enumerate(met.node.outputs) if t in read],
            }
            if found:
                again = LocalCheck(met.op, met.inputs, met.outputs, rng, **asked, **options)
                wrong[met.node] += again.run(causes=False)[0] == "fail"
            else:
                checks.append(
                    check_node(
                        met.node, met.op, met.inputs, met.outputs, rng,
                        at=met.address, order=order, looks=looks, **asked, **options,
                    )
                )  # fmt: skip
        if not found:
            at_fault = {c.address for c in checks if c.verdict == "fail"}
            wrong = {n: 1 for n in level.sub.nodes if at.into(n.name, level.part) in at_fault}
    if isinstance(op, LoopOp):
        counts = {n.name: WrongTurns(k, turns, whole) for n, k in wrong.items()}
        checks = [replace(c, turns=counts[c.name]) if c.verdict == "fail" else c for c in checks]
    return Looked(checks, whole)


def _on_path(
    op: Op, xs: Sequence[Array | None], sub: SubGraph, active: Collection[int] | None
) -> set[Tensor]:
    """Return the tensors inside that depend on the inputs of interest, in any turn."""
    ins = sub.inputs[1:] if isinstance(op, LoopOp) else sub.inputs
    pairs = zip(sources(op, xs), ins, strict=True)
    chosen = {t for i, t in pairs if active is None or i in active}
    while True:
        found = active_from(sub.nodes, list(chosen), frozenset())
        carried = set[Tensor]()
        if isinstance(op, LoopOp):
            ends = zip(ins[: op.n_carry], sub.outputs[op.lead :], strict=False)
            carried = {c for c, y in ends if y in found and c not in found}
        if not carried:
            return found
        chosen |= carried


def _read(op: Op, sub: SubGraph, reached: Collection[int] | None) -> set[Tensor]:
    """Return the tensors inside from which a path leads to outputs with a cotangent."""
    lead = op.lead if isinstance(op, LoopOp) else 0
    ends = {t for i, t in enumerate(sub.outputs[lead:]) if reached is None or i in reached}
    while True:
        found = reaching(sub.nodes, ends)
        carried = set[Tensor]()
        if isinstance(op, LoopOp):
            pairs = zip(sub.inputs[1 : 1 + op.n_carry], sub.outputs[lead:], strict=False)
            carried = {y for c, y in pairs if c in found and y not in ends}
        if not carried:
            return found
        ends |= carried


def reaching(nodes: Sequence[Node], targets: Iterable[Tensor]) -> set[Tensor]:
    """Return the tensors with a floating path to ``targets``: those that get a cotangent."""
    found = set(targets)
    for node in reversed(nodes):
        if not isinstance(node.op, StopGradient) and not found.isdisjoint(node.outputs):
            skipped = () if node.op.has_surrogate() else node.op.shape_only
            found.update(
                t
                for i, t in enumerate(node.inputs)
                if t is not None and t.spec.differentiable and i not in skipped
            )
    return found


def between(
    run: Float64Run, given: Sequence[Tensor], loss: Tensor
) -> tuple[set[Tensor], set[Tensor]]:
    """Return the copies that depend on given ones, and those that get a cotangent of the loss."""
    active = {*given, *(t for n in run.dependents(given) for t in n.outputs)}
    return active, reaching(run.nodes, [loss])


def _agrees(check: LocalCheck) -> bool:
    """Tell whether the cotangents are those that the chain rule makes of what runs inside."""
    with np.errstate(all="ignore"):
        own = check.vjp(check.xs, check.ys, check.gs, check.training)
        found = composed(check.op, check.xs, check.gs, check.training, MOST)
    return found is not None and all(_alike(g, found.get(i)) for i, g in own.items())


def _alike(a: Array, b: Array | None) -> bool:
    other = np.zeros_like(a) if b is None else b
    most = float(np.max(np.abs(a), initial=0.0, where=np.isfinite(a)))
    return np.allclose(a, other, rtol=AGREE, atol=AGREE * most, equal_nan=True)
