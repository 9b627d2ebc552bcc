"""Updates of parameters, and what stands around them."""
