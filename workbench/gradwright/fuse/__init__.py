"""Fusion: groups of a program become kernels, described in a small IR that every backend reads."""
