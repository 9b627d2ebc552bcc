"""Ops on arrays of any kind: segments, partitions, sparse writes, matching."""

from . import (
    cumulative,
    lengths,
    matching,
    partition,
    recurrence,
    scatter,
    segments,
    sets,
    shapes,
)

__all__ = [
    "cumulative",
    "lengths",
    "matching",
    "partition",
    "recurrence",
    "scatter",
    "segments",
    "sets",
    "shapes",
]
