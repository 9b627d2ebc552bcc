"""Profile of a plan: how long each step takes, alone, and how fast that is."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import FeedError
from ..graph import Node, Rng, Tensor, Values
from ..op import Op
from ..ops.matrices.linalg import Matmul
from ..program.program import Instr, Program
from ..program.row import Row, sizes
from ..spec import known_spec
from ..words.tables import Table, Tabular

if TYPE_CHECKING:
    from .plan import Plan
    from .segment import Segment

Array = np.ndarray[Any, Any]
SHOWN = 40
"""How many steps a text shows."""


@dataclass(frozen=True)
class Timed:
    """One step of a plan, and the seconds that it takes: the shortest of the repeats."""

    row: Row
    seconds: float
    flops: float
    """Arithmetic of a product, a convolution and the like; 0 of what memory bounds."""
    nbytes: int
    """What it reads and writes, each array once."""

    @property
    def rate(self) -> str:
        """GFLOP/s of what has arithmetic, GB/s of others."""
        if not self.seconds or not (self.flops or self.nbytes):
            return ""
        if self.flops:
            return f"{self.flops / self.seconds / 1e9:.3g} GFLOP/s"
        return f"{self.nbytes / self.seconds / 1e9:.3g} GB/s"


class Profile(Tabular):
    """How long each step of a plan takes; a table in a notebook, and as text, slowest first.

    Steps are called one by one, as they lie in memory; in a run neighbours are one call, which
    saves about 0.3 µs a step. Nothing is committed.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 3))
    >>> plan = gw.Session(g, kernels="off").plan(gw.exp(x @ gw.transpose(x)).sum(), {"x": (4, 3)})
    >>> profile = plan.profile({"x": np.ones((4, 3), "f4")})
    >>> [step.row.node for step in profile], profile.total > 0
    (['transpose', 'matmul', 'exp', 'sum'], True)
    """

    def __init__(self, steps: Sequence[Timed]) -> None:
        self.steps = list(steps)

    @property
    def total(self) -> float:
        """Seconds of all steps."""
        return sum(step.seconds for step in self.steps)

    def slowest(self, n: int = 10) -> list[Timed]:
        """Return the steps that take longest."""
        return sorted(self.steps, key=lambda step: -step.seconds)[:n]

    def by_what(self) -> dict[str, float]:
        """Return the seconds of products, kernels, and what else there is, most first."""
        found: dict[str, float] = {}
        for step in self.steps:
            found[step.row.what] = found.get(step.row.what, 0.0) + step.seconds
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def of(self, node: Node | Tensor | str) -> list[Timed]:
        """Return the steps that serve a node of the graph, given itself or by name."""
        name = node if isinstance(node, str) else node.name
        return [s for s in self.steps if any(name == n.name for n in s.row.origins)]

    def __iter__(self) -> Iterator[Timed]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        return f"<Profile: {self._said()}>"

    def _said(self) -> str:
        total = self.total
        found = self.by_what() if total else {}
        parts = [f"{what} {seconds / total:.0%}" for what, seconds in found.items()]
        return f"{total * 1e3:.4g} ms in {len(self)} steps: {', '.join(parts) or 'nothing'}"

    def table(self, n: int = SHOWN) -> Table:
        """Return the ``n`` slowest steps as a table."""
        total = self.total or 1.0
        rows = [
            [
                str(s.row.step),
                f"{s.seconds * 1e6:.1f}",
                f"{s.seconds / total:.1%}",
                s.rate,
                s.row.what,
                s.row.node,
                " ".join(s.row.ops),
                sizes(s.row.space),
            ]
            for s in self.slowest(n)
        ]
        more = len(self) - len(rows)
        return Table(
            ["step", "µs", "share", "rate", "what", "node", "ops", "over"],
            rows,
            title=self._said(),
            notes=[f"and {more} faster ones"] if more > 0 else [],
        )


def profile(
    plan: Plan, feeds: Mapping[Tensor | str, Any], values: Values | None, repeats: int
) -> Profile:
    """Time the steps of a plan; its kernels are compiled first."""
    graph = plan.targets[0].graph if plan.targets else next(iter(plan.updates)).graph
    values = graph.values if values is None else values
    env = _fed(plan, {graph[k] if isinstance(k, str) else k: v for k, v in feeds.items()})
    with values.lock:
        env.update({t: values.array(t.node.name) for t in plan.variables if t not in env})
    _run(plan, env)  # lays out all segments
    plan.ask_for_kernels()
    plan.device.wait()
    path = _run(plan, env)
    taken: list[float] = []
    for part in path:
        times: list[list[float]] = [[] for _ in part.executor.laid.program.instrs]
        with part.executor.singly(env) as calls:
            for _ in range(repeats + 1):  # the first one warms up
                once = [0.0] * len(times)
                for step, call in calls:
                    start = time.perf_counter()
                    call()
                    once[step] += time.perf_counter() - start
                for seconds, all_of in zip(once, times, strict=True):
                    all_of.append(seconds)
        taken += [min(all_of[1:]) for all_of in times]
    programs = [part.executor.laid.program for part in path]
    instrs = [(instr, program) for program in programs for instr in program.instrs]
    rows = plan.kernels
    return Profile(
        [
            Timed(row, seconds, *_work(instr, program))
            for row, seconds, (instr, program) in zip(rows, taken, instrs, strict=True)
            if row.what != "view"
        ]
    )


def _run(plan: Plan, env: dict[Tensor, Array]) -> list[Segment]:
    """Run all segments on feeds and variables, and return those that did."""
    path = [plan.head]
    while True:
        path[-1].executor.run(env)
        if path[-1].end == len(plan.order):
            path[-1].executor.drop()
            return path
        path.append(plan.following(path[-1], env))


def _fed(plan: Plan, feeds: Mapping[Tensor, Any]) -> dict[Tensor, Array]:
    """Return feeds as arrays of the specs that the plan was made for."""
    env: dict[Tensor, Array] = {}
    known = plan.head.known
    for t in plan.feeds:
        if isinstance(t.node.op, Rng):  # which numbers are drawn takes no time
            env[t] = np.zeros(2, np.uint64)
            continue
        if t not in feeds:
            raise FeedError(f"placeholder {t.name!r} is not fed", need=str(known[t]))
        array = feeds[t] if known[t].by_reference else np.asarray(feeds[t], known[t].dtype)
        if not known[t].by_reference and known_spec(array).shape != known[t].shape:
            raise FeedError(
                f"placeholder {t.name!r} is fed with {known_spec(array)}",
                need=f"{known[t]}, which the plan was made for",
            )
        env[t] = array
    return env


def _work(instr: Instr, program: Program) -> tuple[float, int]:
    """Return the arithmetic of a product, and the bytes that any step reads and writes."""
    numbers = dict.fromkeys(i for i in (*instr.ins, *instr.outs) if i is not None)
    nbytes = 0
    for number in numbers:
        array, spec = program.constants.get(number), program.specs[number]
        if (array is None or any(array.strides)) and spec.is_concrete and not spec.by_reference:
            nbytes += spec.nbytes
    if type(instr.op).flops is Op.flops or not all(program.specs[i].is_concrete for i in numbers):
        return 0.0, nbytes
    ins, outs = (
        [i if i is None else program.specs[i] for i in some] for some in (instr.ins, instr.outs)
    )
    flops = float(instr.op.flops(ins, outs))
    is_bound_by_memory = flops <= nbytes and not isinstance(instr.op, Matmul)
    return 0.0 if is_bound_by_memory else flops, nbytes
