"""Elementwise functions, distances and entropies, and the bits of integers."""

from . import (
    bits,
    distances,
    elementary,
    entropies,
    gamma,
    matrices,
    merging,
    moments,
    norms,
    pairs,
)
