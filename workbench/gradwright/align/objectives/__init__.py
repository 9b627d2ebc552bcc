"""Objectives: what methods make small, and on what."""
