"""Many adapters on one base: each row of a batch has its own, read from disk when it is wanted."""

from .cache import Cache, Counts
from .serve import serve
from .served import Served

__all__ = ["Cache", "Counts", "Served", "serve"]
