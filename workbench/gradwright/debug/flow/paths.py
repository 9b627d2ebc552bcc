"""The path of a gradient through a level: along what adds most, or to where it dies."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...graph import Node, Tensor
from .level import Array, Level, norm
from .reasons import ROUNDING

Use = tuple[Node, int]


def find_path(level: Level, start: Tensor, seeds: Mapping[Tensor, Array]) -> list[Use]:
    """Return the uses from ``start`` to a seed, each the one that adds most.

    Where nothing arrives at ``start``, it is a path to where the longest cotangent dies.
    """
    path: list[Use] = []
    at = start
    if start not in level.total or norm(level.total[start]) == 0:
        path = _to_the_end(level, start)
        if not path:
            return []
        node = path[-1][0]
        at = max(node.outputs, key=lambda t: _size(level, t))
    while True:
        uses = level.uses(at)
        best = max(uses, key=lambda use: _rank(level.parts[use]), default=None)
        if best is None or (at in seeds and norm(seeds[at]) >= level.parts[best]):
            return path
        path.append(best)
        at = max(best[0].outputs, key=lambda t: _size(level, t))


def _to_the_end(level: Level, start: Tensor) -> list[Use]:
    """Return the shortest way from ``start`` to a use where something arrives that goes not on."""
    ends = ends_of(level)
    if not ends:
        return []
    before: dict[Tensor, Use | None] = {start: None}
    came: dict[Use, Tensor] = {}
    queue, found = [start], dict[Use, None]()
    for t in queue:
        for use in level.uses(t):
            came[use] = t
            if use in ends:
                found[use] = None
                continue
            for y in use[0].outputs:
                if y in level.active and y not in before:
                    before[y] = use
                    queue.append(y)
    if not found:
        return []
    use = max(found, key=lambda u: ends[u])
    path = [use]
    while (earlier := before[came[use]]) is not None:
        path.append(earlier)
        use = earlier
    return path[::-1]


def ends_of(level: Level) -> dict[Use, float]:
    """Return the uses that let nothing through of what arrives, with how much that is."""
    found = {}
    for use, part in level.parts.items():
        arrives = max(_size(level, t) for t in use[0].outputs)
        if part == 0 < arrives:
            found[use] = arrives
    return found


def joins(level: Level, t: Tensor) -> float:
    """Return what is left where what the uses of a tensor add cancels; 1 where it does not."""
    parts = [level.parts[use] for use in level.uses(t)]
    if len(parts) < 2 or not any(parts):
        return 1.0
    left = _size(level, t) / sum(parts)
    return 0.0 if left < ROUNDING else left


def _size(level: Level, t: Tensor) -> float:
    return _rank(norm(level.total[t])) if t in level.total else 0.0


def _rank(size: float) -> float:
    """Return a size that compares: what is not a number is followed first."""
    return math.inf if math.isnan(size) else size
