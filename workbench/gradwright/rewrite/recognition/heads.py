"""Keys and values as attention takes them: not turned, and before they are repeated for heads."""

from __future__ import annotations

from ...graph import Tensor
from ...ops.core.movement import ExpandDims, Swapaxes, Transpose
from .view import View


def turned(at: View, value: int) -> Tensor:
    """Return keys ``[…, S, E]`` of which a value is the transpose ``[…, E, S]``.

    Transposes of it are undone where they are seen; a further one is a view.
    """
    step, rank = at.producer(value), at.spec(value).rank
    swapped = [*range(rank - 2), rank - 1, rank - 2]
    if step is not None and step.ins[0] is not None:
        source = at.tensor(step.ins[0])
        if isinstance(step.op, Swapaxes) and {step.op.axis1 % rank, step.op.axis2 % rank} == {
            rank - 2,
            rank - 1,
        }:
            return source
        if isinstance(step.op, Transpose):
            order = step.op.order(rank)
            order = tuple(order[i] for i in swapped)
            return (
                source if order == tuple(range(rank)) else at.build(Transpose(axes=order), source)
            )
        if step.op.name == "reshape":
            found = _turned_as_matrices(at, value, step.ins[0])
            if found is not None:
                return found
    return at.build(Swapaxes(axis1=-2, axis2=-1), at.tensor(value))


def _turned_as_matrices(at: View, value: int, matrices: int | None) -> Tensor | None:
    """Return what was turned as ``[N, S, E]``, all leading axes joined, as torch exports it."""
    turn = at.producer(matrices, "transpose")
    flat = at.producer(turn.ins[0], "reshape") if turn is not None else None
    if turn is None or flat is None or not isinstance(turn.op, Transpose):
        return None
    source = at.tensor(flat.ins[0] or 0)
    if source.rank < 3:
        return None
    (*lead, keys, width), shape = source.shape, at.spec(value).shape
    is_same = shape == (*lead, width, keys) and at.spec(turn.ins[0]).shape[1:] == (keys, width)
    return source if is_same and turn.op.order(3) == (0, 2, 1) else None


def ungrouped(at: View, heads: Tensor) -> Tensor | None:
    """Return ``[B, H, S, D]`` of which heads ``[B, H·n, S, D]`` are, each n times; else None."""
    flat = at.producer(at.value(heads), "reshape")
    wide = at.producer(flat.ins[0]) if flat is not None else None
    if wide is None or wide.op.name not in ("broadcast_to", "tile") or heads.rank != 4:
        return None
    outer = at.producer(wide.ins[0])
    if outer is None or not isinstance(outer.op, ExpandDims) or outer.ins[0] is None:
        return None
    source = at.tensor(outer.ins[0])
    if source.rank != 4 or at.spec(outer.outs[0]).shape != (
        *source.shape[:2],
        1,
        *source.shape[2:],
    ):
        return None
    b, h, s, d = source.shape
    shape = at.spec(wide.outs[0]).shape
    n = shape[2] if len(shape) == 5 else 0
    is_same = shape == (b, h, n, s, d) and heads.shape == (b, h * n, s, d)
    return source if is_same else None
