"""Programs: what runs, on any device; how its values lie in memory, and who runs its ops."""

from .log import Entry, RewriteLog
from .program import Instr, Program, Recipe

__all__ = ["Entry", "Instr", "Program", "Recipe", "RewriteLog"]
