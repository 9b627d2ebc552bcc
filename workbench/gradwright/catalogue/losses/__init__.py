"""Losses beyond those of the core."""
