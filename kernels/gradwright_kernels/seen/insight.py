"""How others look into kernels: the widgets ask for it by the device's name.

What looks is imported when somebody asks: it needs trainers and the debugger.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gradwright.program.insight import register_insight

if TYPE_CHECKING:
    from .cost import Cost
    from .launch import SeenLaunch
    from .steps import Steps


class CudaInsight:
    """A look into the kernels of ``cuda``, on a simulated GPU."""

    def steps(self, what: Any, feeds: Mapping[Any, Any]) -> Steps:
        """Return the steps of tensors, or of a trainer's next update, on feeds."""
        from .steps import Steps

        return Steps.of(what, feeds)

    def cost(self, launch: SeenLaunch, capability: int, flops: int | None) -> Cost:
        """Return what a launch takes on a GPU of a compute capability."""
        from .cost import cost

        return cost(launch, capability, flops)


register_insight("cuda", CudaInsight())
