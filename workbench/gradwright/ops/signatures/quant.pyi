"""Functions of the namespace quant; written by python -m gradwright.ops.stubs."""
