"""Functions of the namespace bitwise; written by python -m gradwright.ops.stubs."""
