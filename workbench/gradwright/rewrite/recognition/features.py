"""Parts of features: halves or every other one, taken apart and put side by side again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...graph import Node, Tensor
from ...ops.core.joining import Concat, Split
from ...ops.core.reshape import Reshape
from ...ops.core.slicing import ALL, StridedSlice
from .view import View


class Part(NamedTuple):
    """The first or the second part of all features."""

    of: int
    which: int
    """0 for the first, 1 for the second."""
    pairs: bool
    """Whether it is every other feature, rather than a half."""
    nodes: Sequence[Node]


class Joined(NamedTuple):
    """Two parts put side by side, half by half or feature by feature."""

    first: int
    second: int
    pairs: bool
    result: Tensor
    nodes: Sequence[Node]


def part(at: View, value: int | None) -> Part | None:
    """Return what a value is a part of, along the last axis."""
    if value is None or not at.tensor(value).node.inputs:
        return None
    tensor = at.tensor(value)
    op, source = tensor.op, at.value(tensor.node.inputs[0])
    shape = at.spec(source).shape if source is not None else ()
    last, width = len(shape) - 1, shape[-1] if shape else 0
    if source is None or not isinstance(width, int) or width % 2:
        return None
    if isinstance(op, Split) and op.parts == 2 and op.axis in (-1, last):
        return Part(source, tensor.index, False, [tensor.node])
    if not isinstance(op, StridedSlice) or len(op.index) != last + 1:
        return None
    *others, own = op.index
    if any(item != ALL for item in others) or not isinstance(own, tuple):
        return None
    taken, half = range(width)[slice(*own[1:])], width // 2
    for which in (0, 1):
        if taken == range(which * half, (which + 1) * half):
            return Part(source, which, False, [tensor.node])
        if taken == range(which, width, 2):
            return Part(source, which, True, [tensor.node])
    return None


def parts(at: View, first: int | None, second: int | None, pairs: bool) -> tuple[Part, Part] | None:
    """Return two parts if they are both of one value, in this order and of this kind."""
    a, b = part(at, first), part(at, second)
    if a is None or b is None or a.of != b.of:
        return None
    return (a, b) if (a.which, b.which, a.pairs, b.pairs) == (0, 1, pairs, pairs) else None


def joined(at: View, node: Node) -> Joined | None:
    """Return what a concat puts side by side along the last axis."""
    op, ins, result = node.op, at.step(node).ins, node.outputs[0]
    if not isinstance(op, Concat) or op.axis not in (-1, result.rank - 1) or len(ins) != 2:
        return None
    a, b = ins
    if a is None or b is None:
        return None
    return _interleaved(at, node, a, b) or Joined(a, b, False, result, [node])


def _interleaved(at: View, node: Node, a: int, b: int) -> Joined | None:
    """Return parts joined as ``[…, n, 1]`` and ``[…, n, 1]``, flattened to ``[…, 2·n]``."""
    outer = [at.producer(v, "expand_dims") for v in (a, b)]
    flat = [u for u in at.readers(node.outputs[0]) if u is not None and isinstance(u.op, Reshape)]
    if len(flat) != 1 or outer[0] is None or outer[1] is None:
        return None
    first, second = outer[0].ins[0], outer[1].ins[0]
    shape, result = at.spec(first).shape, flat[0].outputs[0]
    wide = (*shape, 1)
    if first is None or second is None or not shape or at.spec(second).shape != shape:
        return None
    if (at.spec(a).shape, at.spec(b).shape) != (wide, wide):
        return None
    if result.shape != (*shape[:-1], shape[-1] * 2):
        return None
    return Joined(first, second, True, result, [node, flat[0], outer[0].node, outer[1].node])
