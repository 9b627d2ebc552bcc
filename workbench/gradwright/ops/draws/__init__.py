"""Draws beyond those of the core."""
