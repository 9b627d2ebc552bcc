"""Tables of cosines and sines that hold every angle twice, and what holds them once.

A table is followed down to where two equal parts are put side by side; what is done to it on the
way is then done to one of them. A table of which that cannot be seen is not taken for one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...graph import Constant, Tensor
from ...op import Op
from ...ops.core.index import Gather
from ...ops.core.joining import Concat
from ...ops.core.movement import ExpandDims, Squeeze, Transpose
from ...ops.core.reshape import BroadcastTo, Reshape
from ...ops.core.slicing import ALL, StridedSlice
from ...spec import Shape
from .features import joined
from .view import View

DEPTH = 12
"""How far down a table is followed."""
Build = Callable[[], Tensor]


def once(at: View, value: int, pairs: bool, depth: int = DEPTH) -> Build | None:
    """Return what builds a table with every angle once, or None if that cannot be seen.

    Equal angles are half the width apart, or side by side if ``pairs``.
    """
    tensor = at.tensor(value)
    op, ins = tensor.op, at.step(tensor.node).ins
    if isinstance(op, Constant):
        return _stored(at, tensor, pairs)
    if tensor.index or not depth or not ins or ins[0] is None:
        return None
    if isinstance(op, Concat):
        found = joined(at, tensor.node)
        is_twice = found is not None and found.first == found.second and not pairs
        return (lambda: at.tensor(found.first)) if found is not None and is_twice else None
    if isinstance(op, Reshape) and pairs:
        single = _repeated(at, tensor)
        if single is not None:
            return lambda: at.tensor(single)
    narrower = _narrower(op, tensor, [() if i is None else at.spec(i).shape for i in ins])
    inner = None if narrower is None else once(at, ins[narrower[1]] or 0, pairs, depth - 1)
    if narrower is None or inner is None:
        return None

    def build() -> Tensor:
        inputs = [at.tensor(i) for i in ins if i is not None]
        inputs[narrower[1]] = inner()
        return at.once(narrower[0], inputs, tensor)

    return build


def _stored(at: View, tensor: Tensor, pairs: bool) -> Build | None:
    """Return what builds a constant of half the width."""
    if not tensor.rank or tensor.shape[-1] in (0, 1):
        return None
    array = at.graph.values.array(tensor.name)
    half = array.shape[-1] // 2
    a, b = array[..., :half], array[..., half:]
    if pairs:
        a, b = array[..., 0::2], array[..., 1::2]
    return (lambda: at.stored(np.ascontiguousarray(a), tensor)) if np.array_equal(a, b) else None


def _repeated(at: View, tensor: Tensor) -> int | None:
    """Return what a reshape holds twice side by side: ``[…, n]`` as ``[…, n, 2]``, flattened."""
    source = at.step(tensor.node).ins[0]
    made = at.producer(source)
    if made is None or made.op.name not in ("broadcast_to", "tile", "concat"):
        return None
    inner = {i for i in made.ins if i is not None}
    outer = at.producer(inner.pop(), "expand_dims") if len(inner) == 1 else None
    if outer is None or outer.ins[0] is None:
        return None
    shape = at.spec(outer.ins[0]).shape
    found = at.spec(outer.outs[0]).shape, at.spec(source).shape, tensor.shape
    is_same = found == ((*shape, 1), (*shape, 2), (*shape[:-1], shape[-1] * 2))
    return outer.ins[0] if is_same else None


def _narrower(op: Op, tensor: Tensor, shapes: list[Shape]) -> tuple[Op, int] | None:
    """Return the op that does to half of a table what one does to it all, and which input that is.

    It must leave the last axis alone.
    """
    n, last = tensor.shape[-1] if tensor.rank else None, tensor.rank - 1
    if not isinstance(n, int) or n % 2:
        return None
    is_wide, inner = shapes[0][-1:] == (n,), len(shapes[0]) - 1
    match op:
        case _ if op.name in ("cos", "sin", "cast", "neg"):
            return op, 0
        case _ if op.name in ("mul", "div") and len(shapes) == 2:
            wide = [i for i, shape in enumerate(shapes) if shape and shape[-1] != 1]
            return (op, wide[0]) if len(wide) == 1 else None
        case ExpandDims() if is_wide:
            axes = op.axis if isinstance(op.axis, tuple) else (op.axis,)
            return (op, 0) if all(a % tensor.rank != last for a in axes) else None
        case Squeeze() if is_wide:
            return op, 0
        case Transpose() if op.order(tensor.rank)[-1] == last:
            return op, 0
        case Reshape() | BroadcastTo() if is_wide:  # of the same last size: rows stay rows
            return op.replace(shape=(*tensor.shape[:-1], n // 2)), 0
        case StridedSlice() if is_wide:
            is_cut = sum(item is not None for item in op.index) > inner
            return (op, 0) if not is_cut or op.index[-1] == ALL else None
        case Gather() if is_wide and inner and op.axis % (inner + 1) != inner:
            return op, 0
    return None
