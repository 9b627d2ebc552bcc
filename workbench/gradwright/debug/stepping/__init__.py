"""Stepping: a graph run node by node, forwards and backwards, with breakpoints and watches."""
