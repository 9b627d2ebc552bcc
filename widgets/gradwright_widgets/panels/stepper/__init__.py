"""Execution node by node."""
