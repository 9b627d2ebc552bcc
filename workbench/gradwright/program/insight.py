"""What a package of kernels lets others see of them; who shows it imports no such package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ..errors import LoweringError
from .lowering import family, load


class Insight(Protocol):
    """A look into the kernels of a device."""

    def steps(self, what: Any, feeds: Mapping[Any, Any]) -> Any:
        """Return the steps of tensors, or of a trainer's next update, on feeds."""

    def cost(self, launch: Any, capability: int, flops: int | None) -> Any:
        """Return what a launch takes on a GPU of a compute capability."""


_insights: dict[str, Insight] = {}


def register_insight(device: str, insight: Insight) -> None:
    """Register how one looks into the kernels of ``device``."""
    _insights[device] = insight


def insight(device: str) -> Insight:
    """Return a look into the kernels of a device, whose package is loaded.

    Raises LoweringError where it is not installed, or lets nobody look.
    """
    load(device)
    found = _insights.get(family(device))
    if found is None:
        raise LoweringError(f"nothing is known of the kernels of device {device!r}")
    return found
