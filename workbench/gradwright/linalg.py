"""``gw.linalg``: products, factorisations and solutions of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .ops import surface

if TYPE_CHECKING:
    from .ops.signatures.linalg import *  # noqa: F403

__getattr__, __dir__ = surface(__name__, "linalg")
