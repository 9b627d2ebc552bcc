"""Updates of parameters, and what stands around them."""

from . import eight_bit, joint, matrices, moments, momentum, running, scaled, seeded
