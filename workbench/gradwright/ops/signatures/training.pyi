"""Functions of the namespace training; written by python -m gradwright.ops.stubs."""
