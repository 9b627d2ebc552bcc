"""The table of parameters."""
