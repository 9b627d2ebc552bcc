"""Functions of the namespace sequence; written by python -m gradwright.ops.stubs."""
