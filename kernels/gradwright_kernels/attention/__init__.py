"""Attention tile by tile: no array has a place for each pair of query and key."""
