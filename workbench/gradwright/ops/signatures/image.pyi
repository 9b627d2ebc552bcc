"""Functions of the namespace image; written by python -m gradwright.ops.stubs."""
