"""What a check of one loss needs, made once: flat calls forward, of the gradient, and of all rules.

All of it works on one list of registers. A program holds for a graph as it is now, a loss,
parameters, shapes, and a mode; other values are loaded into it. With the slopes it takes 13 to 19
times the bytes of parameters and forward values; a row-wise call adds at most ``slopes.ROW_BYTES``.
"""

from __future__ import annotations

import functools
import math
import operator
import threading
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....gradient import gradients
from ....graph import Constant, Node, Rng, Source, Tensor, Values, ancestors
from ....op import Op
from ....ops.core.identity import StopGradient
from ...float64 import Call, Calls, Float64Run, run_calls, wide
from ..directions import normal_like
from ..nodes import between
from .claims import slope_of
from .rules import Placed, rule_of
from .slopes import Linear, Slope

Array = np.ndarray[Any, Any]


@dataclass(eq=False)
class Step:
    """A call of the forward pass: its slopes by inputs that depend on a parameter, and these.

    ``None`` in place of a slope: nothing is known of how the call depends on this input.
    """

    call: Call
    reads: tuple[int, ...]
    """Registers that move its outputs: not those of which it reads the shape, nor stopped ones."""
    heads: tuple[int, ...]
    """Its outputs that count, as registers: floating, and read by another call or asked for."""
    slopes: list[tuple[Slope | None, int]]
    chosen: tuple[int, ...] = ()
    """Outputs that count and are not floating: they have no slope, but may jump."""


@dataclass(eq=False)
class Part:
    """A node: its steps, inputs and outputs as registers, and its own vjp behind them."""

    node: Node
    ins: list[int]
    outs: list[int]
    steps: list[Step]
    rule: Placed | None
    """None where the node can only be checked by itself, without measured slopes."""
    seeds: dict[int, Array]
    """A random cotangent for each output."""
    is_constant: bool = False
    """Whether there is nothing to check: nothing that depends on a parameter comes in or out."""
    right_beside: bool = False
    """Whether the rule was right beside a kink, where it is no choice between slopes."""


