"""Compiling: a kernel and the kinds of its arguments, ahead of time or when it is launched."""
