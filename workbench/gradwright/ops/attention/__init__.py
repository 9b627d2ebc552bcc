"""Attention in all its forms, positions, key-value caches, sampling of tokens."""

from ...op import Family

FAMILY = Family("Attention", drawing="activation")
