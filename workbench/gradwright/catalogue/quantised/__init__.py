"""Packed and scaled numbers, and products with them."""

from . import ggml as ggml
from . import integer as integer
from . import nf4 as nf4
from . import products as products
from . import scaled as scaled
from . import scales as scales
