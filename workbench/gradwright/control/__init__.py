"""Control flow: ops whose attributes hold sub-graphs, with gradients of every order."""

from .branch import Cond, cond
from .call import Call, function
from .loop import While, loop, while_loop
from .scan import map_fn, scan
from .scan_op import Scan

__all__ = [
    "Call",
    "Cond",
    "Scan",
    "While",
    "cond",
    "function",
    "loop",
    "map_fn",
    "scan",
    "while_loop",
]
