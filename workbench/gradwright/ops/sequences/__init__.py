"""Sequences and optionals: values that hold tensors."""

from ...op import Family

FAMILY = Family("Sequences", drawing="math", kind="list")
