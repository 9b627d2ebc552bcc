"""Mixtures of experts."""

from ...op import Family

FAMILY = Family("Experts", drawing="activation")
