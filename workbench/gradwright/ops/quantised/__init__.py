"""Packed and scaled numbers, and products with them."""
