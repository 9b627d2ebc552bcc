"""Functions of the namespace rnn; written by python -m gradwright.ops.stubs."""
