"""Text that fits a pattern: automata over bytes, and which tokens they let through."""

from .regex import Regex

__all__ = ["Regex"]
