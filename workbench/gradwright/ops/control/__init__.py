"""Control flow: ops whose attributes hold sub-graphs, with gradients of every order."""

from .branch import Cond, cond
from .call import Call, function
from .loop import While, loop, while_loop
from .loop_op import LoopOp
from .scan import map_fn, scan
from .scan_op import Scan
from .unroll import unrolled

__all__ = [
    "Call",
    "Cond",
    "LoopOp",
    "Scan",
    "While",
    "cond",
    "function",
    "loop",
    "map_fn",
    "map_items",
    "scan",
    "unrolled",
    "while_loop",
]
