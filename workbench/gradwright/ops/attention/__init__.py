"""Attention in all its forms, positions, key-value caches, sampling of tokens."""
