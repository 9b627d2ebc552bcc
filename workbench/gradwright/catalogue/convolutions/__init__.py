"""Convolutions, poolings and how their windows are laid out, beyond the core's."""

from . import adaptive, bands, blocks, columns, compound, deformable, pools, sampling, transposed
