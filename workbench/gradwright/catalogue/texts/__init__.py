"""Text in tensors."""

from . import strings, tokens
