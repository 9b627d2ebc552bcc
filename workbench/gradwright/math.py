"""``gw.math``: elementary functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .ops import surface

if TYPE_CHECKING:
    from .ops.signatures.math import *  # noqa: F403

__getattr__, __dir__ = surface(__name__, "math")
