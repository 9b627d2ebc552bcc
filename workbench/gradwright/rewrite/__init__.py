"""From graph to program: flattening and rewrites."""

from .program import Instr, Program
from .rules import RULES, rewrite

__all__ = ["RULES", "Instr", "Program", "rewrite"]