class Program:
    """The flat calls of a loss, its gradient, and every node's rule, with a slope per input."""

    def __init__(
        self, run: Float64Run, loss: Tensor, parameters: Sequence[Tensor], seed: int
    ) -> None:
        self.run, self.training, self.seed = run, run.training, seed
        self.graph = weakref.ref(loss.graph)
        self._ops = [weakref.ref(op) for op in self._ops_of(loss, parameters, run.fed)]
        self.lock = threading.Lock()
        self.names = [p.name for p in parameters]
        self.copies = [run.copies[p] for p in parameters]
        self.loss_copy = run.copies[loss]
        self.calls = calls = Calls(run.training, anew=True)
        self.held = calls.registers
        self.number: dict[Tensor, int] = {t: calls.new(a) for t, a in run.env.items() if _given(t)}
        self._rng = np.random.default_rng(seed)
        spans = self._open_forward()
        self.forward = list(calls.calls)
        self.computed = {o for c in self.forward for o in c.outs}
        self._scalars = [
            o for o in self.computed if _is_real(self.held[o]) and not self.held[o].ndim
        ]
        self._behind: dict[tuple[int, ...], list[Step]] = {}
        self._units: dict[tuple[int, ...], list[Array]] = {}
        self.loss = self.number[self.loss_copy]
        self.parameters = [self.number[t] for t in self.copies]
        self.is_declared = bool(calls.declared or calls.veiled or run.opened)
        """Whether gradients in it are declared, or stopped in a vjp: no chain of slopes tells of
        these."""
        if not np.isfinite(self.held[self.loss]):
            return  # there is no gradient to check, and whoever asked will say so
        self.backward, self.gradient = self._open_gradient()
        self.decisive = [(i, self.held[i].copy()) for i in calls.decisive]
        self.shapes = [self.held[o].shape for c in self.forward for o in c.outs]
        self.steps = self._steps(spans)
        self.choices = [step for step in self.steps if step.chosen]
        self.parts = [self._part(node, self.steps[first:last]) for node, first, last in spans]
        self.rules = [c for p in self.parts if p.rule is not None for c in p.rule.calls]
        self._sources = self._named_sources()
        self._is_new = True  # all calls have run, on the values they were made from
        run.env.clear()  # it would keep arrays that the registers no longer hold

    # -- making it ------------------------------------------------------------------------------

    def _open_forward(self) -> list[tuple[Node, int, int]]:
        calls, number, spans = self.calls, self.number, []
        for node in self.run.nodes:
            first = len(calls.calls)
            ins = [0 if t is None else number[t] for t in node.inputs]
            number.update(zip(node.outputs, calls.open(node.op, ins, node.name), strict=True))
            spans.append((node, first, len(calls.calls)))
        return spans

    def _open_gradient(self) -> tuple[list[Call], list[int]]:
        """Return the calls of the graph's own gradient, and the registers that it ends in."""
        calls, number = self.calls, dict(self.number)
        calls.calls = []
        found = gradients(self.loss_copy, self.copies)
        for node in ancestors(found, stop=set(number)):
            if all(t in number for t in node.outputs):
                continue
            if isinstance(node.op, Constant):
                number[node.outputs[0]] = calls.new(node.graph.values.array(node.name))
                continue
            op = node.op.for_mode(self.training)
            outs = calls.open(op, [0 if t is None else number[t] for t in node.inputs], node.name)
            for t, out in zip(node.outputs, outs, strict=True):
                number.setdefault(t, out)
        registers = [number[t] for t in found]
        calls.prune(registers)
        return calls.calls, registers

    def _steps(self, spans: Sequence[tuple[Node, int, int]]) -> list[Step]:
        """Return a step per call, with slopes by all inputs that a node's vjp is asked for."""
        held = self.held
        read = {i for c in self.forward for i in c.ins} | {self.loss}
        read.update(self.number[t] for n in self.run.nodes for t in n.public)
        active, steps = set(self.parameters), []
        for call in self.forward:
            op = call.op
            heads = tuple(o for o in call.outs if o in read and _is_real(held[o]))
            found: list[tuple[Slope | None, int]] = []
            reads: tuple[int, ...] = ()
            if not isinstance(op, StopGradient):
                reads = tuple([j for i, j in enumerate(call.ins) if j and i not in op.shape_only])
                floats = [
                    (i, j)
                    for i, j in enumerate(call.ins)
                    if j in active and i not in op.shape_only and _is_floating(held[j])
                ]
                whole = all(_is_real(held[o]) or not _is_floating(held[o]) for o in call.outs)
                found = [
                    (slope_of(call, i, heads, held, self._rng) if heads and whole else None, j)
                    for i, j in floats
                ]
            if found:
                active.update(o for o in call.outs if _is_floating(held[o]))
            chosen = (
                [o for o in call.outs if o in read and not _is_floating(held[o])] if found else []
            )
            steps.append(Step(call, reads, heads, found, tuple(chosen)))
        self.active = active
        return steps

    def _part(self, node: Node, steps: list[Step]) -> Part:
        held, number = self.held, self.number
        ins = [0 if t is None else number[t] for t in node.inputs]
        outs = [number[t] for t in node.outputs]
        part = Part(node, ins, outs, steps, None, {})
        public = outs[: len(node.public)]
        moved = [i for i in ins if i in self.active]
        live = all(any(_is_live(held[i]) for i in side if i) for side in (moved, public))
        if isinstance(node.op, StopGradient) or not live:
            part.is_constant = True
            return part
        if any(s is None for step in steps for s, _ in step.slopes) or not all(
            type(held[i]) is np.ndarray and held[i].dtype.kind in "fiub" for i in (*ins, *outs) if i
        ):
            return part
        rule = rule_of(node.op, [held[i] for i in ins], [held[o] for o in outs], self.training)
        if not (rule.is_fixed and any(ins[i] in self.active for i in rule.targets)):
            return part
        part.rule = rule.placed(held, ins, outs, self.active)
        part.seeds = {
            o: normal_like(held[o], self._rng)
            for o, slot in zip(outs, part.rule.gs, strict=False)
            if slot
        }
        if len(steps) == 1:
            self._lend(part.rule, steps[0])
        else:
            for step in steps:
                if any(type(s) is Linear for s, _ in step.slopes):
                    call = step.call
                    xs, ys = [held[i] for i in call.ins], [held[o] for o in call.outs]
                    inner = rule_of(call.op, xs, ys, self.training)
                    self._lend(inner.placed(held, call.ins, call.outs, self.active), step)
        return part

    @staticmethod
    def _lend(rule: Placed, step: Step) -> None:
        for slope, _ in step.slopes:
            if type(slope) is Linear and slope.i in rule.targets:
                slope.rule = rule

    # -- using it -------------------------------------------------------------------------------

    @staticmethod
    def _ops_of(loss: Tensor, parameters: Sequence[Tensor], fed: Collection[Tensor]) -> list[Op]:
        return [node.op for node in ancestors([loss, *parameters], stop=fed)]

    def is_of(self, loss: Tensor, parameters: Sequence[Tensor], fed: Collection[Tensor]) -> bool:
        """Tell whether this is still the program of a loss: whether graph and ops are the same."""
        ops = self._ops_of(loss, parameters, fed)
        known = [op() for op in self._ops]
        same = len(ops) == len(known) and all(map(operator.is_, ops, known))
        return same and self.graph() is loss.graph

    def _named_sources(self) -> list[tuple[str, bool, int]]:
        """Return name, whether it is fed, and register of what may have other values."""
        found = []
        for t, copy in self.run.copies.items():
            if copy in self.number and _given(copy) and not isinstance(t.op, Constant | Rng):
                found.append((t.name, t.kind != "variable" or t in self.run.fed, self.number[copy]))
        return found

    def load(self, fed: Mapping[str, Array], values: Values) -> bool:
        """Run forward on other feeds and values; False where they make it another program."""
        held = self.held
        self._is_new = False
        self.run.env.clear()
        for name, is_fed, register in self._sources:
            array = fed[name] if is_fed else values[name]
            held[register] = array.astype(wide(array.dtype))
        try:
            with np.errstate(all="ignore"):
                run_calls(self.forward, held)
        except Exception:  # a new program says what is wrong, or runs other calls
            return False
        return all(np.array_equal(held[i], was) for i, was in self.decisive) and (
            self.shapes == [held[o].shape for c in self.forward for o in c.outs]
        )

    def gradients(self) -> list[Array]:
        """Run the graph's own gradient and return it, by parameter."""
        if not self._is_new:
            run_calls(self.backward, self.held)
        return [self.held[i] for i in self.gradient]

    def steps_behind(self, registers: Sequence[int]) -> list[Step]:
        """Return the steps through which the loss depends on some registers, in order."""
        key = tuple(registers)
        if key not in self._behind:
            moved, lit = set(key), []
            for step in self.steps:
                if not moved.isdisjoint(step.reads) and moved.isdisjoint(step.call.outs):
                    lit.append(step)
                    moved.update(step.call.outs)
            needed, kept = {self.loss}, []
            for step in reversed(lit):
                if not needed.isdisjoint(step.call.outs):
                    needed.update(step.call.ins)
                    kept.append(step)
            self._behind[key] = kept[::-1]
        return self._behind[key]

    def loss_at(self, registers: Sequence[int], arrays: Sequence[Array]) -> float:
        """Return the loss for other values of some registers; NaN outside the domain of an op."""
        held = list(self.held)
        for register, array in zip(registers, arrays, strict=True):
            held[register] = np.asarray(array)  # arithmetic on 0-d gives scalars
        try:
            run_calls([step.call for step in self.steps_behind(registers)], held)
        except (ArithmeticError, ValueError):
            return math.nan
        return float(held[self.loss])

    def units(self, registers: Sequence[int]) -> list[Array]:
        """Return a random direction through some registers, always the same one."""
        key = tuple(registers)
        if key not in self._units:
            rng = np.random.default_rng(self.seed)
            self._units[key] = [np.asarray(rng.standard_normal(self.held[r].shape)) for r in key]
        return self._units[key]

    def magnitude(self) -> float:
        """Return the size of what the loss is the sum of, whose rounding it has."""
        return max((abs(float(self.held[i])) for i in self._scalars), default=0.0)

    def refresh(self) -> None:
        """Bring the values of the registers to the float64 run, for what works on that."""
        self.run.env.update((t, self.held[i]) for t, i in self.number.items())

    @functools.cached_property
    def between(self) -> tuple[set[Tensor], set[Tensor]]:
        """The copies that depend on a parameter, and those that get a cotangent of the loss."""
        return between(self.run, self.copies, self.loss_copy)

    @functools.cached_property
    def nbytes(self) -> int:
        """Bytes of all arrays, each counted once."""
        return sum({id(a): a.nbytes for a in self.held if type(a) is np.ndarray}.values())


def _given(t: Tensor) -> bool:
    return isinstance(t.op, Source)


def _is_floating(x: Any) -> bool:
    return type(x) is np.ndarray and x.dtype.kind in "fc"


def _is_live(x: Any) -> bool:
    """Tell whether a value may have a gradient: floating and not empty, or not even an array."""
    return type(x) is not np.ndarray or (x.dtype.kind in "fcO" and x.size > 0)


def _is_real(x: Any) -> bool:
    return type(x) is np.ndarray and x.dtype.kind == "f"
