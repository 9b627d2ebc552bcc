"""Programs as they come from graphs, run with plain forwards on feeds of any size."""

from __future__ import annotations

import numpy as np

from gradwright.graph import ancestors
from gradwright.op import infer_specs, run_forward
from gradwright.program.lowering import find_launch
from gradwright.program.program import Program


def program_of(*targets, sizes=None, training=False, lowers=()):
    """Return the program of tensors as it comes from the graph, with all its values numbered."""
    sizes = {"B": 2, **(sizes or {})}
    program = Program(
        lambda op, ins, outs: op.name in lowers or find_launch(op, "cpu", ins, outs) is not None,
        training,
    )
    graph = targets[0].graph
    specs = {}
    for node in ancestors(targets):
        t = node.outputs[0]
        if node.kind in ("placeholder", "variable", "rng"):
            specs[t] = t.spec.substitute(sizes)
            program.numbers[t] = program.new_value(specs[t])
            program.sources[program.numbers[t]] = t
        elif node.kind == "constant":
            program.numbers[t] = program.constant(graph.values.array(node.name))
        else:
            op = node.op.for_mode(training).bind(sizes)
            ins = [None if i is None else program.numbers[i] for i in node.inputs]
            outs = infer_specs(op, [None if i is None else program.specs[i] for i in ins])
            made = program.emit(op, ins, outs, node, node.name)
            program.numbers.update(zip(node.outputs, made, strict=True))
    program.outputs = list(targets)
    return program


def run(program, feeds):
    """Run a program instruction by instruction with plain forwards; returns its outputs."""
    values = {**program.constants}
    values.update((i, feeds[t.name]) for i, t in program.sources.items())
    with np.errstate(all="ignore"):
        for instr in program.instrs:
            assert all(i is None or i in values for i in instr.ins), "read before it is made"
            xs = [None if i is None else values[i] for i in instr.ins]
            ys = run_forward(instr.op, xs, training=program.training)
            for o, y in zip(instr.outs, ys, strict=True):
                assert y.shape == program.specs[o].shape
                assert y.dtype == program.specs[o].dtype
                values[o] = y
    return [values[program.numbers[t]] for t in program.outputs]


def feeds_for(tensors, size, pool, seed=0):
    rng = np.random.default_rng(seed)
    found = {}
    for t in tensors:
        shape = t.spec.substitute({"B": size}).shape
        if t.dtype.kind == "b":
            found[t.name] = rng.random(shape) < 0.5
        elif t.dtype.kind in "iu":
            found[t.name] = rng.integers(-3, 9, shape).astype(t.dtype)
        elif pool is None:
            found[t.name] = rng.standard_normal(shape).astype(t.dtype)
        else:
            with np.errstate(over="ignore"):
                found[t.name] = rng.choice(pool, shape).astype(t.dtype)
    return found
