"""Stands before the real llvmlite on PYTHONPATH, so that tests run as if it were not installed."""

raise ModuleNotFoundError("llvmlite is hidden by tests/hidden", name="llvmlite")
