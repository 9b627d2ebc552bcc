"""Draws beyond those of the core."""

from ...op import Family

FAMILY = Family("Draws", drawing="random", kind="random")
