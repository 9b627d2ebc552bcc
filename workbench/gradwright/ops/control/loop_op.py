"""What scan and while_loop share: one step as a sub-graph, its specs checked once for all steps.

In a loop of n carries one step is (number, *carries, *items, *captured) -> (*carries, *results).
The carries at the start of each step are a residual, the tape, which the gradient reads.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from ...errors import DTypeError, GradwrightError, GraphError, ShapeError
from ...graph import Graph, SubGraph, Tensor
from ...graph.build import active_graph
from ...graph.expand import infer_nodes, inline, refit, stand_in
from ...op import ZERO, Cotangent, NotDifferentiable, Op, attr, seams
from ...spec import AnyDim, Dim, TensorSpec, shapes_differ
from ...spec.containers import ContainerSpec, SequenceSpec
from ...spec.containers import join as join_containers
from ...spec.one_of import OneOf, may_be, one_of, options
from ..core.choice import Where
from ..core.elementwise import Add
from ..core.like import ZerosLike
from ..core.pullback import reached_from
from .fixed import Fixed, fixed
from .steps import Step, apart

NUMBER = TensorSpec((), "int64")
Turns = Generator[list[Any], Sequence[Any] | None, tuple[Any, ...]]
"""Yields (number, *carries, *items, *captured), is sent the results of that turn, returns all."""


class LoopOp(Op, abstract=True):
    """A sub-graph that runs once per step."""

    namespace = "control"
    follows_mode = True
    by_reference = "so"
    takes_ranks = True
    body: SubGraph = attr(doc="One step: (number, *carries, *items, *captured) -> results.")
    n_carry: int = attr(doc="How many tensors go from step to step.")
    changing: tuple[int, ...] = attr((), doc="Carries whose shape may change from step to step.")
    listed: tuple[bool, ...] = attr((), doc="Which results are sequences instead of stacked.")
    record: bool = attr(True, doc="Whether the carries of each step are kept for the gradient.")
    training: bool | None = attr(None, doc="Mode of random ops inside; None follows the run.")

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        collected = len(self.body.outputs) - self.lead - self.n_carry
        taken = len(self.body.inputs) - 1 - self.n_carry - self.n_xs
        if min(collected, taken, self.n_carry, self.n_xs) < 0 or (
            self.listed and len(self.listed) != collected
        ):
            raise GraphError(
                f"{self.name}: a step of {self.body} has no {self.n_carry} carries",
                need="(number, *carries, *items, *captured) -> (*carries, *results)",
            )
        self.__dict__["n_public"] = collected + self.n_carry

    first_carry = 0
    """Where the carries begin among the inputs."""
    lead = 0
    """How many results of a step come before the carries."""
    n_xs: Any = 0
    """How many inputs are taken item by item."""

    def without_residuals(self) -> Op:
        return self.replace(record=False)

    @property
    def n_results(self) -> int:
        """How many results of a step are collected."""
        return len(self.body.outputs) - self.lead - self.n_carry

    @property
    def carry_names(self) -> list[str]:
        """What errors call the carries."""
        return [t.name for t in self.body.inputs[1 : 1 + self.n_carry]]

    def is_listed(self, result: int) -> bool:
        """Tell whether a result of the steps is a sequence instead of one tensor."""
        return bool(self.listed) and self.listed[result]

    def split(self, xs: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        """Return carries, what is taken item by item, and what is captured."""
        own, n, m = xs[self.first_carry :], self.n_carry, self.n_carry + self.n_xs
        return own[:n], own[n:m], own[m:]

    def fitted(self, specs: Sequence[TensorSpec]) -> Op:
        carries, scanned, captured = self.split(specs)
        kept = [
            t.spec
            if j in self.changing
            else join_containers(c, t.spec)
            if isinstance(c, ContainerSpec)
            else c.bare()
            for j, (c, t) in enumerate(zip(carries, self.body.inputs[1:], strict=False))
        ]
        body = refit(self.body, [NUMBER, *kept, *map(item_of, scanned), *captured])
        return self if body is self.body else self.replace(body=body)

    # -- running ---------------------------------------------------------------------------------

    def turns(self, xs: Sequence[Any], into: Sequence[Any] | None = None) -> Turns:
        """Yield what each turn is given, take what comes of it, and return the outputs."""
        raise NotImplementedError

    def run(
        self, xs: Sequence[Any], step: Step, into: Sequence[Any] | None = None
    ) -> tuple[Any, ...]:
        """Run all turns; ``step`` computes one. Stacks are made ``into`` outputs, where given."""
        turns, found = self.turns(xs, into), None
        while True:
            try:
                given = turns.send(found)
            except StopIteration as end:
                outputs: tuple[Any, ...] = end.value
                return outputs
            try:
                found = step(given)
            except GradwrightError as error:
                error.part = str(given[0])
                raise

    def forward(self, *xs: Any) -> Any:
        training = bool(self.training)
        return apart(self.run(xs, lambda args: self.body.run(args, training=training)), xs)

    # -- specs -----------------------------------------------------------------------------------

    def step_specs(
        self,
        carries: Sequence[TensorSpec],
        items: Sequence[TensorSpec],
        captured: Sequence[TensorSpec],
    ) -> tuple[list[TensorSpec], list[TensorSpec]]:
        """Return the specs of the carries, and of all results of one step."""
        start = now = [c.bare() for c in carries]
        needed = len(self.body.inputs)
        if 1 + len(now) + len(items) + len(captured) != needed:
            raise ShapeError(f"a step takes {needed - 1} tensors, got {needed - 1}")
        given = [NUMBER, *now, *items, *captured]
        for stated, x in zip(self.body.inputs, given, strict=True):
            if not may_be(x, stated.spec):
                raise DTypeError(f"a step takes {stated.spec} as {stated.name!r}, got {x}")
        for _ in range(8):  # what changes may take several steps to show all that it becomes
            found = infer_nodes(self.body, [NUMBER, *now, *items, *captured])
            after = found[self.lead : self.lead + self.n_carry]
            settled = [
                join_containers(a, b)
                if isinstance(a, ContainerSpec)
                else either(start[j], a, b)
                if j in self.changing
                else a
                for j, (a, b) in enumerate(zip(now, after, strict=True))
            ]
            if settled == now:
                break
            now = settled
        for j, (name, a, b) in enumerate(zip(self.carry_names, now, after, strict=True)):
            if a.dtype != b.dtype:
                raise DTypeError(
                    f"the carry {name!r} starts as {a} and is {b} after a step",
                    need="one dtype in all steps",
                    hint="gw.cast what it starts with, or what a step returns",
                )
            if j not in self.changing and (not may_be(a, b) or shapes_differ(a.shape, b.shape)):
                raise ShapeError(
                    f"the carry {name!r} starts as {a} and is {b} after a step",
                    need="one shape in all steps",
                    hint="free_shapes=True, or collect pieces in a gw.sequence",
                )
        return now, found

    def outputs(
        self,
        carries: Sequence[TensorSpec],
        results: Sequence[TensorSpec],
        length: AnyDim,
        listed_tape: bool,
    ) -> tuple[TensorSpec, ...]:
        """Return the specs of all outputs of the loop."""
        stacked = []
        for i, y in enumerate(results):
            if isinstance(y, ContainerSpec):
                raise DTypeError(f"a step returns {y} as a result", need="a tensor, or a carry")
            stacked.append(collected(y, length, self.is_listed(i)))
        tape = [
            collected(c, length, listed_tape or j in self.changing)
            for j, c in enumerate(carries)
            if self.record and not isinstance(c, ContainerSpec)
        ]
        return (*carries, *stacked, *tape)

    # -- gradient --------------------------------------------------------------------------------

    def vjp(
        self, gs: Sequence[Any], ys: Sequence[Tensor], xs: Sequence[Tensor]
    ) -> Sequence[Cotangent]:
        wanted = [x is not None and x.spec.differentiable for x in xs]
        return self.pull(gs, ys, xs, wanted)

    def pull(
        self, gs: Sequence[Any], ys: Sequence[Tensor], xs: Sequence[Tensor], wanted: Sequence[bool]
    ) -> Sequence[Cotangent]:
        """Return the cotangents of those inputs that are wanted."""
        found = self.fixed
        turns = None if found is None else self.has_turns(xs)
        if found is None or turns is None:
            return self.pull_turns(gs, ys, xs, wanted)
        return _pull_fixed(self, found, turns, gs, ys, xs, wanted)

    def has_turns(self, xs: Sequence[Tensor]) -> Tensor | bool | None:
        """Return True, bool[] where a run decides, or None where there is none, or nobody knows."""
        raise NotImplementedError

    def pull_turns(
        self, gs: Sequence[Any], ys: Sequence[Tensor], xs: Sequence[Tensor], wanted: Sequence[bool]
    ) -> Sequence[Cotangent]:
        """Return them by a loop the other way alone."""
        raise NotImplementedError

    @property
    def fixed(self) -> Fixed | None:
        """What is the same in each turn, apart from the rest; None if there is nothing."""
        return fixed(self.body, len(self.body.inputs) - 1 - self.n_carry - self.n_xs)


def _pull_fixed(
    op: LoopOp,
    found: Fixed,
    turns: Tensor | bool,
    gs: Sequence[Any],
    ys: Sequence[Tensor],
    xs: Sequence[Tensor],
    wanted: Sequence[bool],
) -> Sequence[Cotangent]:
    """Return the cotangents of a loop's inputs, with what is fixed pulled back once, at the end.

    The loop the other way adds up the cotangents of what it reads; so it neither computes that in
    each turn, nor pulls through it. Of no turns nothing comes, where 0·∞ would be NaN.
    """
    captured = found.before.inputs
    graph, n = active_graph() or xs[0].graph, len(xs) - len(captured)
    held = dict(zip(captured, xs[n:], strict=True))
    made = dict(zip(found.before.outputs, inline(found.before, graph, xs[n:]), strict=True))
    given = {**held, **made}
    needed = [given[t] for t in found.needed]
    asked = [*wanted[:n], *(t.spec.differentiable for t in needed)]
    lean: Any = op.replace(body=found.body)
    pulled = lean.pull_turns(gs, ys, [*xs[:n], *needed], asked)
    direct = dict(zip(found.needed, pulled[n:], strict=True))
    out: list[Cotangent] = [*pulled[:n], *(direct.get(t, ZERO) for t in captured)]
    ends = {t: g for t in made if (g := direct.get(t, ZERO)) is not ZERO}
    refused = [g for g in ends.values() if isinstance(g, NotDifferentiable)]
    for k, t in enumerate(captured):
        i = n + k
        reached = reached_from(found.before.nodes, t)
        onto = {y: g for y, g in ends.items() if y in reached}
        if not wanted[i] or not onto or isinstance(out[i], NotDifferentiable):
            continue
        if refused:
            out[i] = refused[0]
            continue
        more = _pulled(found.before, k, onto, graph, xs[n:])
        if isinstance(turns, Tensor):
            more = Where()(turns, more, ZerosLike()(more))
        out[i] = more if out[i] is ZERO else Add()(out[i], more)
    return out


def _pulled(
    sub: SubGraph, wrt: int, ends: dict[Tensor, Any], graph: Graph, xs: Sequence[Tensor]
) -> Tensor:
    """Return the cotangent of one input of a sub-graph, of whose outputs some have cotangents."""
    scratch = Graph("gradient", scratch=True)
    own = [stand_in(scratch, f"x{i}", t.spec.bare()) for i, t in enumerate(sub.inputs)]
    ys = dict(zip(sub.outputs, inline(sub, scratch, own), strict=True))
    gs = [stand_in(scratch, f"g{i}", t.spec.bare()) for i, t in enumerate(ends)]
    found = seams.gradients([ys[t] for t in ends], [own[wrt]], gs, unreachable="zero")
    (made,) = inline(SubGraph([*own, *gs], found), graph, [*xs, *ends.values()])
    return made


def item_of(spec: TensorSpec) -> TensorSpec:
    """Return the spec of what one step takes of a tensor or a sequence."""
    if isinstance(spec, SequenceSpec):
        return spec.item
    return TensorSpec(spec.shape[1:], spec.dtype)


def either(start: TensorSpec, a: TensorSpec, b: TensorSpec) -> TensorSpec:
    """Return what a carry is that began as ``start``, if it may be ``a``, and ``b`` after a step.

    Sizes that a step changes are new ones, made once.
    """
    if a.dtype != b.dtype:  # which is refused elsewhere
        return a
    known = {d for s in options(start) for d in s.shape}
    own = {d for s in options(a) for d in s.shape if _is_open(d)} - known
    after = [
        s.with_shape(
            [Dim.fresh("either") if _is_open(d) and d not in known | own else d for d in s.shape]
        )
        for s in options(b)
    ]
    return one_of([a, *after], own)


def _is_open(d: AnyDim) -> bool:
    return isinstance(d, Dim) and d.is_open


def collected(spec: TensorSpec, length: AnyDim, listed: bool) -> TensorSpec:
    """Return the spec of one result of all steps."""
    if isinstance(spec, OneOf):
        if listed:
            return SequenceSpec(None, spec.dtype)
        return one_of([collected(s, length, False) for s in spec.options])
    if listed:  # a size that one step makes up may be another in the next
        dims = [None if _is_open(d) else d for d in spec.shape]
        return SequenceSpec(dims, spec.dtype)
    return TensorSpec((length, *spec.shape), spec.dtype)
