"""Which calls of a compiled function one trace serves: shapes in which some sizes are symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import TraceError
from ..spec import AnyDim, Dim
from .signature import Leaf


def without_sizes(key: Any) -> Any:
    """Return a key in which sizes above 1 do not count; 0 and 1 behave in ways of their own."""
    if isinstance(key, tuple) and len(key) == 4 and isinstance(key[0], np.dtype):
        layout = key[2] is None
        return key[0], tuple(d if d < 2 else -1 for d in key[1]), layout, key[3]
    return tuple(map(without_sizes, key)) if isinstance(key, tuple) else key


def fits(pattern: Sequence[tuple[AnyDim, ...]], shapes: Sequence[tuple[int, ...]]) -> bool:
    """Tell whether a trace's shapes serve for others: equal sizes under each symbol."""
    sizes: dict[Any, int] = {}
    return all(
        d == n if isinstance(d, int) else n > 1 and sizes.setdefault(d, n) == n
        for dims, shape in zip(pattern, shapes, strict=True)
        for d, n in zip(dims, shape, strict=True)
    )


def generalised(seen: Sequence[Sequence[tuple[int, ...]]]) -> list[tuple[AnyDim, ...]]:
    """Return shapes in which sizes that differed between calls are symbols, one per behaviour.

    >>> generalised([[(8, 3), (3,)], [(9, 3), (3,)]])
    [(n0, 3), (3,)]
    """
    names: dict[tuple[int, ...], Dim] = {}
    out = []
    for i, shape in enumerate(seen[-1]):
        dims: list[AnyDim] = []
        for axis, n in enumerate(shape):
            history = tuple(shapes[i][axis] for shapes in seen)
            if len(set(history)) == 1:
                dims.append(n)
            else:
                dims.append(names.setdefault(history, Dim.symbol(f"n{len(names)}")))
        out.append(tuple(dims))
    return out


def stated(
    given: Mapping[str, Sequence[str | None]], leaves: Sequence[Leaf], shapes: Any
) -> list[tuple[AnyDim, ...]]:
    """Return the shapes with the symbols that the user gave."""
    out = []
    for leaf, shape in zip(leaves, shapes, strict=True):
        names = given.get(leaf.path, given.get(leaf.argument, ()))
        if names and len(names) != len(shape):
            raise TraceError(
                f"dynamic_shapes has {len(names)} sizes for {leaf.path}", need=f"{len(shape)}"
            )
        dims = zip(shape, names or [None] * len(shape), strict=True)
        out.append(tuple(n if s is None or n < 2 else Dim.symbol(s) for n, s in dims))
    return out
