"""Convolutions and pools: windows that slide over images of one to three axes."""
