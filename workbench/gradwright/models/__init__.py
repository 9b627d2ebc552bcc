"""Whole models at work: caches of keys and values, generation token by token."""

from .generation import KvCache, generate

__all__ = ["KvCache", "generate"]
