"""Convolution and pooling in one, two and three dimensions."""
