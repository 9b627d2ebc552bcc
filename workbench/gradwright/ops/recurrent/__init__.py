"""Recurrent layers and state-space models."""

from ...op import Family

FAMILY = Family("Recurrent layers", drawing="math")
