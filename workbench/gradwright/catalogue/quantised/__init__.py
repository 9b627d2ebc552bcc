"""Packed and scaled numbers, and products with them."""

from . import awq, ggml, integer, nf4, products, scaled, scales
