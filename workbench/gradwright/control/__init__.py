"""Control flow: ops whose attributes hold sub-graphs, with gradients of every order."""

from .branch import Cond, cond
from .loop import While, loop, while_loop
from .scan import map_fn, scan
from .scan_op import Scan

__all__ = ["Cond", "Scan", "While", "cond", "loop", "map_fn", "scan", "while_loop"]
