"""Lowerings of the CPU: how ops run where numpy's plain way is not the fastest."""
