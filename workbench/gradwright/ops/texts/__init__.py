"""Text in tensors."""

from ...op import Family

FAMILY = Family("Texts", drawing="math")
