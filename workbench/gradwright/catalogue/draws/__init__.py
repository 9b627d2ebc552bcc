"""Draws beyond those of the core."""

from . import continuous, discrete

__all__ = ["continuous", "discrete"]
