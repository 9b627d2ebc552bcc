"""Elementwise functions, distances and entropies, and the bits of integers."""

from . import (
    bits,
    diagonals,
    distances,
    elementary,
    entropies,
    gamma,
    merging,
    moments,
    norms,
    pairs,
)
