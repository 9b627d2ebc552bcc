"""Updates of parameters, and what stands around them."""

from . import joint, moments, running, scaled
