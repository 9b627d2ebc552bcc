"""Packed and scaled numbers, and products with them."""

from ...op import Family

FAMILY = Family("Quantised numbers", drawing="math")
