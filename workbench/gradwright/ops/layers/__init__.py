"""Activations, norms and fused blocks of networks."""

from ...op import Family

FAMILY = Family("Layers", drawing="activation")
