"""Sizes: what the symbols of a graph are, as the shapes of feeds tell."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import FeedError
from ..graph import Tensor
from ..spec import Dim, TensorSpec


def bind_sizes(feeds: Mapping[Tensor, TensorSpec]) -> dict[str, int]:
    """Return the size of each symbol, or say which two feeds contradict each other.

    >>> import gradwright as gw
    >>> x = gw.Graph().placeholder("x", ("B", 3))
    >>> bind_sizes({x: gw.TensorSpec((8, 3))})
    {'B': 8}
    """
    sizes: dict[str, int] = {}
    source: dict[str, str] = {}
    shapes = {t: t.spec.of_rank(spec.rank).shape for t, spec in feeds.items()}
    for t, spec in feeds.items():
        if spec.rank != len(shapes[t]):
            raise FeedError(
                f"{t.name!r} is fed with rank {spec.rank}",
                need=str(t.spec),
                facts=[f"got {spec}"],
            )
        for stated, size in zip(shapes[t], spec.shape, strict=True):
            known = stated.solve(int(size)) if isinstance(stated, Dim) else {}
            for symbol, n in known.items():
                if sizes.setdefault(symbol, n) != n:
                    raise FeedError(
                        f"{t.name!r} says {symbol} = {n}, but {source[symbol]!r} says "
                        f"{symbol} = {sizes[symbol]}",
                        need="one size for each symbol",
                    )
                source.setdefault(symbol, t.name)
    for t, spec in feeds.items():
        for axis, (stated, size) in enumerate(zip(shapes[t], spec.shape, strict=True)):
            expected = stated.substitute(sizes) if isinstance(stated, Dim) else stated
            if isinstance(expected, int) and expected != size:
                raise FeedError(
                    f"{t.name!r} is fed with size {size} on axis {axis}",
                    need=f"{t.spec}"
                    + (f" with {stated} = {expected}" if expected != stated else ""),
                    facts=[f"got {spec}"],
                )
    return sizes
