"""Copies of losses in 16 bits, run, and the dtypes of their products."""

from __future__ import annotations

import gradwright as gw
from gradwright.graph import SubGraph, ancestors
from gradwright.graph.expand import expansion
from gradwright.ops.convolutions.cnn import Convolution
from gradwright.ops.matrices.linalg import Matmul
from gradwright.train.precision import lowered
from gradwright.train.slots import Slots


def copy_of(graph, *tensors, precision="bfloat16", fp8=None):
    found = [graph[t] if isinstance(t, str) else t for t in tensors]
    return lowered(found, precision, fp8, Slots(graph, graph.values))


def run(tensors, feeds=None):
    with gw.Session(tensors[0].graph, kernels="off") as session:
        return session.run(list(tensors), feeds or {}, training=True)


def is_attention(op):
    """Tell whether an op is attention, or its pullback, whose scores stay in float32."""
    return "attention" in getattr(op, "op", op).name


def products(tensors):
    """Yield op and input dtypes of every product and convolution, those inside layers included."""

    def inside(nodes):
        for node in nodes:
            specs = [None if t is None else t.spec for t in node.inputs]
            if isinstance(node.op, (Matmul, Convolution)):
                yield node.op.name, [s.dtype.name for s in specs[:2]]
                continue
            bodies = [v for v in node.op.attributes().values() if isinstance(v, SubGraph)]
            if node.op.is_composite() and not is_attention(node.op):
                bodies.append(expansion(node.op, specs))
            for body in bodies:
                yield from inside(body.nodes)

    return list(inside(ancestors(tensors)))
