"""Loops: scans along rows, loops over anything else, and what their gradients read of each step."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....spec import TensorSpec
from ....spec.containers import ContainerSpec, SequenceSpec
from ..dtypes import element_type
from ..node import writes
from ..nodes import write_subgraph
from ..output import Call, Output
from .control import body_of, own_result

INT64, FLAG = np.dtype("int64"), TensorSpec((), "bool")
START = -((1 << 63) - 1)


class _Collected:
    """What a loop collects of its steps: results, and the carries that a gradient wants to read.

    They are outputs of the loop behind the carries; those that nobody reads are not written.
    """

    def __init__(self, call: Call) -> None:
        n, q = call.n_carry, call.op.n_results  # type: ignore[attr-defined]
        self.results = list(range(n, n + q))
        taped = [i for i in range(n) if not isinstance(call.results[i], ContainerSpec)]
        self.tape = dict(zip(range(n + q, len(call.results)), taped, strict=False))
        """Output -> the carry whose value at the start of each step it holds."""
        self.wanted = [*self.results, *(i for i in self.tape if call.wanted[i])]
        self.listed = [i for i in self.wanted if isinstance(call.results[i], SequenceSpec)]
        self.stacked = [i for i in self.wanted if i not in self.listed]

    def of_step(self, i: int, carries: list[str], made: list[str]) -> str:
        """Return what a step adds to an output: a carry as it came in, or a result."""
        return carries[self.tape[i]] if i in self.tape else made[i]

    def spec(self, call: Call, i: int) -> TensorSpec:
        """Return the spec of what a step adds."""
        if i in self.tape:
            return call.body.inputs[1 + self.tape[i]].spec  # type: ignore[no-any-return]
        return call.body.outputs[call.lead + i].spec  # type: ignore[no-any-return]


@writes("scan")
def scan(call: Call) -> list[str]:
    """Write a Scan over rows, a SequenceMap, or a Loop that counts."""
    n, n_xs = call.n_carry, call.n_xs
    items = call.specs[n : n + n_xs]
    lists = [isinstance(s, SequenceSpec) for s in items]
    if n_xs and not any(lists) and not any(call.listed):
        return _scan(call)
    maps = n_xs and not n and all(lists) and all(call.listed) and len(call.listed)
    if maps and not call.reverse and not call.body.inputs[0].uses:
        return _sequence_map(call)
    trip = _number_of_steps(call)
    return _loop(call, call.xs, n_xs, "", trip, reverse=call.reverse)


def _number_of_steps(call: Call) -> str:
    if not call.n_xs:
        return call.add("Squeeze", call.out.dim(call.length))
    x, spec = call.xs[call.n_carry], call.specs[call.n_carry]
    if isinstance(spec, SequenceSpec):
        return call.add("SequenceLength", x)
    return call.add("Gather", call.add("Shape", x), call.out.constant(np.int64(0)))


def _scan(call: Call) -> list[str]:
    """Write a Scan: carries, then what is scanned; the step's number is one more carry."""
    sub, n, n_xs, collected = call.body, call.n_carry, call.n_xs, _Collected(call)
    own = [(call.out.fresh(f"{call.name}/{t.name}"), t.spec) for t in sub.inputs[: 1 + n + n_xs]]
    names = [name for name, _ in own]
    inner = Output(call.out.opset, call.out)
    path = f"{call.name}/body"
    made = write_subgraph(inner, sub, [*names, *call.xs[n + n_xs :]], path)
    counted = bool(sub.inputs[0].uses)
    number, one = own[0], np.ones((), INT64)
    outputs = []
    if counted:
        onward = inner.constant(-one if call.reverse else one)
        outputs.append((inner.add("Add", [number[0], onward], base=f"{path}/step")[0], number[1]))
    outputs += [(own_result(inner, made[i], f"{path}/y{i}"), own[1 + i][1]) for i in range(n)]
    for i in collected.wanted:
        y = collected.of_step(i, names[1:], made)
        outputs.append((own_result(inner, y, f"{path}/y{i}"), collected.spec(call, i)))
    body = inner.graph(path, own if counted else own[1:], outputs)
    xs, directions = list(call.xs[: n + n_xs]), dict[str, Any]()
    if call.reverse:
        directions = {"scan_input_directions": [1] * n_xs}
        if collected.wanted:
            directions["scan_output_directions"] = [1] * len(collected.wanted)
    if counted:
        start = call.out.constant(one - one)
        if call.reverse:
            start = call.add("Sub", _number_of_steps(call), call.out.constant(one))
        xs.insert(0, start)
    made = call.out.add(
        "Scan", xs, n=counted + n + len(collected.wanted), base=call.name,
        body=body, num_scan_inputs=n_xs, **directions,
    )[counted:]  # fmt: skip
    return _in_order(call, made[:n], dict(zip(collected.wanted, made[n:], strict=True)))


