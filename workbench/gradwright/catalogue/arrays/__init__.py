"""Ops on arrays of any kind: segments, partitions, sparse writes, matching."""

from . import (
    counts,
    cumulative,
    lengths,
    matching,
    partition,
    put,
    recurrence,
    scatter,
    segments,
    sets,
    shapes,
    unsorted,
)
