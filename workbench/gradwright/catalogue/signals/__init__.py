"""Fourier transforms, windows, frames, and features of sound."""

from . import fourier, frames, griffin_lim, mel, parts, spectral, stft, waveform, windows
