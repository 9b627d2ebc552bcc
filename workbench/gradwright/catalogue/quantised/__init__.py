"""Packed and scaled numbers, and products with them."""

from . import ggml, integer, nf4, products, scaled, scales
