"""Steps of optimizers as kernels: Adam's, which devices lower whole, and any on rows of a table.

Steps of others have no rule: plans open them, and what they are made of becomes a kernel.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph import Constant, expansion
from ..op import Op
from ..program.declined import DeclinedError
from ..spec import TensorSpec
from .builder import Builder, Term
from .ir import Kernel
from .rules import Place, Specs, broadcast, rule, rule_of


def of_updates(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Place | None:
    """Place tensors of one shape, and scalars."""
    shape = outs[0].shape
    if any(s is not None and s.shape not in (shape, ()) for s in ins):
        return None
    return broadcast(op, ins, outs)


def kernel_of(
    op: Op, dtype: np.dtype[Any], tensors: int, numbers: Sequence[np.dtype[Any]]
) -> tuple[Kernel, list[int]]:
    """Return the kernel of an update over [rows, columns], and the numbers of inputs it reads.

    The first ``tensors`` inputs are of that dtype, others are numbers. An output may lie over the
    tensor that it is the new value of. Raises DeclinedError for what no kernel computes.
    """
    b, both = Builder(2, 2), (0, 1)
    terms = [b.load(i, both, dtype) for i in range(tensors)]
    terms += [b.load(i, (), d) for i, d in enumerate(numbers, tensors)]
    moved = [i for i in range(tensors) if i != 1]
    ins = tuple(both if i < tensors else () for i in range(len(terms)))
    made = _update(op, Place((1, 1), ins, (both,) * len(moved)), *terms)
    kernel, reads = b.kernel([(term, both, "set", dtype) for term in made])
    pairs = [(len(reads) + k, reads.index(i)) for k, i in enumerate(moved) if i in reads]
    return dataclasses.replace(kernel, in_place=tuple(pairs)), reads


@rule("adam_update", locate=of_updates)
def _update(op: Any, at: Place, *terms: Term) -> Any:
    """Build the ops of the expansion; scalars among them are computed once a launch."""
    axes_of = zip(terms, at.ins, strict=True)
    specs = [TensorSpec(at.space if axes else (), t.dtype) for t, axes in axes_of]
    inner = expansion(op, specs)
    known: dict[Any, Any] = dict(zip(inner.inputs, terms, strict=True))
    builder = terms[0].builder
    for node in inner.nodes:
        if node.outputs[0] in known:
            continue
        if isinstance(node.op, Constant):
            array = node.graph.values.array(node.name)
            if array.size != 1:
                raise DeclinedError
            known[node.outputs[0]] = builder.const(array.item(), array.dtype)
            continue
        found = rule_of(node.op)
        if found is None:
            raise DeclinedError
        made = found.build(node.op, at, *(None if t is None else known[t] for t in node.inputs))
        made = made if isinstance(made, tuple) else (made,)
        known.update(zip(node.outputs, made, strict=True))
    return tuple(known[t] for t in inner.outputs)
