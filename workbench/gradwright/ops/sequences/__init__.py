"""Sequences and optionals: values that hold tensors."""
