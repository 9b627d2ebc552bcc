"""Ops on arrays of any kind: segments, partitions, sparse writes, matching."""
