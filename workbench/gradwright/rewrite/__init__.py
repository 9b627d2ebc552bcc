"""From graph to program: flattening, and rewrites as a table of rules."""

from . import cleanup, movement, algebra, stable, scale, patterns  # noqa: I001  in the order tried
from .log import Entry, RewriteLog
from .program import Instr, Program
from .table import RULES, Rule, rewrite, verify_rewrites
from .verify import Verifier

__all__ = [
    "RULES",
    "Entry",
    "Instr",
    "Program",
    "RewriteLog",
    "Rule",
    "Verifier",
    "algebra",
    "cleanup",
    "movement",
    "patterns",
    "rewrite",
    "scale",
    "stable",
    "verify_rewrites",
]
