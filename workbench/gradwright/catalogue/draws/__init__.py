"""Draws beyond those of the core."""

from . import continuous, discrete