def _in_order(call: Call, carries: list[str], found: dict[int, str]) -> list[str]:
    """Return all outputs; those that are not written have no name."""
    return [*carries, *(found.get(i, "") for i in range(len(carries), len(call.results)))]


def _sequence_map(call: Call) -> list[str]:
    """Write what is done with every item of sequences."""
    sub, n_xs = call.body, call.n_xs
    items = sub.inputs[1:]
    own = [(call.out.fresh(f"{call.name}/{t.name}"), t.spec) for t in items[:n_xs]]
    names = ["", *(name for name, _ in own), *call.xs[n_xs:]]
    n = call.op.n_public or len(call.results)
    body = body_of(call, sub, names, own, "body", n)
    return call.out.add("SequenceMap", call.xs[:n_xs], n=n, base=call.name, body=body)


@writes("while")
def while_(call: Call) -> list[str]:
    """Write a loop: ``go`` and the number of steps, then the carries."""
    limit, spec = call.xs[1], call.specs[1]
    if limit and spec is not None:
        limit = call.cast(limit, spec.dtype, INT64)
    if call.max_steps is not None:
        most = call.out.constant(np.int64(call.max_steps))
        limit = call.add("Min", limit, most) if limit else most
    return _loop(call, call.xs[2:], 0, call.xs[0], limit)


def _loop(
    call: Call, xs: list[str], n_xs: int, go: str, limit: str, *, reverse: bool = False
) -> list[str]:
    """Write a Loop, which stacks results itself; lists go from step to step, as carries do."""
    sub, n, collected = call.body, call.n_carry, _Collected(call)
    out, inner, path = call.out, Output(call.out.opset, call.out), f"{call.name}/body"
    number, *own = [
        (out.fresh(f"{call.name}/{t.name}"), t.spec) for t in sub.inputs[: 1 + n]
    ]  # fmt: skip
    flag = (out.fresh(f"{call.name}/go"), FLAG)
    at = number[0]
    if reverse and (n_xs or sub.inputs[0].uses):
        last = inner.add("Sub", [limit, inner.constant(np.int64(1))], base=f"{path}/last")[0]
        at = inner.add("Sub", [last, at], base=f"{path}/at")[0]
    items = []
    for x, t in zip(xs[n : n + n_xs], call.specs[n : n + n_xs], strict=True):
        op_type = "SequenceAt" if isinstance(t, SequenceSpec) else "Gather"
        items += inner.add(op_type, [x, at], base=f"{path}/item")
    carries = [name for name, _ in own]
    made = write_subgraph(inner, sub, [at, *carries, *items, *xs[n + n_xs :]], path)
    after = made[0] if call.lead else flag[0]
    made = made[call.lead :]
    outputs = [(own_result(inner, after, f"{path}/go_on"), FLAG)]
    outputs += [(own_result(inner, made[i], f"{path}/y{i}"), own[i][1]) for i in range(n)]
    front = inner.constant(np.int64(0)) if reverse else ""
    lists = []
    for i in collected.listed:
        held = out.fresh(f"{call.name}/list")
        given = [held, collected.of_step(i, carries, made), front]
        outputs += [(y, call.results[i]) for y in inner.add("SequenceInsert", given)]
        lists.append((held, call.results[i]))
    for i in collected.stacked:
        y = collected.of_step(i, carries, made)
        outputs.append((own_result(inner, y, f"{path}/y{i}"), collected.spec(call, i)))
    body = inner.graph(path, [number, flag, *own, *lists], outputs)
    starts = [
        call.add("SequenceEmpty", dtype=element_type(s.item_dtype))
        for _, s in lists
        if isinstance(s, SequenceSpec)
    ]
    made = out.add(
        "Loop", [limit, go, *xs[:n], *starts], n=n + len(collected.wanted), base=call.name,
        body=body,
    )  # fmt: skip
    found = dict(zip([*collected.listed, *collected.stacked], made[n:], strict=True))
    if reverse:
        ends = [call.out.ints([v]) for v in (-1, START, 0, -1)]  # from the last to the first
        found |= {i: call.add("Slice", found[i], *ends) for i in collected.stacked}
    return _in_order(call, made[:n], found)
