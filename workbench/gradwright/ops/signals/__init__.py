"""Fourier transforms, windows, frames, and features of sound."""

from ...op import Family

FAMILY = Family("Signals", drawing="math")
