"""Convolutions, poolings and how their windows are laid out, beyond the core's."""
