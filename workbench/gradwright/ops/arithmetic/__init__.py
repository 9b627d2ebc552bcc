"""Elementwise functions, distances and entropies, and the bits of integers."""
