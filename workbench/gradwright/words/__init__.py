"""Words: names that were probably meant, tables as text, settings as JSON."""

TENSOR, VARIABLE, MODULE, GRAPH, OPTIMIZER = "x", "w", "gw", "g", "opt"
"""Whose a name is: a tensor's, a stored one's, that of any module of functions, ..."""
