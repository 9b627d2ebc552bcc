"""What composites on signals share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...op import Op
from ..core.movement import Cast


class InFloat32(Op, abstract=True):
    """A composite that computes halves in float32."""

    computed: Callable[..., Any]
    """What it is for tensors of float32 or float64."""

    def expand(self, *xs: Any) -> Any:
        if xs[0].dtype.itemsize >= 4:
            return self.computed(*xs)
        wide = (None if x is None else Cast(dtype="float32")(x) for x in xs)
        return Cast(dtype=xs[0].dtype)(self.computed(*wide))
