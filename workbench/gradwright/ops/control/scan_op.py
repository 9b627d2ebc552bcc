"""The scan op, and the gradient of loops, which is a scan the other way.

It reads the carries and results of all steps, computes again what else it needs of a step, and
pulls the cotangents back through it. It is itself a loop that has a gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import GradientError, ShapeError
from ...graph import Graph, SubGraph, Tensor, ancestors
from ...graph.expand import inline, stand_in
from ...op import (
    ZERO,
    Cotangent,
    ErrorSample,
    NotDifferentiable,
    OnnxRule,
    Sample,
    attr,
    infer_specs,
    seams,
)
from ...spec import AnyDim, Dim, TensorSpec, differ, known_spec
from ...spec.containers import ContainerSpec, SequenceSpec
from ...spec.one_of import OneOf
from ..core.joining import Concat
from ..core.like import ShapeOf, ZerosLike
from ..core.movement import ExpandDims
from ..core.pullback import reached_from
from .loop_op import LoopOp, Turns, item_of
from .steps import Listing, Stack, check_carry, items_of


class Scan(LoopOp):
    """Steps over the rows of tensors or the items of sequences.

    c₀ = init,  (cₜ₊₁, yₜ) = body(t, cₜ, xₜ, captured)

    Inputs are the carries, what is taken item by item, and what the body captures; outputs the last
    carries and the stacked results. Raises ShapeError where a carry changes its shape that is not
    among those that may.
    """

    returns = ("*results",)
    onnx = OnnxRule("Scan", since=9)
    n_xs: int = attr(doc="How many inputs are taken item by item.")
    reverse: bool = attr(False, doc="Whether the last item comes first.")
    length: AnyDim | None = attr(None, doc="Number of steps, needed where nothing is scanned.")

    def infer(self, *xs: TensorSpec) -> tuple[TensorSpec, ...]:
        carries, scanned, captured = self.split(xs)
        length: AnyDim | None = self.length
        if isinstance(length, int) and length < 0:
            raise ShapeError(f"scan cannot make {length} steps", need="length >= 0")
        items = list(map(item_of, scanned))
        for i, x in enumerate(scanned):
            if isinstance(x, SequenceSpec):
                continue
            if not x.rank:
                raise ShapeError(
                    f"scan takes x_{i} row by row, got {x}", need="an axis to go along"
                )
            if length is not None and differ(length, x.shape[0]):
                raise ShapeError(f"x_{i} has {x.shape[0]} rows", need=f"{length}, like the others")
            if length is None or isinstance(length, Dim):
                length = x.shape[0]
        listed = any(isinstance(x, SequenceSpec) for x in scanned)
        if length is None:
            if not listed:
                raise ShapeError("the number of steps is open", need="xs, or length=")
            length = Dim.fresh("steps")
        now, found = self.step_specs(carries, items, captured)
        return self.outputs(now, found[self.n_carry :], length, listed)

    def turns(self, xs: Sequence[Any], into: Sequence[Any] | None = None) -> Turns:
        given, scanned, captured = self.split(xs)
        start = now = list(given)
        sources = [items_of(x) for x in scanned]
        counts = sorted({len(s) for s in sources})
        if len(counts) > 1:
            raise ShapeError(f"scan got sequences of {counts} items", need="equally many")
        count = counts[0] if counts else self.length
        assert isinstance(count, int)
        listed = any(x.dtype.kind == "O" for x in scanned)
        n, order = self.n_carry, range(count)[:: -1 if self.reverse else 1]
        names = self.carry_names
        ready = iter([None] * len(self.body.outputs) * 2 if into is None else into[n:])
        results = [
            Listing(self.reverse)
            if self.is_listed(i)
            else Stack(count, f"result {i} of scan", into=place)
            for i, place in zip(range(self.n_results), ready, strict=False)
        ]
        taped = [j for j in range(n) if given[j].dtype.kind != "O"]
        tape = [
            Listing(self.reverse)
            if listed or j in self.changing
            else Stack(count, names[j], into=place)
            for j, place in zip(taped if self.record else [], ready, strict=False)
        ]
        for i in order:
            for log, j in zip(tape, taped, strict=False):
                log.put(i, now[j])
            found = yield [np.array(i), *now, *(s[i] for s in sources), *captured]
            assert found is not None
            now = list(found[:n])
            check_carry(names, start, now, i, self.changing)
            for log, y in zip(results, found[n:], strict=True):
                log.put(i, y)
        specs: Sequence[Any] = (None,) * (len(now) + len(results) + len(tape))
        if not count:  # nothing says what the results would have been
            specs = infer_specs(self, [known_spec(x) for x in xs])
        logs = [*results, *tape]
        return (*now, *(log.done(s) for log, s in zip(logs, specs[n:], strict=True)))

    def has_turns(self, xs: Sequence[Tensor]) -> Tensor | bool | None:
        x = xs[self.n_carry] if self.n_xs else None
        if x is not None and isinstance(x.spec, ContainerSpec):
            return None
        rows = self.length if x is None else x.shape[0]
        if isinstance(rows, int):
            return True if rows > 0 else None
        return None if x is None else ShapeOf()(x)[0] > 0

    def pull_turns(
        self, gs: Sequence[Any], ys: Sequence[Tensor], xs: Sequence[Tensor], wanted: Sequence[bool]
    ) -> Sequence[Cotangent]:
        return pull_steps(self, gs, ys, xs, wanted, reverse=not self.reverse)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        graph = Graph("sample", scratch=True)
        step = graph.placeholder("step", (), "int64")
        c, x, w = (graph.placeholder(n, (2,), "float64") for n in ("carry", "x", "w"))
        new = c * w + x
        body = SubGraph([step, c, x, w], [new, new * new])
        for length, reverse in ((3, False), (2, True), (0, False)):
            yield Sample(
                (rng.standard_normal(2), rng.standard_normal((length, 2)), rng.standard_normal(2)),
                {"body": body, "n_carry": 1, "n_xs": 1, "reverse": reverse},
            )

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        graph = Graph("sample", scratch=True)
        step, c = graph.placeholder("step", (), "int64"), graph.placeholder("carry", (2,))
        x = graph.placeholder("x", (2,))
        grows = SubGraph([step, c, x], [(c + x).reshape(2, 1)])
        vector, rows = TensorSpec((2,)), TensorSpec((4, 2))
        attrs = {"n_carry": 1, "n_xs": 1}
        yield ErrorSample((vector, rows), {"body": grows, **attrs}, "the carry 'carry' starts as")
        same = SubGraph([step, c, x], [c + x])
        yield ErrorSample((vector, TensorSpec(())), {"body": same, **attrs}, "row by row")
        wide = {"body": same, **attrs, "length": 3}
        yield ErrorSample((vector, rows), wide, "4 rows")
        yield ErrorSample((vector, rows), {**wide, "length": -1}, "cannot make -1 steps")


def pull_steps(
    op: LoopOp,
    gs: Sequence[Any],
    ys: Sequence[Tensor],
    xs: Sequence[Tensor],
    wanted: Sequence[bool],
    reverse: bool,
) -> list[Cotangent]:
    """Return the cotangents of carries, items and captured tensors, which are ``xs``."""
    if any(isinstance(x.spec, ContainerSpec) for x in xs[: op.n_carry]):
        reason = "a carry is a sequence or an optional; stack what is differentiated"
        return [NotDifferentiable(reason) if w else ZERO for w in wanted]
    if any(isinstance(t.spec, OneOf) for t in op.body.inputs[1 : 1 + op.n_carry]):
        reason = "a carry changes its rank; gw.reshape it to one that stays"
        return [NotDifferentiable(reason) if w else ZERO for w in wanted]
    if not op.record:
        reason = "it was made with record=False, so the carries of its steps are not kept"
        return [NotDifferentiable(reason) if w else ZERO for w in wanted]
    pull = _Pull(op, gs, ys, xs, reverse)
    wrt = [i for i, w in enumerate(wanted) if w and pull.matters(i)]
    out: list[Cotangent] = [ZERO] * len(xs)
    try:
        found = pull.build(wrt)
    except GradientError:  # only those may fail that somebody asks for
        for i in list(wrt):
            try:
                pull.build([i])
            except GradientError as error:
                out[i] = NotDifferentiable(f"in a step, {error.problem}")
                wrt.remove(i)
        found = pull.build(wrt) if wrt else []
    for i, g in zip(wrt, found, strict=True):
        out[i] = g
    return out


class _Pull:
    """The reverse scan of a loop, for those inputs that are wanted."""

    def __init__(
        self,
        op: LoopOp,
        gs: Sequence[Any],
        ys: Sequence[Tensor],
        xs: Sequence[Tensor],
        reverse: bool,
    ) -> None:
        self.op, self.ys, self.xs, self.reverse = op, ys, xs, reverse
        n, q = op.n_carry, op.n_results
        self.g_final, self.g_result, self.g_tape = gs[:n], gs[n : n + q], gs[n + q :]
        self.tape = ys[n + q :]
        body = op.body
        results = body.outputs[op.lead :]
        reached = [reached_from(body.nodes, t) for t in body.inputs[1:]]
        self.leads_to = [{k for k, y in enumerate(results) if y in found} for found in reached]
        self.present = [i for i, g in enumerate(self.g_result) if g is not ZERO]
        targets = {n + i for i in self.present}
        self.live = {
            j for j in range(n) if self.g_final[j] is not ZERO or self.g_tape[j] is not ZERO
        }
        growing = True
        while growing:  # a carry matters where it leads to something that does
            more = {
                j
                for j in range(n)
                if j not in self.live and self.leads_to[j] & (targets | self.live)
            }
            self.live |= more
            growing = bool(more)
        self.targets = targets | self.live

    def matters(self, i: int) -> bool:
        """Tell whether anything flows to input ``i``."""
        return i in self.live if i < self.op.n_carry else bool(self.leads_to[i] & self.targets)

    def build(self, wrt: Sequence[int]) -> list[Any]:
        """Return the cotangents of the inputs ``wrt``."""
        op, n, body = self.op, self.op.n_carry, self.op.body
        live = sorted(self.live)
        items = range(n, n + op.n_xs)
        of_items = [i for i in wrt if i in items]
        of_captured = [i for i in wrt if i >= items.stop]
        taped = [j for j in live if self.g_tape[j] is not ZERO]

        graph = Graph("gradient", scratch=True)
        xs = [stand_in(graph, f"x{i}", t.spec.bare()) for i, t in enumerate(body.inputs)]
        number, own = xs[0], xs[1:]

        def like(prefix: str, i: int, t: Tensor) -> Tensor:
            return stand_in(graph, f"{prefix}{i}", t.spec.bare())

        results = inline(body, graph, xs)[op.lead :]
        g_carry = [like("g_carry", j, own[j]) for j in live]
        g_sum = [like("g_sum", i, own[i]) for i in of_captured]
        g_result = [like("g_result", i, results[n + i]) for i in self.present]
        g_tape = [like("g_tape", j, own[j]) for j in taped]
        found = seams.gradients(
            [*(results[j] for j in live), *(results[n + i] for i in self.present)],
            [own[i] for i in (*live, *of_items, *of_captured)],
            [*g_carry, *g_result],
            unreachable="zero",
        )
        g_live = dict(zip(live, found, strict=False))
        for j, g in zip(taped, g_tape, strict=True):
            g_live[j] = g_live[j] + g
        g_items = found[len(live) : len(live) + len(of_items)]
        g_captured = [a + b for a, b in zip(g_sum, found[len(live) + len(of_items) :], strict=True)]

        cotangents = [*g_live.values(), *g_captured, *g_items]
        known = self._known(results, cotangents)
        scanned = [*own[:n], *(own[i] for i in items), *g_result, *g_tape, *known]
        step = _closed(
            [number, *g_carry, *g_sum, *scanned, *own[items.stop :]],
            cotangents,
        )
        made = Scan(
            body=step,
            n_carry=len(live) + len(of_captured),
            n_xs=len(scanned),
            reverse=self.reverse,
            changing=tuple(i for i, j in enumerate(live) if j in op.changing),
            listed=tuple(isinstance(self.xs[i].spec, ContainerSpec) for i in of_items),
            training=op.training,
        )(
            *(
                ZerosLike()(self.ys[j]) if self.g_final[j] is ZERO else self.g_final[j]
                for j in live
            ),
            *(ZerosLike()(self.xs[i]) for i in of_captured),
            *self.tape,
            *(self.xs[i] for i in items),
            *(self.g_result[i] for i in self.present),
            *(self.g_tape[j] for j in taped),
            *known.values(),
            *self.xs[items.stop :],
        )
        outs = made if isinstance(made, tuple) else (made,)
        per_input = dict(zip((*live, *of_captured, *of_items), outs, strict=True))
        return [per_input[i] for i in wrt]

    def _known(self, results: Sequence[Tensor], targets: Sequence[Tensor]) -> dict[Tensor, Tensor]:
        """Return those results of a step that its gradient reads, with where all of them stand.

        So they need not be computed again: of h = tanh(x·u + h·v) the gradient reads h alone, and
        no product is made twice.
        """
        read = {t for node in ancestors(targets) if node.derived for t in node.inputs}
        found: dict[Tensor, Tensor] = {}
        for k in reversed(range(len(results))):  # what is stacked anyway comes before the tape
            r = results[k]
            is_open = any(isinstance(d, Dim) and d.is_open for d in r.shape)
            if r not in read or r in found or is_open or len(r.node.outputs) > 1:
                continue
            if r.kind == "array" and k >= self.op.n_carry:
                found[r] = self.ys[k]
            elif r.kind == "array" and not isinstance(self.tape[k].spec, ContainerSpec):
                found[r] = self._after(k)
        return found

    def _after(self, carry: int) -> Tensor:
        """Return a carry at the end of each step: the tape, one step on."""
        tape, last = self.tape[carry], ExpandDims(axis=0)(self.ys[carry])
        made: Tensor = (
            Concat(axis=0)(tape, last)[1:] if self.reverse else Concat(axis=0)(last, tape)[:-1]
        )
        return made


def _closed(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> SubGraph:
    """Return a sub-graph of its own whose inputs may be results of ops here."""
    graph = Graph("gradient", scratch=True)
    own = [stand_in(graph, f"in{i}", t.spec.bare()) for i, t in enumerate(inputs)]
    return SubGraph(own, inline(SubGraph(inputs, outputs), graph, own))
