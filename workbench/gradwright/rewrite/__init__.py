"""From graph to program: flattening, and rewrites as a table of rules."""

from . import cleanup, loops, turns, formats, movement, parts, algebra, stable, scale, patterns  # noqa: I001  in the order tried
from . import convolutions
from ..program.log import Entry, RewriteLog
from ..program.program import Instr, Program, Recipe
from .table import RULES, Rule, check_names, rewrite, verify_rewrites
from .verify import Verifier

__all__ = [
    "RULES",
    "Entry",
    "Instr",
    "Program",
    "Recipe",
    "RewriteLog",
    "Rule",
    "Verifier",
    "algebra",
    "check_names",
    "cleanup",
    "convolutions",
    "formats",
    "loops",
    "movement",
    "parts",
    "patterns",
    "rewrite",
    "scale",
    "stable",
    "turns",
    "verify_rewrites",
]
