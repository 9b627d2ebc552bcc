"""What a graph knows about a tensor before any number exists: dims, dtypes, specs."""

from .tensor import *  # noqa: F403 - its names are those of the room
from .tensor import __all__ as __all__
