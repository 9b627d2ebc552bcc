"""Packed and scaled numbers, and products with them."""

from . import integer as integer
from . import scales as scales
