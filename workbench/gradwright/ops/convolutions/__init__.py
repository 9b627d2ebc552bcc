"""Convolutions, poolings and how their windows are laid out, beyond the core's."""

from ...op import Family

FAMILY = Family("Convolutions", drawing="linear")
