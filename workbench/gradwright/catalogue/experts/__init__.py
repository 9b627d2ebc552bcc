"""Mixtures of experts."""

from . import grouped as grouped
from . import mixture as mixture
