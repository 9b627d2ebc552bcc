"""The drawing of the graph."""
