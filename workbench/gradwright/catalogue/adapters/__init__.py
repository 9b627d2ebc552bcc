"""Products of matrices with low-rank adapters."""
