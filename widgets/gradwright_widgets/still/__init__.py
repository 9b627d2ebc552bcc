"""Pictures and tables for readers that run no JavaScript."""
