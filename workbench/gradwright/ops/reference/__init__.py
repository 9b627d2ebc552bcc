"""The reference: every op described in values without Python, found by any name, held together."""
