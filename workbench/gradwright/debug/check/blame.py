"""Which op is wrong: every node's vjp is held against its own forward, at the values of one run.

It needs no other node, so an error is found where it is made, not where it arrives.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...graph import Constant, Node, Source, Tensor
from ...op import Op, run_forward
from ...ops.core.identity import StopGradient
from ...ops.core.pullback import active_from
from ..float64 import inside
from .local import InputCheck, LocalCheck
from .second import second_order

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, repr=False)
class NodeCheck:
    """What the check of one node found.

    ``verdict`` is ``ok``, ``kink`` (not differentiable here, the vjp is one of the slopes),
    ``surrogate`` (right by the gradient that is declared, which is not that of the op),
    ``unclear``, ``fail``, or ``none`` where there is nothing to check. ``inner`` holds the nodes at
    fault inside a composite.
    """

    name: str
    op: str
    where: str
    verdict: str
    reason: str = ""
    inputs: tuple[InputCheck, ...] = ()
    inner: tuple[NodeCheck, ...] = ()
    seconds: float = field(default=0.0, compare=False)
    """How long the check took."""

    @property
    def relative_error(self) -> float:
        """The largest relative error of the inputs' cotangents; NaN counts as infinite."""
        errors = [i.comparison.relative_error for i in self.inputs]
        return max((float("inf") if e != e else e for e in errors), default=0.0)

    def __repr__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        return f"<{self.op} {self.name!r} {self.verdict}{reason}>"


def check_node(
    node: Node,
    op: Op,
    xs: Sequence[Array | None],
    ys: Sequence[Array],
    rng: np.random.Generator,
    *,
    training: bool = False,
    rtol: float = 1e-5,
    active: Collection[int] | None = None,
    reached: Collection[int] | None = None,
    order: int = 1,
) -> NodeCheck:
    """Check one node on its arrays; a composite at fault is opened to see who inside is.

    A vjp at a kink may be any of many, so there it must also be right close by. Only cotangents of
    the ``active`` inputs are looked at, with cotangents for the ``reached`` outputs: what nobody
    asks for may be missing, or infinite, such as that of the exponent of (-1.0) ** 2.0. With
    ``order=2`` a vjp that is right has to have the right derivative, too.
    """
    began = time.perf_counter()
    options: Any = {"training": training, "rtol": rtol}
    asked: Any = {"active": active, "reached": reached}
    check = LocalCheck(op, xs, ys, rng, **asked, **options)
    verdict, reason, found = check.run()
    inner: tuple[NodeCheck, ...] = ()
    if verdict in ("fail", "unclear"):
        checks = check_inside(op, xs, rng, **asked, **options)
        inner = tuple(c for c in checks if c.verdict == "fail")
        if inner:
            reason = f"{reason}; inside it {', '.join(repr(c.op) for c in inner)}"
        elif verdict == "fail" and any(c.verdict == "kink" for c in checks):
            verdict = "kink"
    if order == 2 and verdict in ("ok", "kink"):
        ends = {"active": list(check.directions), "reached": check.outputs}
        moved = check.beside()
        wrong = second_order(op, xs, moved, rng, check.label, **ends, **options)
        if wrong:
            verdict, reason, found = "fail", "; ".join(map(str, wrong)), tuple(wrong)
    if verdict == "ok" and check.is_surrogate:
        verdict = "surrogate"
    if verdict == "kink":
        moved = check.beside()
        ys = run_forward(op, moved, training=training)
        sides = LocalCheck(op, moved, ys, rng, **asked, **options).run()
        if sides[0] == "fail":
            verdict, reason, found = "fail", f"beside its kink, {sides[1]}", sides[2]
    seconds = time.perf_counter() - began
    return NodeCheck(node.name, op.name, node.where, verdict, reason, found, inner, seconds)


def check_inside(
    op: Op,
    xs: Sequence[Array | None],
    rng: np.random.Generator,
    *,
    training: bool = False,
    rtol: float = 1e-5,
    active: Collection[int] | None = None,
    reached: Collection[int] | None = None,
) -> list[NodeCheck]:
    """Check the nodes that an op stands for: a composite's expansion, a cond's chosen branch."""
    sub = inside(op, xs)
    if sub is None:
        return []
    numbers = [i for i, x in enumerate(xs) if x is not None]
    if not op.is_composite():
        numbers = numbers[1:]  # without the choice
    env: dict[Tensor, Any] = {t: xs[i] for t, i in zip(sub.inputs, numbers, strict=True)}
    wrt = [
        t for t, i in zip(sub.inputs, numbers, strict=True)
        if t.spec.differentiable and (active is None or i in active)
    ]  # fmt: skip
    ends = [t for i, t in enumerate(sub.outputs) if reached is None or i in reached]
    moving, read = active_from(sub.nodes, wrt, frozenset()), reaching(sub.nodes, ends)
    checks = []
    for node in sub.nodes:
        if isinstance(node.op, Constant):
            env[node.outputs[0]] = node.graph.values.array(node.name)
        elif not isinstance(node.op, Source):
            settled = node.op.for_mode(training)
            arrays = [None if t is None else env[t] for t in node.inputs]
            ys = run_forward(settled, arrays, training=training)
            env.update(zip(node.outputs, ys, strict=True))
            checks.append(
                check_node(
                    node, settled, arrays, ys, rng, training=training, rtol=rtol,
                    active=[i for i, t in enumerate(node.inputs) if t in moving],
                    reached=[i for i, t in enumerate(node.outputs) if t in read],
                )
            )  # fmt: skip
    return checks


def reaching(nodes: Sequence[Node], targets: Sequence[Tensor]) -> set[Tensor]:
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
