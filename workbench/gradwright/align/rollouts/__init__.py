"""Rollouts: what policies draw."""
