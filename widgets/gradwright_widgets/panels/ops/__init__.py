"""The reference of all ops."""
