"""Rollouts and preference pairs: what a policy has drawn, token by token."""
