"""Mixtures of experts."""

from . import grouped, mixture
