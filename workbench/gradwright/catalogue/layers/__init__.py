"""Activations, norms and fused blocks of networks."""

from . import (
    channels,
    ctc_decoder,
    derivatives,
    embeddings,
    gated,
    normalisations,
    projections,
    rectifiers,
    smooth,
    standardised,
)
