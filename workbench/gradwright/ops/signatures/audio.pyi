"""Functions of the namespace audio; written by python -m gradwright.ops.stubs."""
