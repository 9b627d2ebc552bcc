"""Rewards: what completions are worth."""
