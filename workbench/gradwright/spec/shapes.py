"""Shapes: how they join, what axes are called, where two differ."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ShapeError
from .dims import AnyDim, Dim, Shape, joined, larger


def differ(a: AnyDim, b: AnyDim) -> bool:
    """Tell whether two dimensions can never be equal: their difference is a non-zero constant."""
    if a == b:
        return False
    rest = a - b
    return not isinstance(rest, Dim)


def are_equal(a: AnyDim, b: AnyDim) -> bool:
    """Tell whether two dimensions are equal, for all sizes; ShapeError where it depends on these.

    >>> from gradwright.spec import Dim
    >>> from gradwright.spec.shapes import are_equal
    >>> are_equal(Dim.symbol("B"), Dim.symbol("B")), are_equal(Dim.symbol("B"), -1)
    (True, False)
    """
    if a == b:
        return True
    if larger(a, b + 1) == a or larger(b, a + 1) == b:
        return False
    raise ShapeError(f"whether {a} is {b} depends on sizes", need="sizes that are known")


def shapes_differ(a: Sequence[AnyDim], b: Sequence[AnyDim]) -> bool:
    """Tell whether two shapes can never be equal."""
    return len(a) != len(b) or any(map(differ, a, b))


def same_dim(a: AnyDim, b: AnyDim, what: str) -> AnyDim:
    """Return the dimension that ``a`` and ``b`` both are; prefers the known one.

    Two symbols that might be equal are taken to be: the plan checks it when sizes are known.
    """
    if differ(a, b):
        raise ShapeError(f"{what} differ", need=f"equal sizes, got {a} and {b}")
    return b if isinstance(a, Dim) and not isinstance(b, Dim) else a


def broadcast(*shapes: Shape) -> Shape:
    """Return numpy's broadcast of the shapes, symbols included.

    >>> from gradwright.spec import Dim, broadcast
    >>> broadcast((Dim.symbol("B"), 1), (3,)), broadcast((Dim.symbol("p"),), (Dim.symbol("q"),))
    ((B, 3), ((p|q),))
    """
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    out: list[AnyDim] = [1] * max(map(len, shapes))
    for shape in shapes:
        offset = len(out) - len(shape)
        for i, d in enumerate(shape):
            held = out[offset + i]
            if d == 1 or held == d:
                continue
            if held != 1 and differ(held, d):
                raise ShapeError(
                    "shapes do not broadcast",
                    need=f"equal or 1 on axis {offset + i - len(out)}, got {held} and {d}",
                )
            out[offset + i] = joined(held, d)
    return tuple(out)


def normalize_axis(axis: int, rank: int, name: str = "axis") -> int:
    """Return ``axis`` counted from the front, or say which axes exist."""
    if not isinstance(axis, int):
        raise ShapeError(f"{name} {axis!r} is not a whole number", need="int")
    if not -rank <= axis < rank:
        raise ShapeError(
            f"{name} {axis} is out of range",
            need=f"-{rank} <= {name} < {rank} for rank {rank}" if rank else "a tensor with axes",
        )
    return axis % rank


def normalize_axes(axes: int | tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    """Return axes counted from the front, in order (None: all); refuse one that is named twice."""
    if axes is None:
        return tuple(range(rank))
    found = sorted(normalize_axis(a, rank) for a in (axes if isinstance(axes, tuple) else (axes,)))
    if len(set(found)) < len(found):
        raise ShapeError(f"an axis is named twice in {axes}", need="different axes")
    return tuple(found)
