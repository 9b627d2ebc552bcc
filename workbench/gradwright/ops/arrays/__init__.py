"""Ops on arrays of any kind: segments, partitions, sparse writes, matching."""

from ...op import Family

FAMILY = Family("Arrays", drawing="shape")
