"""Attention in all its forms, positions, key-value caches, sampling of tokens."""

from . import (
    attention,
    biases,
    cache,
    decoding,
    flash,
    flex,
    forms,
    fused_rotary,
    layers,
    linear,
    rotary,
    sampling,
    turbo,
    weights,
)
