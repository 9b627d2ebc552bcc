"""Random numbers as machine code: the bits that ``ops.draws.philox`` states, in threads."""
