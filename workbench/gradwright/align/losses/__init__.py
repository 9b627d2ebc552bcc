"""Losses of alignment, a file each: tensors in, a scalar and metrics out."""
