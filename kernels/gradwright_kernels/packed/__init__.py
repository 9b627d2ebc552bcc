"""Products with weights of few bits, which are floats in registers only."""
