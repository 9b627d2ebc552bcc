"""Imports all packages before pytest looks for examples in single files of them.

It imports a file on its own; one that its package has imported just before would then be there
twice, and what is an instance of a class of the one would be none of the other's.
"""

from gradwright import data, debug, formats, models, testing, tracing, train

__all__ = ["data", "debug", "formats", "models", "testing", "tracing", "train"]
