"""Functions of the namespace strings; written by python -m gradwright.ops.stubs."""
