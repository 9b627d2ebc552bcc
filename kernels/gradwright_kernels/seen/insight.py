"""How others look into kernels: the widgets ask for it by the device's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradwright.program.insight import register_insight

from .cost import Cost, cost
from .launch import SeenLaunch
from .steps import Steps


class CudaInsight:
    """A look into the kernels of ``cuda``, on a simulated GPU."""

    def steps(self, what: Any, feeds: Mapping[Any, Any]) -> Steps:
        """Return the steps of tensors, or of a trainer's next update, on feeds."""
        return Steps.of(what, feeds)

    def cost(self, launch: SeenLaunch, capability: int, flops: int | None) -> Cost:
        """Return what a launch takes on a GPU of a compute capability."""
        return cost(launch, capability, flops)


register_insight("cuda", CudaInsight())
