"""Numerics: how numpy computes well what ops need; nothing here is an op."""
