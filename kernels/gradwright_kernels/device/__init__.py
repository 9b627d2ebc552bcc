"""The device ``cuda``: its driver, and Triton's interpreter in its place."""
