"""``gw.sequence``: lists of tensors, and optionals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .control.scan import map_items as map
from .ops import surface

if TYPE_CHECKING:
    from .ops.signatures.sequence import *  # noqa: F403

__getattr__, __dir__ = surface(__name__, "sequence", also=["map"])
__all__ = ["map"]
