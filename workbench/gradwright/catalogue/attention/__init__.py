"""Attention in all its forms, positions, key-value caches, sampling of tokens."""

from . import attention, biases, cache, flash, forms, layers, rotary, turning, weights

__all__ = [
    "attention",
    "biases",
    "cache",
    "flash",
    "forms",
    "layers",
    "rotary",
    "turning",
    "weights",
]
