"""Attention in all its forms, positions, key-value caches, sampling of tokens."""

from . import attention, cache, flash, weights

__all__ = ["attention", "cache", "flash", "weights"]
