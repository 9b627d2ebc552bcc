"""A loop written out, step after step, for those who want to walk through it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import GraphError
from ...graph import Graph, SubGraph, Tensor
from ...graph.expand import inline, stand_in
from ...op import find_op, infer_specs
from ...spec import BOXED, known_spec
from ...spec.containers import SequenceSpec
from ..core.index import Gather
from ..core.joining import Stack
from .loop import While
from .loop_op import LoopOp
from .scan_op import Scan
from .steps import items_of

Array = np.ndarray[Any, Any]
MAX_NODES = 20_000


def unrolled(op: LoopOp, xs: Sequence[Array | None]) -> SubGraph:
    """Return what a loop does on these arrays as a graph without a loop.

    A while loop runs once for it, to see how many steps there are. Raises GraphError where the
    graph would have more than 20,000 nodes.
    """
    specs = [None if x is None else known_spec(x) for x in xs]
    numbers = list(_numbers(op, xs))
    if len(numbers) * len(op.body.nodes) > MAX_NODES:
        raise GraphError(
            f"{op.name} makes {len(numbers):,} steps of {len(op.body.nodes)} nodes",
            need=f"at most {MAX_NODES:,} nodes to step through",
            hint="step over it, or feed fewer items",
        )
    graph = Graph(op.name, scratch=True)
    ins = [None if s is None else stand_in(graph, f"in{i}", s) for i, s in enumerate(specs)]
    own: list[Any] = ins[len(ins) + 1 - len(op.body.inputs) :]
    n, m = op.n_carry, op.n_carry + op.n_xs
    carries, scanned, captured = own[:n], own[n:m], own[m:]
    start = list(carries)
    results: list[list[Tensor]] = [[] for _ in range(op.n_results)]
    tape: list[list[Tensor]] = [[] for _ in start]
    for number in numbers:
        with graph, graph.scope(f"step_{number}"):
            for log, c in zip(tape, carries, strict=True):
                log.append(c)
            items = [
                find_op("at")()(x, number) if x.dtype == BOXED else Gather()(x, number)
                for x in scanned
            ]
            inputs = [graph.constant(number), *carries, *items, *captured]
            found = inline(op.body, graph, inputs)[op._lead :]
        carries = found[:n]
        for log, y in zip(results, found[n:], strict=True):
            log.append(y)
    stated = infer_specs(op, specs)
    logs = [*results, *(t for t, c in zip(tape, start, strict=True) if c.dtype != BOXED)]
    outputs = list(carries)
    with graph:
        for log, spec in zip(logs, stated[n:], strict=False):
            forward = log[::-1] if isinstance(op, Scan) and op.reverse else log
            if isinstance(spec, SequenceSpec):
                empty = find_op("empty")(dtype=spec.item_dtype)
                outputs.append(find_op("construct")()(*forward) if forward else empty())
            elif forward:
                outputs.append(Stack(axis=0)(*forward))
            else:
                sizes = [d if isinstance(d, int) else 0 for d in spec.shape]
                outputs.append(graph.constant(np.empty(sizes, spec.dtype)))
    return SubGraph([t for t in ins if t is not None], outputs)


def _numbers(op: LoopOp, xs: Sequence[Any]) -> range:
    """Return the numbers of the steps, in the order in which they run."""
    if isinstance(op, Scan):
        _, scanned, _ = op.split(xs)
        count = len(items_of(scanned[0])) if scanned else op.length
        assert isinstance(count, int)
        return range(count)[:: -1 if op.reverse else 1]
    assert isinstance(op, While)
    count = 0

    def step(args: list[Any]) -> Sequence[Any]:
        nonlocal count
        count += 1
        return op.body.run(args, training=bool(op.training))

    op.replace(record=False).run(xs, step)  # type: ignore[attr-defined]
    return range(count)
