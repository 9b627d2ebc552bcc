"""``gw.loss``: losses of (labels, predictions, weights=None, *, reduction=...).

The functions are those of the ops in its namespace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .ops import surface

if TYPE_CHECKING:
    from .ops.signatures.loss import *  # noqa: F403

__getattr__, __dir__ = surface(__name__, "loss")
