"""Resizing, cropping, colour and geometry of images."""
