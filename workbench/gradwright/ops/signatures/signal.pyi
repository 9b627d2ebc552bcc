"""Functions of the namespace signal; written by python -m gradwright.ops.stubs."""
