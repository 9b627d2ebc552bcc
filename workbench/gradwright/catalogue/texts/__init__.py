"""Text in tensors."""

from __future__ import annotations

from . import strings, tokens

__all__ = ["strings", "tokens"]
