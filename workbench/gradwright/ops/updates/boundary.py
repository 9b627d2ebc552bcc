"""The border between parts of a program that are computed as if each were alone."""

from __future__ import annotations

from typing import Any

from ...op import Op, attr
from ...spec import TensorSpec


class Boundary(Op, abstract=True):
    """A tensor as it is, where it enters a part of a program: nothing is computed across it.

    Rewrites and kernels see what comes through it as a part that is alone sees what it is fed with,
    and what goes into it as a result: so a part computes the same bits wherever it stands. The
    number keeps what is equal in two parts, such as a function of a frozen variable, apart.

    >>> Boundary(number=2).forward(1.5)
    1.5
    """

    namespace = "inner"
    name = "boundary"
    views = True
    number: int = attr(doc="Number of the part; it reads of parts with lower ones alone.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        """Return the spec of the tensor."""
        return x

    def forward(self, x: Any) -> Any:
        """Return the tensor."""
        return x
