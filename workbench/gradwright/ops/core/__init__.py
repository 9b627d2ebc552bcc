"""The core: what gradients and other families are written in."""

from ...op import Family

FAMILY = Family("The core", drawing="math")
