"""Running code that nobody has read, within limits."""
