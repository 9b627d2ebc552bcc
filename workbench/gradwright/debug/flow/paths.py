"""The path of a gradient through a level: along what adds most, or to where it dies."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...graph import Node, Tensor
from .level import Array, Level, norm

Use = tuple[Node, int]


def find_path(level: Level, start: Tensor, seeds: Mapping[Tensor, Array]) -> list[Use]:
    """Return the uses from ``start`` to a seed, each the one that adds most.

    Where nothing arrives at ``start``, it is a path to where the longest cotangent dies.
    """
    path: list[Use] = []
    at = start
    if size(level, start) == 0:
        path, at = _to_life(level, start)
    while True:
        best = max(level.uses(at), key=lambda use: _rank(level.parts[use]), default=None)
        if best is None or (at in seeds and norm(seeds[at]) >= level.parts[best]):
            return path
        path.append(best)
        at = _longest(level, best[0])


def _to_life(level: Level, start: Tensor) -> tuple[list[Use], Tensor]:
    """Return the shortest way from ``start`` to where something arrives, and where that is.

    That is what a node gives that lets nothing through, or a tensor whose uses cancel exactly.
    """
    before: dict[Tensor, tuple[Use, Tensor] | None] = {start: None}
    queue, alive = [start], dict[Tensor, float]()
    for t in queue:
        arrives = max(size(level, t), joined(level, t)[0])
        if arrives:
            alive[t] = arrives
            continue
        for use in level.uses(t):
            for y in use[0].outputs:
                if y in level.active and y not in before:
                    before[y] = use, t
                    queue.append(y)
    if not alive:
        return [], start
    goal = at = max(alive, key=lambda t: alive[t])
    path: list[Use] = []
    while (step := before[at]) is not None:
        path.append(step[0])
        at = step[1]
    return path[::-1], goal


def ends_of(level: Level) -> dict[Use, float]:
    """Return the uses that let nothing through of what arrives, with how much that is."""
    found = {}
    for use, part in level.parts.items():
        arrives = size(level, _longest(level, use[0]))
        if part == 0 < arrives:
            found[use] = arrives
    return found


def joined(level: Level, t: Tensor) -> tuple[float, float]:
    """Return the longest of what the uses of a tensor add, and the length of their sum."""
    return max((level.parts[use] for use in level.uses(t)), default=0.0), size(level, t)


def size(level: Level, t: Tensor) -> float:
    """Return the norm of a tensor's cotangent; 0 where none arrives, inf for what is no number."""
    return _rank(norm(level.total[t])) if t in level.total else 0.0


def _longest(level: Level, node: Node) -> Tensor:
    return max(node.outputs, key=lambda t: size(level, t))


def _rank(length: float) -> float:
    return math.inf if math.isnan(length) else length
