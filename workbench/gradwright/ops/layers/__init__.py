"""Activations, norms and fused blocks of networks."""
