"""Kernels along rows."""
