"""Windows, Fourier transforms, and features of sound."""
