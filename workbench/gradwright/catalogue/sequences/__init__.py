"""Sequences and optionals: values that hold tensors."""

from . import cutting, lists, optionals
