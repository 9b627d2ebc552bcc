"""What only happens in the dtypes that a graph trains in: underflow and overflow."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from ml_dtypes import finfo

from ...gradient import gradients
from ...graph import Tensor
from ...op import Op
from ...session import Session
from ...spec import dtype_name, is_floating
from ..float64 import Array, Float64Run
from .causes import PARTIAL, broken, told
from .explanation import Cause, Explanation, Step
from .level import Level, level_of, norm, stabilised
from .numbers import about


class AsItTrains(Float64Run):
    """A run in the graph's own dtypes."""

    def settled_array(self, array: Array) -> Array:
        """Return the value as it is."""
        return array

    def settled_op(self, op: Op) -> Op:
        """Return the op as it is."""
        return op


def is_narrow(run: Float64Run) -> bool:
    """Tell whether the graph of a run has floats that are narrower than the run's."""
    return any(is_floating(t.dtype) and t.dtype != copy.dtype for t, copy in run.copies.items())


def as_it_trains(
    found: Explanation, run: AsItTrains, parameter: Tensor, loss: Tensor
) -> Explanation:
    """Return an explanation with what the graph's own dtypes add to it."""
    (slope,) = gradients(loss, [parameter], unreachable="zero")
    feeds = {t: run.env[t] for t in run.copies.values() if t.kind == "placeholder"}
    with Session(run.graph) as session:
        size = norm(_wide(session.run(slope, feeds, training=run.training)))
    if math.isfinite(size) and (size > 0 or found.norm == 0):
        return found
    loss = stabilised(run, parameter, loss)
    level = level_of(run, parameter, loss)
    level.pull({loss: np.ones((), loss.dtype)})
    verdict = "zero" if size == 0 else "nonfinite"
    made = *_overflow(run, level), *_underflow(found, level), _nowhere(found)
    named = {n for c in made[:1] for n in c.nodes}
    others = [c for c in found.causes if c.kind not in PARTIAL and named.isdisjoint(c.nodes)]
    return replace(found, verdict=verdict, norm=size, zeros=1.0, causes=(*made[:1], *others))


def _underflow(found: Explanation, level: Level) -> Iterator[Cause]:
    nodes = {node.name: node for node, _ in level.nodes}
    for name, steps in itertools.groupby(found.steps, _outermost):
        node = nodes.get(name)
        if node is None:
            continue
        parts = [p for (n, _), p in level.parts.items() if n is node]
        arrives = any(t in level.total and level.total[t].any() for t in node.outputs)
        if arrives and not any(parts):
            there = list(steps)
            inner = [s for s in there if s.address.levels] or there
            yield _lost(min(inner, key=lambda step: step.gain), node.outputs[0].dtype)


def _nowhere(found: Explanation) -> Cause:
    text = f"in float64 its norm is {about(found.norm)}: the graph's own dtypes are too narrow"
    return Cause("underflow", text)


def _outermost(step: Step) -> str:
    return (*(level.node for level in step.address.levels), step.address.node)[0]


def _lost(step: Step, dtype: np.dtype[Any]) -> Cause:
    """Return the cause of a gradient that dies at a step in a dtype alone."""
    text, kind = f"{about(step.norm_out)} in float64 is 0 in {dtype_name(dtype)}", step.kind
    least = float(finfo(dtype).smallest_normal)  # type: ignore[no-untyped-call]
    if step.norm_out < least:
        text, kind = f"{text}; scale the loss, or compute there in a wider dtype", "underflow"
    elif step.reason:
        text = f"{text}; {step.reason}"
    at = (str(step.address),)
    return Cause(kind or "underflow", f"it dies at {told(step)}: {text}", at, 0.0)


def _overflow(run: AsItTrains, level: Level) -> Iterator[Cause]:
    for cause in broken(run.nodes, run.env):
        dtype = dtype_name(run.graph[cause.nodes[0]].dtype)
        yield replace(cause, kind="overflow", text=f"{cause.text}: it overflows {dtype}")
    for node, _ in reversed(level.nodes):
        arrives = [norm(_wide(level.total[t])) for t in node.outputs if t in level.total]
        parts = [p for (n, _), p in level.parts.items() if n is node]
        if all(map(math.isfinite, arrives)) and not all(map(math.isfinite, parts)):
            name = dtype_name(node.outputs[0].dtype)
            text = f"backward, the gradient of {node.op.title} {node.name!r} overflows {name}"
            yield Cause("overflow", text, (node.name,), math.inf)


def _wide(a: Array) -> Array:
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
