"""Functions of the namespace random; written by python -m gradwright.ops.stubs."""
