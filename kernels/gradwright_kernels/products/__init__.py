"""Products of matrices: tiles of the result, whose rows and columns programs share."""
