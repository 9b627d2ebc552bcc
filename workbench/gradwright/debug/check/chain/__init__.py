"""The fast way of a gradient check: slopes of every call, joined by a chain rule of our own."""
