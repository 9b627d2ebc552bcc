"""Elementwise functions, distances and entropies, and the bits of integers."""

from ...op import Family

FAMILY = Family("Arithmetic", drawing="math")
