"""Fusion: groups of a program become kernels, described in a small IR that every backend reads."""

from . import rules_elements, rules_places, rules_rows, rules_updates  # noqa: F401
from .fused import Fused
from .fusion import fuse
from .interpret import evaluate
from .ir import Kernel
from .rules import has_rule

__all__ = ["Fused", "Kernel", "evaluate", "fuse", "has_rule"]
