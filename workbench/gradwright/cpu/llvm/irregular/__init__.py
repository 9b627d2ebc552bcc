"""Machine code that finds its rows at run time: those that a batch names, the first in order."""
