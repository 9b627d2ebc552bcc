"""Fourier transforms, windows, frames, and features of sound."""
