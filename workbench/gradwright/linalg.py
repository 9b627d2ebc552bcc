"""``gw.linalg``: products of matrices; the functions of the ops in ``ops/``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .ops import member, namespace

if TYPE_CHECKING:
    from .ops.signatures.linalg import *  # noqa: F403


def __getattr__(name: str) -> Callable[..., Any]:
    return member(__name__, name, "linalg")


def __dir__() -> list[str]:
    return sorted(namespace("linalg"))
