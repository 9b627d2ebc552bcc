"""Objectives: what alignment makes small, and what feeds it."""
