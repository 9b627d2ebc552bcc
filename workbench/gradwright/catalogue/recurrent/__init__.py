"""Recurrent layers, state-space models and linear recurrences."""
