"""Recorded runs side by side."""
