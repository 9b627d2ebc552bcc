"""Kernels of a GPU: their text, which program touches what, and what one computes."""
