"""Tracing: ordinary numpy code becomes a graph, by lazy arrays that numpy itself hands the work."""

from . import algebra, joins, making, reductions, shapes, ufuncs, windows
from .block import Trace, trace
from .compiled import Compiled, compile
from .flow import cond, loop, map_fn, scan, while_loop
from .lazy import LazyArray
from .replay import Traced

__all__ = [
    "Compiled",
    "LazyArray",
    "Trace",
    "Traced",
    "algebra",
    "compile",
    "cond",
    "joins",
    "loop",
    "making",
    "map_fn",
    "reductions",
    "scan",
    "shapes",
    "trace",
    "ufuncs",
    "while_loop",
    "windows",
]
