"""Updates of parameters, and what stands around them."""

from ...op import Family

FAMILY = Family("Updates", drawing="math")
