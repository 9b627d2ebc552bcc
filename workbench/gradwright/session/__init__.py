"""Sessions: run a graph on a device through cached plans, and commit its updates."""

from .feeds import as_feed
from .listeners import Listener
from .output import output
from .prepared import Prepared
from .session import Session

__all__ = ["Listener", "Prepared", "Session", "as_feed", "output"]
