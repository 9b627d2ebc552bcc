"""Activations, norms and fused blocks of networks."""

from . import (
    channels,
    derivatives,
    gated,
    normalisations,
    projections,
    rectifiers,
    smooth,
    standardised,
    tables,
)
