"""Packed and scaled numbers, and products with them."""

from . import awq, float8, ggml, integer, nf4, products, scaled, scales
